//! Keys that do not exist and values of the wrong kind.

use crate::check;

#[test]
fn an_unknown_key() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
scrape:
  intervall: 2s
",
        &[],
        "
bad.yaml:3:3: unknown key `intervall` in `scrape`; did you mean `interval`?
  |
3 |   intervall: 2s
  |   ^^^^^^^^^
  = expected one of `interval`, `idle_interval`, `timeout`, `bytes_max`, `failure`
",
    );
}

#[test]
fn an_unknown_key_at_the_top() {
    check(
        "bad.yaml",
        "worker:
  - url: http://10.0.0.5:8000
",
        &[],
        "
bad.yaml:1:1: unknown key `worker`; did you mean `workers`?
  |
1 | worker:
  | ^^^^^^
  = expected one of `version`, `listen`, `tls`, `http2`, `admin`, `dashboard`, `compression`, `cors`, `headers`, `tracing`, `keys`, `keys_file`, `jwt`, `model_default`, `models`, `cascades`, `canaries`, `cascade_state`, `prices`, `routing`, `workers`, `discovery`, `scrape`, `probe`, `timeouts`, `limits`, `shutdown`, `admission`, `retry`, `resume`, `hedging`, `breaker`, `store`, `cache`, `responses`, `isolation`, `termination`, `scaling`, `fragmentation`, `warm_up`, `speculation`
",
    );
}

#[test]
fn an_unknown_key_like_no_other() {
    check(
        "bad.toml",
        "[probe]
bananas = 3
",
        &[],
        "
bad.toml:2:1: unknown key `bananas` in `probe`
  |
2 | bananas = 3
  | ^^^^^^^
  = expected one of `interval`, `timeout`
",
    );
}

#[test]
fn a_key_in_kebab_case() {
    check(
        "bad.yaml",
        "timeouts: {first-byte: 2s}\n",
        &[],
        "
bad.yaml:1:12: unknown key `first-byte` in `timeouts`; did you mean `first_byte`?
  |
1 | timeouts: {first-byte: 2s}
  |            ^^^^^^^^^^
  = expected one of `connect`, `first_byte`, `idle`, `total`, `body`, `client_idle`, `client_stall`
",
    );
}

#[test]
fn text_where_a_number_belongs() {
    check(
        "bad.yaml",
        "limits:
  requests: many
",
        &[],
        "
bad.yaml:2:13: `limits.requests` is `many`
  |
2 |   requests: many
  |             ^^^^
  = expected a whole number from 0 to 4294967295
",
    );
}

#[test]
fn a_number_where_text_belongs() {
    check(
        "bad.yaml",
        "model_default: 70\n",
        &[],
        "
bad.yaml:1:16: `model_default` is `70`
  |
1 | model_default: 70
  |                ^^
  = expected text; numbers and `true` go in quotes
",
    );
}

#[test]
fn a_negative_number() {
    check(
        "bad.yaml",
        "retry: {floor: -1}\n",
        &[],
        "
bad.yaml:1:16: `retry.floor` is `-1`
  |
1 | retry: {floor: -1}
  |                ^^
  = expected a whole number from 0 to 4294967295
",
    );
}

#[test]
fn a_number_too_large() {
    check(
        "bad.yaml",
        "retry: {attempts_extra: 300}\n",
        &[],
        "
bad.yaml:1:25: `retry.attempts_extra` is `300`
  |
1 | retry: {attempts_extra: 300}
  |                         ^^^
  = expected a whole number from 0 to 255
",
    );
}

#[test]
fn a_list_where_a_table_belongs() {
    check(
        "bad.yaml",
        "probe:
  - interval: 1s
",
        &[],
        "
bad.yaml:2:3: `probe` is a list
  |
2 |   - interval: 1s
  |   ^
  = expected a table
",
    );
}

#[test]
fn a_table_where_a_list_belongs() {
    check(
        "bad.yaml",
        "workers:
  url: http://10.0.0.5:8000
",
        &[],
        "
bad.yaml:2:3: `workers` is a table
  |
2 |   url: http://10.0.0.5:8000
  |   ^
  = expected a list
",
    );
}

#[test]
fn text_where_a_table_belongs() {
    check(
        "bad.toml",
        r#"scrape = "often"
"#,
        &[],
        r#"
bad.toml:1:10: `scrape` is `often`
  |
1 | scrape = "often"
  |          ^^^^^^^
  = expected a table
"#,
    );
}

#[test]
fn a_span_without_a_unit() {
    check(
        "bad.yaml",
        "probe:
  interval: 500
",
        &[],
        "
bad.yaml:2:13: `probe.interval`: `500` is not a span of time
  |
2 |   interval: 500
  |             ^^^
  = expected a number and a unit, as in `200ms`, `2s` or `1m`, at most `7d`
",
    );
}

#[test]
fn a_span_with_an_unknown_unit() {
    check(
        "bad.yaml",
        "probe:
  interval: 2 fortnights
",
        &[],
        "
bad.yaml:2:13: `probe.interval`: `2 fortnights` is not a span of time
  |
2 |   interval: 2 fortnights
  |             ^^^^^^^^^^^^
  = expected a number and a unit, as in `200ms`, `2s` or `1m`, at most `7d`
",
    );
}

