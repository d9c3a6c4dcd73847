//! Headers that are none, and headers that never pass.

use crate::check;

/// What is said about one name in a direction.
fn header(key: &str, name: &str, message: &str, expected: &str) {
    let marks = "^".repeat(name.len() + 2);
    check(
        "bad.yaml",
        &format!("workers: [{{url: 'http://10.0.0.5:8000'}}]\nheaders: {{{key}: ['{name}']}}\n"),
        &[],
        &format!(
            "
bad.yaml:2:24: `{name}` {message}
  |
2 | headers: {{{key}: ['{name}']}}
  |                        {marks}
  = {expected}
"
        ),
    );
}

#[test]
fn names_that_are_no_headers() {
    for name in ["", "x team", "x:team", "x-*-team", "**"] {
        let expected = "expected one as in `x-team`, or `x-team-*`";
        header("to_workers", name, "is not the name of a header", expected);
        header("to_clients", name, "is not the name of a header", expected);
    }
}

#[test]
fn headers_that_never_pass() {
    let expected = "expected none of a connection, no credential, none that the gateway writes";
    for name in ["Authorization", "cookie", "x-api-key", "host", "user-agent", "x-overdraft-*"] {
        header("to_workers", name, "never passes by `headers.to_workers`", expected);
    }
    for name in ["set-cookie", "connection", "X-Overdraft-Worker", "via"] {
        header("to_clients", name, "never passes by `headers.to_clients`", expected);
    }
}
