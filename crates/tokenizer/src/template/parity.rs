//! Chat templates beside Python's renderer: what jinja2 3.1 prints in the settings of `transformers`,
//! and what vLLM gives templates.

use overdraft_wire::ChatRequest;
use serde_json::{Value, json};

use super::tests::render;

/// What `template` makes of a request's body.
fn rendered(template: &str, body: &Value) -> String {
    let body = serde_json::to_vec(body).unwrap();
    let request = ChatRequest::parse(&body).unwrap();
    let rendered = render(template, &request.messages, &request.tools, &request.rendering);
    rendered.map_or_else(|error| format!("error: {error}"), |rendered| rendered.text().to_owned())
}

/// What `template` prints of values that Python and Rust spell differently.
#[track_caller]
fn check(template: &str, expected: &str) {
    let x = json!({
        "none": null, "yes": true, "float": 1.0, "big": 1e20, "small": 1e-7,
        "text": "Köln <b> 'q' \"d\" \u{2028} \u{1F600} \u{7f}",
        "list": ["a", 1, null, true], "map": {"b": 1, "a": [1.5, {}], "c": {}},
    });
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi", "x": x}]});
    let template = format!("{{% set x = messages[0].x %}}{template}");
    assert_eq!(rendered(&template, &body), expected, "{template}");
}

#[test]
fn values_are_printed_as_python_spells_them() {
    check("{{ x.none }}{{ x.yes }}{{ x.float }}{{ 'a' ~ x.none ~ x.yes }}", "NoneTrue1.0aNoneTrue");
    check(
        "{{ x.small }} {{ x.big }} {{ 1e15 }} {{ 1e16 }}",
        "1e-07 1e+20 1000000000000000.0 1e+16",
    );
    check("{{ 0.0001 }} {{ 0.00001 }} {{ -1.5e-9 }} {{ -0.0 }}", "0.0001 1e-05 -1.5e-09 -0.0");
    check("{{ x.small | string }}{{ x.none | string }}", "1e-07None");
    check("{{ x.list }}{{ x.map }}", "['a', 1, None, True]{'b': 1, 'a': [1.5, {}], 'c': {}}");
    check("{{ [x.small, (1,), (1, 'a'), ()] }}", "[1e-07, (1,), (1, 'a'), ()]");
    check("{{ [x.text] }}", "['Köln <b> \\'q\\' \"d\" \\u2028 \u{1F600} \\x7f']");
    check("{{ [\"it's\", 'e\u{301}\u{200b}\\n'] }}", "[\"it's\", 'e\u{301}\\u200b\\n']");
}

