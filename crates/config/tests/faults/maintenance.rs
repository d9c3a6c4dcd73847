//! Scaling, memory and restarts that can be read and cannot be meant.

use crate::check;

#[test]
fn an_exporter_that_speaks_tls() {
    check(
        "bad.yaml",
        "workers:
  - url: http://10.0.0.5:8000
    memory:
      url: https://a/metrics
",
        &[],
        "
bad.yaml:4:12: `workers[0].memory.url` is not an address of plain HTTP
  |
4 |       url: https://a/metrics
  |            ^^^^^^^^^^^^^^^^^
  = expected one as in `http://10.0.0.5:9400/metrics`, without a user name
",
    );
}

#[test]
fn an_address_that_no_worker_that_is_found_will_have() {
    check(
        "bad.yaml",
        "discovery:
  - file:
      path: workers
      each:
        kv_events: {endpoint: \"tcp://{host}:0\"}
        memory: {url: \"http://{host}:9400/{pod}\"}
        restart: {webhook: {url: \"http://{host}:{port}/{name}\"}}
",
        &[],
        "
bad.yaml:5:31: `tcp://{host}:0` is not an address of events
  |
5 |         kv_events: {endpoint: \"tcp://{host}:0\"}
  |                               ^^^^^^^^^^^^^^^^
  = expected one as in `tcp://10.0.0.5:5557`

bad.yaml:6:23: `discovery[0].file.each.memory.url` is not an address of plain HTTP
  |
6 |         memory: {url: \"http://{host}:9400/{pod}\"}
  |                       ^^^^^^^^^^^^^^^^^^^^^^^^^^
  = expected one as in `http://10.0.0.5:9400/metrics`, without a user name
",
    );
}

#[test]
fn one_name_of_which_no_share_follows() {
    check(
        "bad.yaml",
        "workers:
  - url: http://10.0.0.5:8000
    memory:
      url: http://a/m
      used: x
",
        &[],
        "
bad.yaml:3:5: `workers[0].memory` names one metric; no share follows
  |
3 |     memory:
  |     ^^^^^^
  = expected two of `used`, `free` and `total`, or none for known exporters
",
    );
}

#[test]
fn a_supervisor_with_a_path() {
    check(
        "bad.yaml",
        "workers:
  - url: http://10.0.0.5:8000
    restart:
      supervise:
        url: http://a:7/x
",
        &[],
        "
bad.yaml:5:14: `workers[0].restart.supervise.url` has a path
  |
5 |         url: http://a:7/x
  |              ^^^^^^^^^^^^
  = expected `http://host:port`
",
    );
}

#[test]
fn a_target_of_nothing() {
    check(
        "bad.yaml",
        "workers:
  - url: http://10.0.0.5:8000
scaling:
  queue_target: 0
",
        &[],
        "
bad.yaml:4:17: `scaling.queue_target` is `0`
  |
4 |   queue_target: 0
  |                 ^
  = expected at least 1
",
    );
}
