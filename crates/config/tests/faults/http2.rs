//! Bounds of HTTP/2 that refuse everything or none.

use crate::check;

#[test]
fn streams_that_no_connection_can_have() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
http2: {max_concurrent_streams: 0}
",
        &[],
        "
bad.yaml:2:33: `http2.max_concurrent_streams` is `0`
  |
2 | http2: {max_concurrent_streams: 0}
  |                                 ^
  = expected 1 to 10000; to switch it off, `enabled: false`
",
    );
}
