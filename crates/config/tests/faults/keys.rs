//! Keys that can never be presented, and what they may do.

use crate::check;

#[test]
fn a_key_without_a_key() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - {tenant: acme}
",
        &[],
        "
bad.yaml:3:5: `keys[0]` has no key
  |
3 |   - {tenant: acme}
  |     ^
  = expected either `key` or `key_sha256`
",
    );
}

#[test]
fn a_key_without_a_tenant() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - {key: sk-secret}
",
        &[],
        "
bad.yaml:3:5: `keys[0]` has no `tenant`
  |
3 |   - {key: (redacted)
  |     ^
  = add the key `tenant`
",
    );
}

#[test]
fn a_key_that_is_given_twice() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - tenant: acme
    key: sk-secret
    key_sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
",
        &[],
        "
bad.yaml:5:5: `keys[0]` has its key twice
  |
5 |     key_sha256: (redacted)
  |     ^^^^^^^^^^
  = expected either `key` or `key_sha256`
",
    );
}

#[test]
fn a_key_that_is_empty_or_has_spaces() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - {tenant: acme, key: ''}
  - {tenant: acme, key: sk secret}
",
        &[],
        "
bad.yaml:3:25: `keys[0].key` cannot be presented in a header
  |
3 |   - {tenant: acme, key: (redacted)
  |                         ^^
  = expected 1 to 512 printable ASCII characters without spaces

bad.yaml:4:25: `keys[1].key` cannot be presented in a header
  |
4 |   - {tenant: acme, key: (redacted)
  |                         ^^^^^^^^^
  = expected 1 to 512 printable ASCII characters without spaces
",
    );
}

#[test]
fn a_key_whose_variable_is_empty() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - tenant: acme
    key: ${ACME_KEY}
",
        &[("ACME_KEY", "")],
        "
bad.yaml:4:10: `keys[0].key` cannot be presented in a header
  |
4 |     key: (redacted)
  |          ^^^^^^^^^^
  = expected 1 to 512 printable ASCII characters without spaces
",
    );
}

#[test]
fn a_digest_that_is_none() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - tenant: acme
    key_sha256: sk-secret
",
        &[],
        "
bad.yaml:4:17: `keys[0].key_sha256` is not a SHA-256
  |
4 |     key_sha256: (redacted)
  |                 ^^^^^^^^^
  = expected 64 hexadecimal digits, as `printf %s KEY | sha256sum` prints them
",
    );
}

#[test]
fn a_key_of_two_tenants() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - {tenant: acme, key: sk-secret}
  - {tenant: bolt, key: sk-secret}
",
        &[],
        "
bad.yaml:4:25: `keys[1]` has the key of another, on line 3
  |
4 |   - {tenant: bolt, key: (redacted)
  |                         ^^^^^^^^^
  = expected each key once
",
    );
}

#[test]
fn tenants_with_impossible_names() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - {key: sk-1, tenant: ''}
  - {key: sk-2, tenant: other}
  - {key: sk-3, tenant: acme, name: \"a\\nb\"}
",
        &[],
        "
bad.yaml:3:25: `` is not a tenant's name
  |
3 |   - {key: (redacted)
  |                         ^
  = expected 1 to 64 printable ASCII characters

bad.yaml:4:25: `other` is what tenants without a name are called
  |
4 |   - {key: (redacted)
  |                         ^
  = expected a name of its own

bad.yaml:5:37: `a\\nb` is not a key's name
  |
5 |   - {key: (redacted)
  |                                     ^
  = expected 1 to 64 printable ASCII characters
",
    );
}

#[test]
fn a_priority_that_is_none() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - {key: sk-1, tenant: acme, priority: high}
",
        &[],
        "
bad.yaml:3:41: `keys[0].priority` is `high`
  |
3 |   - {key: (redacted)
  |                                         ^
  = expected one of `flex`, `default`, `priority`
",
    );
}

#[test]
fn a_default_above_the_most() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - tenant: acme
    key: sk-1
    priority: priority
    priority_max: default
",
        &[],
        "
bad.yaml:6:19: its requests would be `priority`, and may be `default` at most
  |
6 |     priority_max: default
  |                   ^^^^^^^
  = expected `priority_max` to be at least `priority`
",
    );
}

