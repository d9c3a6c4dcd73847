//! Whatever stands where a tokenizer, a document or a chat template should be, it is read or refused, and nothing panics.

use std::sync::Arc;

use overdraft_tokenizer::{Prompter, TokenizerDocument, TokenizerSource};
use overdraft_units::CacheSalt;
use overdraft_wire::Generation;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{pairs, pieces, prompter};

/// Values that take another one's place.
fn odd() -> impl Strategy<Value = Value> {
    let odd = [
        Value::Null,
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("\u{0}"),
        json!("\\p{L}+(?!"),
        json!([]),
        json!([[]]),
        json!({}),
        json!({"type": "BPE"}),
        json!(true),
    ];
    prop::sample::select(odd.to_vec())
}

/// Another value at some place of a file.
fn disturb(file: &mut Value, path: &[prop::sample::Index], value: &Value) {
    let mut at = file;
    for step in path {
        let count =
            at.as_array().map_or(0, Vec::len) + at.as_object().map_or(0, serde_json::Map::len);
        if count == 0 {
            break;
        }
        let place = step.index(count);
        let next = match at {
            Value::Array(list) => list.get_mut(place),
            Value::Object(members) => members.values_mut().nth(place),
            _ => None,
        };
        let Some(next) = next else { return };
        at = next;
    }
    *at = value.clone();
}

/// What templates are made of, whole and broken.
const FRAGMENTS: [&str; 24] = [
    "{% for message in messages %}",
    "{% endfor %}",
    "{% if messages[0].role == 'user' %}",
    "{% else %}",
    "{% endif %}",
    "{{ message.content }}",
    "{{ message['role'] | trim }}",
    "{{ messages | tojson }}",
    "{{ messages[-1].content[:3] }}",
    "{{ tools | length }}",
    "{{ raise_exception('no') }}",
    "{{ strftime_now('%Y') }}",
    "{% set x = namespace(a=1) %}",
    "{% set x.a = x.a + 1 %}",
    "{% macro m(a) %}{{ a }}{% endmacro %}",
    "{{ m(messages) }}",
    "{% generation %}",
    "{% endgeneration %}",
    "{{ range(9) | list | join('\u{fdd0}') }}",
    "{{ bos_token + eos_token }}",
    "{#",
    "{{",
    "%}",
    "\u{0}ä\n",
];

fn ask(prompter: &Prompter) {
    let messages =
        json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": null}]);
    let body = json!({"messages": messages, "tools": [{"type": "function"}]}).to_string();
    let _rendered = prompter.prompt_of(body.as_bytes(), Generation::Chat, 0);
    let _tokens =
        prompter.text("a text <|im_end|>", overdraft_tokenizer::Framing::Added, CacheSalt(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_disturbed_tokenizer_json_is_read_or_refused(
        is_pieces in any::<bool>(),
        changes in prop::collection::vec(
            (prop::collection::vec(any::<prop::sample::Index>(), 1..5), odd()),
            1..4,
        ),
    ) {
        let mut file = if is_pieces { pieces() } else { pairs() };
        for (path, value) in &changes {
            disturb(&mut file, path, value);
        }
        if let Ok(prompter) = prompter(&file, &Value::Null) {
            ask(&prompter);
        }
    }

    #[test]
    fn a_broken_document_is_read_or_refused(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let source = TokenizerSource::bytes(&["<|im_start|>", "<|im_end|>"]);
        let mut bytes = TokenizerDocument::new(&source, Some("{{ messages }}")).json().to_vec();
        for (at, byte) in &flips {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if flips.is_empty() {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _read = Prompter::from_document(&bytes, Arc::default());
    }

    #[test]
    fn a_template_of_any_fragments_is_rendered_or_refused(
        parts in prop::collection::vec(prop::sample::select(FRAGMENTS.to_vec()), 0..10),
    ) {
        let source = TokenizerSource::bytes(&["<|im_start|>", "<|im_end|>"]);
        let document = TokenizerDocument::new(&source, Some(&parts.concat()));
        if let Ok(prompter) = Prompter::from_document(document.json(), Arc::default()) {
            ask(&prompter);
        }
    }
}
