//! Values that can be read and cannot be meant.

use crate::check;

#[test]
fn a_duplicate_worker() {
    check(
        "bad.yaml",
        "workers:
  - url: http://10.0.0.5:8000
  - url: http://10.0.0.6:8000
  - url: http://10.0.0.5:8000/
",
        &[],
        "
bad.yaml:4:10: `http://10.0.0.5:8000/` is already a worker, on line 2
  |
4 |   - url: http://10.0.0.5:8000/
  |          ^^^^^^^^^^^^^^^^^^^^^
  = expected each worker once
",
    );
}

#[test]
fn a_duplicate_name() {
    check(
        "bad.yaml",
        "workers:
  - {url: 'http://10.0.0.5:8000', name: a}
  - {url: 'http://10.0.0.6:8000', name: a}
",
        &[],
        "
bad.yaml:3:41: two workers are called `a`
  |
3 |   - {url: 'http://10.0.0.6:8000', name: a}
  |                                         ^
  = expected a name of its own; the other is on line 2
",
    );
}

#[test]
fn a_store_that_is_given_no_time() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
store:
  timeout: 0s
  share_interval: 0s
",
        &[],
        "
bad.yaml:3:12: `store.timeout` is no time at all
  |
3 |   timeout: 0s
  |            ^^
  = expected more than `0s`

bad.yaml:4:19: `store.share_interval` is no time at all
  |
4 |   share_interval: 0s
  |                   ^^
  = expected more than `0s`
",
    );
}

#[test]
fn a_worker_that_speaks_something_else() {
    check(
        "bad.yaml",
        "workers:
  - url: grpc://10.0.0.5:8000
",
        &[],
        "
bad.yaml:2:10: `workers[0].url`: its scheme is neither `http` nor `https`
  |
2 |   - url: grpc://10.0.0.5:8000
  |          ^^^^^^^^^^^^^^^^^^^^
  = expected an address as in `http://127.0.0.1:8001`
",
    );
}

#[test]
fn a_worker_with_a_password() {
    check(
        "bad.yaml",
        "workers:
  - url: http://me:secret@10.0.0.5:8000
",
        &[],
        "
bad.yaml:2:10: `workers[0].url`: it has a user name
  |
2 |   - url: http://(redacted)@10.0.0.5:8000
  |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = expected an address as in `http://127.0.0.1:8001`
",
    );
}

#[test]
fn an_alias_that_hides_a_model() {
    check(
        "bad.yaml",
        "models:
  llama: {}
  qwen:
    aliases: [fast, llama]
workers: [{url: 'http://10.0.0.5:8000'}]
",
        &[],
        "
bad.yaml:4:21: the alias `llama` hides the model of that name
  |
4 |     aliases: [fast, llama]
  |                     ^^^^^
  = expected a name that no model has
",
    );
}

#[test]
fn an_alias_of_two_models() {
    check(
        "bad.yaml",
        "models:
  llama: {aliases: [chat]}
  qwen: {aliases: [chat, '']}
workers: [{url: 'http://10.0.0.5:8000'}]
",
        &[],
        "
bad.yaml:3:20: the alias `chat` already stands for `llama`
  |
3 |   qwen: {aliases: [chat, '']}
  |                    ^^^^
  = expected each alias once

bad.yaml:3:26: an alias is empty
  |
3 |   qwen: {aliases: [chat, '']}
  |                          ^^
  = expected a name for the model
",
    );
}

#[test]
fn an_alias_to_nothing() {
    check(
        "bad.yaml",
        "model_default: lama
models:
  lama: {aliases: [chat]}
workers: [{url: 'http://10.0.0.5:8000', model: llama}]
",
        &[],
        "
bad.yaml:1:16: no worker serves `lama`, the default model; did you mean `llama`?
  |
1 | model_default: lama
  |                ^^^^
  = expected a model or an alias

bad.yaml:3:3: no worker serves the model `lama`; did you mean `llama`?
  |
3 |   lama: {aliases: [chat]}
  |   ^^^^
  = expected a model that a worker of `workers` has as its `model`
",
    );
}

