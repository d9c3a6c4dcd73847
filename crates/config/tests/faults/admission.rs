//! Admission that would admit nothing, or everything in the wrong order.

use crate::check;

#[test]
fn a_mode_that_is_none() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
admission: {mode: peek}
",
        &[],
        "
bad.yaml:2:19: `admission.mode`: `peek` is not a mode
  |
2 | admission: {mode: peek}
  |                   ^^^^
  = expected `peak`, `threshold`, `reserve`, `off`, or a number of requests as in `static:64`
",
    );
}

#[test]
fn a_static_mode_of_nothing() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
admission: {mode: 'static:0'}
",
        &[],
        "
bad.yaml:2:19: `admission.mode`: `static:0` is not a mode
  |
2 | admission: {mode: 'static:0'}
  |                   ^^^^^^^^^^
  = expected `peak`, `threshold`, `reserve`, `off`, or a number of requests as in `static:64`
",
    );
}

#[test]
fn a_threshold_that_is_no_share() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
admission:
  kv_threshold: {flex: 850}
",
        &[],
        "
bad.yaml:3:24: `admission.kv_threshold.flex`: `850` is not a share
  |
3 |   kv_threshold: {flex: 850}
  |                        ^^^
  = expected `0%` to `100%` or `0.0` to `1.0`, in steps of 0.1 %
",
    );
}

#[test]
fn thresholds_of_nothing() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
admission:
  kv_threshold: {flex: 0%}
",
        &[],
        "
bad.yaml:3:24: `admission.kv_threshold.flex` is `0%`, which refuses everything
  |
3 |   kv_threshold: {flex: 0%}
  |                        ^^
  = expected more than `0%`
",
    );
}

#[test]
fn thresholds_upside_down() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
admission:
  kv_threshold: {flex: 95%, default: 90%}
",
        &[],
        "
bad.yaml:3:38: `default` would be refused at `90%`, before `flex` at `95%`
  |
3 |   kv_threshold: {flex: 95%, default: 90%}
  |                                      ^^^
  = expected at least the threshold of `flex`
",
    );
}

#[test]
fn a_watermark_that_keeps_most() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
admission: {watermark: 60%}
",
        &[],
        "
bad.yaml:2:24: `60%` of the cache would lie idle
  |
2 | admission: {watermark: 60%}
  |                        ^^^
  = expected at most `50%`
",
    );
}

#[test]
fn waiting_for_no_time() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
admission:
  prefill_backlog: 0s
  first_token: {flex: 0s}
",
        &[],
        "
bad.yaml:3:20: `admission.prefill_backlog` is no time at all
  |
3 |   prefill_backlog: 0s
  |                    ^^
  = expected more than `0s`, as in `1s`

bad.yaml:4:23: `admission.first_token.flex` is no time at all
  |
4 |   first_token: {flex: 0s}
  |                       ^^
  = expected more than `0s`
",
    );
}

#[test]
fn a_queue_smaller_than_a_tenant() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
admission:
  queue: {requests: 10, per_tenant: 20}
",
        &[],
        "
bad.yaml:3:37: `20` requests of one tenant cannot fit into `10`
  |
3 |   queue: {requests: 10, per_tenant: 20}
  |                                     ^^
  = expected `per_tenant` to be at most `requests`
",
    );
}

#[test]
fn a_class_that_is_none() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
admission:
  first_token: {low: 1s}
",
        &[],
        "
bad.yaml:3:17: unknown key `low` in `admission.first_token`
  |
3 |   first_token: {low: 1s}
  |                 ^^^
  = expected one of `flex`, `default`, `priority`
",
    );
}

#[test]
fn a_worker_that_schedules_perhaps() {
    check(
        "bad.yaml",
        "workers:
  - {url: 'http://10.0.0.5:8000', priority_scheduling: maybe}
",
        &[],
        "
bad.yaml:2:56: `workers[0].priority_scheduling` is `maybe`
  |
2 |   - {url: 'http://10.0.0.5:8000', priority_scheduling: maybe}
  |                                                        ^^^^^
  = expected `true` or `false`
",
    );
}