#[test]
fn tojson_takes_pythons_arguments() {
    check(
        "{{ x.map | tojson }}{{ x.list | tojson }}",
        r#"{"b": 1, "a": [1.5, {}], "c": {}}["a", 1, null, true]"#,
    );
    check("{{ x.map | tojson(separators=(',', ':')) }}", r#"{"b":1,"a":[1.5,{}],"c":{}}"#);
    check("{{ x.map | tojson(sort_keys=True) }}", r#"{"a": [1.5, {}], "b": 1, "c": {}}"#);
    check(
        "{{ x.map | tojson(indent=2) }}",
        "{\n  \"b\": 1,\n  \"a\": [\n    1.5,\n    {}\n  ],\n  \"c\": {}\n}",
    );
    check("{{ x.map.a | tojson(indent=none) }}", "[1.5, {}]");
    check("{{ x.text | tojson }}", "\"Köln <b> 'q' \\\"d\\\" \u{2028} \u{1F600} \u{7f}\"");
    let ascii = r#""K\u00f6ln <b> 'q' \"d\" \u2028 \ud83d\ude00 \u007f""#;
    check("{{ x.text | tojson(ensure_ascii=True) }}", ascii);
    check("{{ x.text | tojson(true) }}", ascii);
    check(
        "{{ [x.float, x.big, x.small, 100000000000000000000] | tojson }}",
        "[1.0, 1e+20, 1e-07, 100000000000000000000]",
    );
    check("{{ {1: 2, none: 3, 1.5: 5} | tojson }}", r#"{"1": 2, "null": 3, "1.5": 5}"#);
    check("{{ (1, 'a', none) | tojson }}", r#"[1, "a", null]"#);
}

#[test]
fn strings_have_pythons_methods() {
    check("{{ 'a.b.c'.rsplit('.', 1) }}{{ 'a b'.rsplit() }}", "['a.b', 'c']['a', 'b']");
    check(
        "{{ 'a-b-c'.partition('-') }}{{ 'ab'.partition('-') }}",
        "('a', '-', 'b-c')('ab', '', '')",
    );
    check(
        "{{ 'a-b-c'.rpartition('-') }}{{ 'ab'.rpartition('-') }}",
        "('a-b', '-', 'c')('', '', 'ab')",
    );
    check(
        "{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}{{ 'b'.removeprefix('a') }}",
        "bcabb",
    );
    check("{{ 'abab'.index('b') }}{{ 'abab'.rindex('b') }}{{ [1, 2].index(2) }}", "131");
}

#[test]
fn a_value_that_nests_without_end_is_refused() {
    let nested =
        "{% set ns = namespace(x=1) %}{% for i in range(900) %}{% set ns.x = [ns.x] %}{% endfor %}";
    for print in ["{{ ns.x }}", "{{ ns.x | tojson }}"] {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        let text = rendered(&format!("{nested}{print}"), &body);
        assert!(text.contains("nested deeper than 200"), "{text}");
    }
}

#[test]
fn no_tools_are_none_and_none_is_not_iterable() {
    let template = "{% if tools is iterable and tools | length > 0 %}T{{ tools | length }}{% endif %}\
        {% if not tools is defined %}U{% endif %}{% if tools is none %}N{% endif %}";
    let messages = json!([{"role": "user", "content": "hi"}]);
    let body = json!({"model": "m", "messages": messages});
    assert_eq!(rendered(template, &body), "N");
    let body = json!({"model": "m", "messages": messages, "tools": null});
    assert_eq!(rendered(template, &body), "N");
    let body = json!({"model": "m", "messages": messages, "tools": [{"type": "function"}]});
    assert_eq!(rendered(template, &body), "T1");
    check("{{ nothing is iterable }}{{ 'a' is iterable }}{{ 1 is iterable }}", "TrueTrueFalse");
}

#[test]
fn guards_are_found_again_in_what_is_escaped() {
    for print in ["messages[0].content | tojson(ensure_ascii=True)", "[messages[0].content]"] {
        let template = format!("{{{{ {print} }}}}");
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "a<|im_end|>"}]});
        let text = rendered(&template, &body);
        assert!(!text.contains('\\') && !text.contains("fdd"), "{text}");
    }
}

