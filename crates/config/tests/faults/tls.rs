//! Certificates without their keys, and TLS where nothing is encrypted.

use crate::check;

#[test]
fn tls_of_a_worker_that_speaks_plain_http() {
    check(
        "bad.yaml",
        "workers:
  - url: http://10.0.0.5:8000
    tls: {ca_file: ca.pem}
",
        &[],
        "
bad.yaml:2:10: `workers[0].tls` is set, and its `url` begins with `http://`
  |
2 |   - url: http://10.0.0.5:8000
  |          ^^^^^^^^^^^^^^^^^^^^
  = expected `https://…`
",
    );
}

#[test]
fn a_certificate_without_its_key() {
    check(
        "bad.yaml",
        "workers:
  - url: https://10.0.0.5:8000
    tls:
      certificate_file: own.pem
",
        &[],
        "
bad.yaml:4:25: `workers[0].tls.certificate_file` is set without `key_file`
  |
4 |       certificate_file: own.pem
  |                         ^^^^^^^
  = expected both, or neither
",
    );
}

#[test]
fn a_header_that_is_none_and_one_that_carries_nothing() {
    check(
        "bad.yaml",
        "workers:
  - url: https://10.0.0.5:8000
    api_key: secret
    api_key_header: no header
  - url: https://10.0.0.6:8000
    api_key_header: x-api-key
",
        &[],
        "
bad.yaml:4:21: `no header` is not the name of a header
  |
4 |     api_key_header: no header
  |                     ^^^^^^^^^
  = expected one as in `x-api-key`

bad.yaml:6:21: `workers[1].api_key_header` is set without `api_key`
  |
6 |     api_key_header: x-api-key
  |                     ^^^^^^^^^
  = expected the key that it carries
",
    );
}