#[test]
fn several_impossible_values() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
scrape:
  interval: 0s
retry: {attempts_extra: 9}
limits: {requests: 5, streams: 6}
routing:
  sticky: {header: user, load_factor: 0.9}
  canary: {policy: cost, share: 0%}
timeouts:
  total: 1s
",
        &[],
        "
bad.yaml:3:13: `scrape.interval` is no time at all
  |
3 |   interval: 0s
  |             ^^
  = expected more than `0s`

bad.yaml:4:25: `9` extra attempts are too many
  |
4 | retry: {attempts_extra: 9}
  |                         ^
  = expected at most 7

bad.yaml:5:32: `6` streams cannot fit into `5` requests
  |
5 | limits: {requests: 5, streams: 6}
  |                                ^
  = expected `streams` to be at most `requests`

bad.yaml:7:39: a worker cannot be kept below its mean load, at `0.9` of it
  |
7 |   sticky: {header: user, load_factor: 0.9}
  |                                       ^^^
  = expected a factor of at least 1, as in `1.25`

bad.yaml:8:33: a canary with a share of `0%` tries nothing
  |
8 |   canary: {policy: cost, share: 0%}
  |                                 ^^
  = expected more than 0 %; leave `canary` out to try nothing

bad.yaml:10:10: `timeouts.total` is `1s`, shorter than `first_byte`: `1m`
   |
10 |   total: 1s
   |          ^^
   = expected `total` to be at least `first_byte`
",
    );
}

#[test]
fn a_notice_for_nobody() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', name: spot-a}]
termination: {cloud: aws}
",
        &[],
        "
bad.yaml:2:15: a notice would drain nobody
  |
2 | termination: {cloud: aws}
  |               ^^^^^
  = expected `termination.workers` to name the workers on this machine
",
    );
}

#[test]
fn a_notice_for_a_stranger() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', name: spot-a}]
termination: {cloud: gcp, workers: [spot-b]}
",
        &[],
        "
bad.yaml:2:37: no worker is called `spot-b`; did you mean `spot-a`?
  |
2 | termination: {cloud: gcp, workers: [spot-b]}
  |                                     ^^^^^^
  = expected the name of one of `workers`
",
    );
}

#[test]
fn an_address_of_events_without_a_port() {
    check(
        "bad.yaml",
        "workers:
  - url: http://10.0.0.5:8000
    kv_events: {endpoint: 'tcp://10.0.0.5'}
",
        &[],
        "
bad.yaml:3:27: `tcp://10.0.0.5` is not an address of events
  |
3 |     kv_events: {endpoint: 'tcp://10.0.0.5'}
  |                           ^^^^^^^^^^^^^^^^
  = expected one as in `tcp://10.0.0.5:5557`
",
    );
}

#[test]
fn an_admin_listener_where_clients_are_and_a_host_with_a_scheme() {
    check(
        "bad.yaml",
        "listen: 0.0.0.0:8080
admin:
  listen: 0.0.0.0:8080
  hosts: [gateway, 'http://gateway']
workers: [{url: 'http://10.0.0.5:8000'}]
",
        &[],
        "
bad.yaml:3:11: `admin.listen` is `0.0.0.0:8080`, where clients connect
  |
3 |   listen: 0.0.0.0:8080
  |           ^^^^^^^^^^^^
  = expected another address or port

bad.yaml:4:20: `http://gateway` is not the name of a host
  |
4 |   hosts: [gateway, 'http://gateway']
  |                    ^^^^^^^^^^^^^^^^
  = expected one without scheme and port, as in `gateway.example.com`
",
    );
}

#[test]
fn a_version_of_a_newer_release() {
    check(
        "bad.yaml",
        "version: 2
workers: [{url: 'http://10.0.0.5:8000', model: llama}]
",
        &[],
        "
bad.yaml:1:10: `version`: `2` is not a version that this release reads
  |
1 | version: 2
  |          ^
  = expected 1
",
    );
}