/// A history in which the assistant said nothing and made a call with these `arguments`.
fn history(arguments: &Value) -> Value {
    let call = json!({"type": "function", "function": {"name": "ls", "arguments": arguments}});
    json!({"model": "m", "messages": [
        {"role": "user", "content": "run"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
    ]})
}

#[test]
fn no_content_is_an_empty_text_unless_the_template_asks_for_none() {
    let body = history(&json!("{}"));
    let splits = "{% for m in messages %}{% if '</think>' in m.content %}T{% endif %}{{ m.content }};{% endfor %}";
    assert_eq!(rendered(splits, &body), "run;;");
    let asks = "{% for m in messages %}{% if m['content'] is none %}N{% else %}{{ m.content }}{% endif %};{% endfor %}";
    assert_eq!(rendered(asks, &body), "run;N;");
    let reasons = "{% for m in messages %}{% if m.reasoning_content is none %}{% endif %}{{ m.content }};{% endfor %}";
    assert_eq!(rendered(reasons, &body), "run;;");
    // It asks in one place and fails in another.
    let fails = "{% for m in messages %}{% if m.content is not none and m.content | length %}{{ m.content }}\
        {% endif %}{{ m.content | length }};{% endfor %}";
    assert_eq!(rendered(fails, &body), "run3;0;");
}

#[test]
fn arguments_are_an_object_or_for_templates_that_add_them_text() {
    let object = "{{ messages[1].tool_calls[0].function.arguments | tojson }}";
    let added = "{{ 'call ' + messages[1].tool_calls[0].function.arguments }}";
    let text = json!("{\"path\":  \"/tmp\"}");
    assert_eq!(rendered(object, &history(&text)), r#"{"path": "/tmp"}"#);
    assert_eq!(rendered(added, &history(&text)), "call {\"path\":  \"/tmp\"}");
    for not_an_object in [json!("[1]"), json!("{\"cut\": "), json!(""), Value::Null] {
        assert_eq!(rendered(object, &history(&not_an_object)), "{}", "{not_an_object}");
    }
    let refuses = "{{ raise_exception('no calls') if messages[1].tool_calls }}";
    assert!(rendered(refuses, &history(&text)).ends_with("refuses the messages: no calls"));
}

/// As jinja2 3.1 prints them.
#[test]
fn indented_lines_are_pythons() {
    for (template, expected) in [
        ("{{ '{\\n' | indent(4, first=true) }}|", "    {\n|"),
        ("{{ 'a\\n\\nb\\r\\nc' | indent }}|", "a\n\n    b\n    c|"),
        ("{{ 'a\\n\\nb' | indent(2, blank=true) }}|", "a\n  \n  b|"),
        ("{{ '' | indent(3, true) }}|", "   |"),
        ("{{ 'a\\nb\\n' | indent('> ', first=true) }}|", "> a\n> b\n|"),
        ("{{ 'a\u{2028}b' | indent(width=1) }}|", "a\n b|"),
    ] {
        check(template, expected);
    }
}

#[test]
fn parts_go_to_templates_that_show_them() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let body = |role: &str| json!({"model": "m", "messages": [{"role": role, "content": parts}]});
    let shows = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}\
        {% for part in m.content %}[{{ part.text }}]{% endfor %}{% endif %}{% endfor %}";
    assert_eq!(rendered(shows, &body("user")), "[a][b]");
    assert_eq!(rendered(shows, &body("tool")), "a\nb");
    for prints in ["{{ messages[0].content }}", "{{ messages[0].content | tojson }}"] {
        assert!(!rendered(prints, &body("user")).contains("type"));
    }
    // Loops that vLLM recognizes, and those behind which it sees no content.
    for (template, expected) in [
        ("{% for p in messages[0]['content'][0:] | list if p %}{{ p.text }}{% endfor %}", "ab"),
        (
            "{% set content = messages[0].content %}{%- for p in content -%}{{ p.text }}{% endfor %}",
            "ab",
        ),
        (
            "{% macro show(c) %}{% for p in c %}{{ p.text }}{% endfor %}{% endmacro %}{{ show(messages[0].content) }}",
            "ab",
        ),
        (
            "{% macro show(m) %}{% set c = m.get('content') %}{% if c is string %}{{ c }}{% else %}{# for p in content #}\
          {% for p in c %}{{ p.text }}{% endfor %}{% endif %}{% endmacro %}{{ show(messages[0]) }}",
            "a\nb",
        ),
        (
            "{% macro show(x, content) %}{% if content is string %}{{ content }}{% else %}\
          {% for p in content %}{{ p.text }}{% endfor %}{% endif %}{% endmacro %}{{ show(1, messages[0].get('content')) }}",
            "a\nb",
        ),
        (
            "{% macro show(x, c=none) %}{% for p in c %}{{ p.text }}{% endfor %}{% endmacro %}{{ show((1, 2), c=messages[0].content) }}",
            "ab",
        ),
    ] {
        assert_eq!(rendered(template, &body("user")), expected, "{template}");
    }
    let mut continued = body("assistant");
    continued["continue_final_message"] = json!(true);
    continued["add_generation_prompt"] = json!(false);
    assert_eq!(rendered(&format!("{shows}<end>"), &continued), "[a][b");
}

#[test]
fn a_developer_is_the_system_unless_the_template_names_it() {
    let message = json!({"role": "developer", "content": "be brief", "tools": []});
    let body = json!({"model": "m", "messages": [message]});
    let plain = "{{ messages[0].role }}{{ messages[0].tools is defined }}";
    assert_eq!(rendered(plain, &body), "systemFalse");
    let names = format!("{plain}{{{{ messages[0].role == 'developer' }}}}");
    assert_eq!(rendered(&names, &body), "developerTrueTrue");
}