#[test]
fn a_share_above_the_whole() {
    check(
        "bad.yaml",
        "retry: {share: 20}\n",
        &[],
        "
bad.yaml:1:16: `retry.share`: `20` is not a share
  |
1 | retry: {share: 20}
  |                ^^
  = expected `0%` to `100%` or `0.0` to `1.0`, in steps of 0.1 %
",
    );
}

#[test]
fn a_size_with_an_unknown_unit() {
    check(
        "bad.yaml",
        "scrape: {bytes_max: 4 megs}\n",
        &[],
        "
bad.yaml:1:21: `scrape.bytes_max`: `4 megs` is not a size
  |
1 | scrape: {bytes_max: 4 megs}
  |                     ^^^^^^
  = expected bytes or a number and a unit, as in `512KiB` or `64MiB`, at most `1TiB`
",
    );
}

#[test]
fn an_unknown_policy() {
    check(
        "bad.yaml",
        "routing:
  policy: prefix-afinity
",
        &[],
        "
bad.yaml:2:11: `routing.policy` is `prefix-afinity`; did you mean `prefix-affinity`?
  |
2 |   policy: prefix-afinity
  |           ^^^^^^^^^^^^^^
  = expected one of `cost`, `fit-score`, `prefix-affinity`, `least-load`, `two-choices`, `round-robin`, `random`, `cache-aware`, `dynamo`, `llm-d`
",
    );
}

#[test]
fn an_unknown_policy_like_no_other() {
    check(
        "bad.yaml",
        "routing: {policy: auto}\n",
        &[],
        "
bad.yaml:1:19: `routing.policy` is `auto`
  |
1 | routing: {policy: auto}
  |                   ^^^^
  = expected one of `cost`, `fit-score`, `prefix-affinity`, `least-load`, `two-choices`, `round-robin`, `random`, `cache-aware`, `dynamo`, `llm-d`
",
    );
}

#[test]
fn an_unknown_word_for_events() {
    check(
        "bad.yaml",
        "workers:
  - {url: 'http://10.0.0.5:8000', kv_events: of}
",
        &[],
        "
bad.yaml:2:46: `workers[0].kv_events` is `of`; did you mean `off`?
  |
2 |   - {url: 'http://10.0.0.5:8000', kv_events: of}
  |                                              ^^
  = expected one of `auto`, `off`
",
    );
}

#[test]
fn an_unknown_kind_of_discovery() {
    check(
        "bad.yaml",
        "discovery:
  - dsn: {name: workers.svc, port: 8000}
",
        &[],
        "
bad.yaml:2:5: `discovery[0]` is `dsn`; did you mean `dns`?
  |
2 |   - dsn: {name: workers.svc, port: 8000}
  |     ^^^
  = expected one of `dns`, `file`, `kubernetes`
",
    );
}

#[test]
fn two_kinds_of_discovery_in_one() {
    check(
        "bad.yaml",
        "discovery:
  - dns: {name: workers.svc, port: 8000}
    file: {path: x}
",
        &[],
        "
bad.yaml:2:5: `discovery[0]` is a table of 2 keys
  |
2 |   - dns: {name: workers.svc, port: 8000}
  |     ^
  = expected one key of `dns`, `file`, `kubernetes`
",
    );
}

#[test]
fn a_worker_without_a_url() {
    check(
        "bad.yaml",
        "workers:
  - name: a
",
        &[],
        "
bad.yaml:2:5: `workers[0]` has no `url`
  |
2 |   - name: a
  |     ^
  = add the key `url`
",
    );
}

#[test]
fn a_listen_address_by_name() {
    check(
        "bad.yaml",
        "listen: localhost:8080\n",
        &[],
        "
bad.yaml:1:9: `listen`: `localhost:8080` is not an address
  |
1 | listen: localhost:8080
  |         ^^^^^^^^^^^^^^
  = expected an IP address and a port, as in `127.0.0.1:8080` or `[::]:8080`
",
    );
}

#[test]
fn a_canary_above_the_whole() {
    check(
        "bad.yaml",
        "routing:
  canary: {policy: cost, share: 120%}
",
        &[],
        "
bad.yaml:2:33: `routing.canary.share`: `120%` is not a share
  |
2 |   canary: {policy: cost, share: 120%}
  |                                 ^^^^
  = expected `0%` to `100%` or `0.0` to `1.0`, in steps of 0.1 %
",
    );
}

#[test]
fn a_weight_above_one() {
    check(
        "bad.yaml",
        "routing:
  fit_score: {kv_weight: 1.2}
",
        &[],
        "
bad.yaml:2:26: `routing.fit_score.kv_weight`: `1.2` is not a share
  |
2 |   fit_score: {kv_weight: 1.2}
  |                          ^^^
  = expected `0%` to `100%` or `0.0` to `1.0`, in steps of 0.1 %
",
    );
}

#[test]
fn a_secret_of_the_wrong_type() {
    check(
        "bad.toml",
        "[admin]
token = 123456
",
        &[],
        "
bad.toml:2:9: `admin.token` is (redacted)
  |
2 | token = (redacted)
  |         ^^^^^^
  = expected text; numbers and `true` go in quotes
",
    );
}
