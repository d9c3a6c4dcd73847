//! Tokens of operators that no header carries.

use crate::check;

/// What is said where the token is in a variable.
#[track_caller]
fn refused(token: &str) {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
admin:
  token: ${ADMIN}
",
        &[("ADMIN", token)],
        "
bad.yaml:3:10: `admin.token` cannot be presented in a header
  |
3 |   token: (redacted)
  |          ^^^^^^^^
  = expected a secret without line breaks and without blanks at its ends, as `openssl rand -hex 32` prints
",
    );
}

#[test]
fn a_token_that_is_empty_or_that_a_header_would_change() {
    // A file that `echo` wrote ends with a newline, and so does a Secret that was made of it.
    for token in ["", " ", "0123456789abcdef\n", " 0123456789abcdef", "0123\t\r\n4567", "0123\u{0}"]
    {
        refused(token);
    }
}