#[test]
fn budgets_of_nothing() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - tenant: acme
    key: sk-1
    requests_per_minute: 0
    tokens_per_minute: 0
",
        &[],
        "
bad.yaml:5:26: `keys[0].requests_per_minute` is `0`, which refuses everything
  |
5 |     requests_per_minute: 0
  |                          ^
  = expected at least 1; leave it out for no limit

bad.yaml:6:24: `keys[0].tokens_per_minute` is `0`, which refuses everything
  |
6 |     tokens_per_minute: 0
  |                        ^
  = expected at least 1; leave it out for no limit
",
    );
}

#[test]
fn a_budget_that_is_no_number() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - tenant: acme
    key: sk-1
    tokens_per_minute: 10k
",
        &[],
        "
bad.yaml:5:24: `keys[0].tokens_per_minute` is `10k`
  |
5 |     tokens_per_minute: 10k
  |                        ^^^
  = expected a whole number from 0 to 4294967295
",
    );
}

#[test]
fn models_whose_names_are_empty_or_have_blanks_around_them() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - tenant: acme
    key: sk-1
    models: [llama, ' llama', '']
",
        &[],
        "
bad.yaml:5:21: ` llama` is not a model's name
  |
5 |     models: [llama, ' llama', '']
  |                     ^^^^^^^^
  = expected one without blanks at its ends

bad.yaml:5:31: `` is not a model's name
  |
5 |     models: [llama, ' llama', '']
  |                               ^^
  = expected one without blanks at its ends
",
    );
}

#[test]
fn models_that_a_key_cannot_have() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - tenant: acme
    key: sk-1
    models: [lama]
  - {tenant: bolt, key: sk-2, models: []}
",
        &[],
        "
bad.yaml:5:14: no worker serves the model `lama`; did you mean `llama`?
  |
5 |     models: [lama]
  |              ^^^^
  = expected a model or an alias

bad.yaml:6:39: `keys[1].models` is empty, which refuses everything
  |
6 |   - {tenant: bolt, key: (redacted)
  |                                       ^
  = expected a model; leave it out to allow all
",
    );
}

#[test]
fn keys_that_are_no_list() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys: sk-secret
",
        &[],
        "
bad.yaml:2:7: `keys` is (redacted)
  |
2 | keys: (redacted)
  |       ^^^^^^^^^
  = expected a list
",
    );
}

#[test]
fn a_key_that_is_a_list() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys: [{tenant: acme, key: [sk-secret]}]
",
        &[],
        "
bad.yaml:2:28: `keys[0].key` is (redacted)
  |
2 | keys: (redacted)
  |                            ^
  = expected text; numbers and `true` go in quotes
",
    );
}

#[test]
fn a_key_without_its_table() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - sk-secret
",
        &[],
        "
bad.yaml:3:5: `keys[0]` is (redacted)
  |
3 |   - (redacted)
  |     ^^^^^^^^^
  = expected a table
",
    );
}

#[test]
fn a_key_that_is_misspelt() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - {key: sk-secret, tennant: acme}
",
        &[],
        "
bad.yaml:3:22: unknown key `tennant` in `keys[0]`; did you mean `tenant`?
  |
3 |   - {key: (redacted)
  |                      ^
  = expected one of `key`, `key_sha256`, `tenant`, `name`, `expires`, `priority`, `priority_max`, `models`, `cascade`, `requests_per_minute`, `tokens_per_minute`, `cache`, `deadline`
",
    );
}

#[test]
fn an_end_that_is_no_point_in_time() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
keys:
  - {key_sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef, tenant: acme,
     expires: 2027-01-31}
",
        &[],
        "
bad.yaml:4:15: `keys[0].expires`: `2027-01-31` is not a point in time
  |
4 |      expires: 2027-01-31}
  |               ^^^^^^^^^^
  = expected a date, a time and an offset from UTC, as in `2027-01-31T00:00:00Z`
",
    );
}
