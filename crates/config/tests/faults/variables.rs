//! What the environment adds, and how that goes wrong.

use crate::check;

#[test]
fn an_environment_variable_that_is_not_set() {
    check(
        "bad.yaml",
        "workers:
  - url: http://10.0.0.5:8000
admin:
  token: ${ADMIN_TOKEN}
model_default: ${MODEL}
",
        &[],
        "
bad.yaml:4:10: the environment variable `ADMIN_TOKEN` is not set
  |
4 |   token: (redacted)
  |          ^^^^^^^^^^
  = set it, or give a default as in `${ADMIN_TOKEN:-value}`

bad.yaml:5:16: the environment variable `MODEL` is not set
  |
5 | model_default: ${MODEL}
  |                ^^^^^^^^
  = set it, or give a default as in `${MODEL:-value}`
",
    );
}

#[test]
fn a_variable_that_is_not_closed() {
    check(
        "bad.yaml",
        r#"model_default: "a-${MODEL"
"#,
        &[],
        r#"
bad.yaml:1:19: a `${` is not closed
  |
1 | model_default: "a-${MODEL"
  |                   ^^
  = expected `${NAME}`; `$${` is a plain `${`
"#,
    );
}

#[test]
fn a_variable_without_a_name() {
    check(
        "bad.yaml",
        r#"model_default: "${1st}"
"#,
        &[],
        r#"
bad.yaml:1:17: `${1st}` does not name a variable
  |
1 | model_default: "${1st}"
  |                 ^^^^^^
  = expected `${NAME}` or `${NAME:-default}`, of letters, digits and `_`
"#,
    );
}

#[test]
fn a_variable_with_a_bad_value() {
    check(
        "bad.yaml",
        r#"limits: {requests: "${REQUESTS}"}
"#,
        &[("REQUESTS", "lots")],
        r#"
bad.yaml:1:20: `limits.requests` is `lots`
  |
1 | limits: {requests: "${REQUESTS}"}
  |                    ^^^^^^^^^^^^^
  = expected a whole number from 0 to 4294967295
"#,
    );
}

#[test]
fn an_override_with_a_bad_value() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]\n",
        &[("OVERDRAFT__SCRAPE__INTERVAL", "soon")],
        "
OVERDRAFT__SCRAPE__INTERVAL: `scrape.interval`: `soon` is not a span of time
 = expected a number and a unit, as in `200ms`, `2s` or `1m`, at most `7d`
",
    );
}

#[test]
fn an_override_of_an_unknown_key() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]\n",
        &[("OVERDRAFT__SCRAPE__INTERVALL", "1s")],
        "
OVERDRAFT__SCRAPE__INTERVALL: unknown key `intervall` in `scrape`; did you mean `interval`?
 = expected one of `interval`, `idle_interval`, `timeout`, `bytes_max`, `failure`
",
    );
}

#[test]
fn an_override_outside_a_list() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]\n",
        &[("OVERDRAFT__WORKERS__4__URL", "http://x:1")],
        "
OVERDRAFT__WORKERS__4__URL: `4` is not in a list of 1
 = expected an index, counted from 0
",
    );
}

#[test]
fn an_override_that_names_nothing() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]\n",
        &[("OVERDRAFT__", "1")],
        "
OVERDRAFT__: it names no key
 = expected `OVERDRAFT__SECTION__KEY`
",
    );
}

#[test]
fn an_override_below_a_value() {
    check(
        "bad.yaml",
        "listen: 127.0.0.1:1\n",
        &[("OVERDRAFT__LISTEN__PORT", "1")],
        "
OVERDRAFT__LISTEN__PORT: `PORT` is asked of a value that has no keys
 = expected the name of a key that the file has
",
    );
}

#[test]
fn an_override_that_is_not_yaml() {
    check(
        "bad.yaml",
        "workers: []\n",
        &[("OVERDRAFT__WORKERS", "[{url: ")],
        "
OVERDRAFT__WORKERS: not YAML: unclosed bracket '{'
 = expected `key: value` lines; strings that hold `: `, `#` or `${…}` go in quotes
",
    );
}
