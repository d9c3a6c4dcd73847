//! Tokens that would be anybody's, and keys that anybody could change.

use crate::check;

#[test]
fn keys_from_nowhere_and_a_token_without_end() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
jwt:
  issuer: https://id.example
  audience: ''
  leeway: 1h
",
        &[],
        "
bad.yaml:2:1: `jwt` does not say where the issuer's keys are
  |
2 | jwt:
  | ^^^
  = expected either `jwks_url` or `jwks_file`

bad.yaml:4:13: `jwt.audience` is empty
  |
4 |   audience: ''
  |             ^^
  = expected what the tokens have there

bad.yaml:5:11: tokens would be good for `1h` after their end
  |
5 |   leeway: 1h
  |           ^^
  = expected at most `10m`
",
    );
}

#[test]
fn keys_that_somebody_on_the_way_could_change() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
jwt:
  issuer: https://id.example
  audience: llm
  jwks_url: http://id.example/keys
  jwks_refresh: 1s
  algorithms: []
",
        &[],
        "
bad.yaml:5:13: `jwt.jwks_url` is not encrypted: an attacker on the network could sign tokens
  |
5 |   jwks_url: http://id.example/keys
  |             ^^^^^^^^^^^^^^^^^^^^^^
  = expected one as in `https://id.example/jwks.json`, without a user name; `http` on this machine only

bad.yaml:6:17: the issuer would be asked every `1s`
  |
6 |   jwks_refresh: 1s
  |                 ^^
  = expected at least `10s`

bad.yaml:7:15: `jwt.algorithms` is empty, which refuses every token
  |
7 |   algorithms: []
  |               ^
  = expected one, as in `[RS256]`
",
    );
}

#[test]
fn an_algorithm_that_takes_a_secret() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
jwt:
  issuer: https://id.example
  audience: llm
  jwks_file: keys.json
  algorithms: [HS256]
",
        &[],
        "
bad.yaml:6:16: `jwt.algorithms[0]` is `HS256`; did you mean `RS256`?
  |
6 |   algorithms: [HS256]
  |                ^^^^^
  = expected one of `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`, `ES384`, `EdDSA`
",
    );
}

#[test]
fn a_tenant_that_may_ask_for_nothing() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
jwt:
  issuer: https://id.example
  audience: llm
  jwks_file: keys.json
  ca_file: ca.pem
  jwks_max_age: 10s
  defaults: {models: [], tokens_per_minute: 0}
",
        &[],
        "
bad.yaml:6:12: `jwt.ca_file` is set without `jwks_url`
  |
6 |   ca_file: ca.pem
  |            ^^^^^^
  = expected the address it is for

bad.yaml:7:17: keys would be too old after `10s`
  |
7 |   jwks_max_age: 10s
  |                 ^^^
  = expected `jwks_max_age` to be more than `jwks_refresh`

bad.yaml:8:22: `jwt.defaults.models` is empty, which refuses everything
  |
8 |   defaults: {models: [], tokens_per_minute: 0}
  |                      ^
  = expected a model; leave it out to allow all

bad.yaml:8:45: `jwt.defaults.tokens_per_minute` is `0`, which refuses everything
  |
8 |   defaults: {models: [], tokens_per_minute: 0}
  |                                             ^
  = expected at least 1; leave it out for no limit
",
    );
}
