//! Pages that no browser would ask from.

use crate::check;

/// What is said about one origin.
fn origin(origin: &str, why: &str) {
    let marks = "^".repeat(origin.len() + 2);
    check(
        "bad.yaml",
        &format!("workers: [{{url: 'http://10.0.0.5:8000'}}]\ncors: {{origins: ['{origin}']}}\n"),
        &[],
        &format!(
            "
bad.yaml:2:18: `{origin}` is not the origin of a page: {why}
  |
2 | cors: {{origins: ['{origin}']}}
  |                  {marks}
  = expected one as in `https://app.example.com` or `http://localhost:3000`, or `*`
"
        ),
    );
}

#[test]
fn origins_that_no_browser_sends() {
    origin("app.example.com", "it has no scheme");
    origin("null", "it has no scheme");
    origin("1http://app.example.com", "its scheme is none");
    origin("https://*.example.com", "a `*` stands for every page or for none");
    origin("https://app.example.com/", "it ends with its host or port");
    origin("https://app.example.com/chat", "it ends with its host or port");
    origin("https://", "its host is none");
    origin("https://app.example.com:443", "browsers leave that port out");
    origin("http://app.example.com:80", "browsers leave that port out");
    origin("http://localhost:99999", "its port is none");
}

#[test]
fn an_origin_with_a_user_is_not_repeated() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
cors: {origins: ['https://me:secret@app.example.com']}
",
        &[],
        "
bad.yaml:2:18: `cors.origins[0]` names a user
  |
2 | cors: {origins: ['https://(redacted)@app.example.com']}
  |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = expected one as in `https://app.example.com` or `http://localhost:3000`, or `*`
",
    );
}

#[test]
fn a_memory_that_no_browser_has() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000'}]
cors: {origins: ['*'], max_age: 25h}
",
        &[],
        "
bad.yaml:2:33: browsers do not remember for `25h`
  |
2 | cors: {origins: ['*'], max_age: 25h}
  |                                 ^^^
  = expected at most `24h`
",
    );
}
