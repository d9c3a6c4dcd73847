//! Files that are not YAML, not TOML, or not there.

use std::path::Path;

use crate::{check, refusal};

#[test]
fn a_syntax_error_in_yaml() {
    check(
        "bad.yaml",
        "workers:
  - url: http://10.0.0.5:8000
    pool: [target
probe: {}
",
        &[],
        "
bad.yaml:4:6: not YAML: illegal placement of ':' indicator
  |
4 | probe: {}
  |      ^
  = expected `key: value` lines; strings that hold `: `, `#` or `${…}` go in quotes
",
    );
}

#[test]
fn a_second_colon_in_yaml() {
    check(
        "bad.yaml",
        "listen: here: there\n",
        &[],
        "
bad.yaml:1:13: not YAML: mapping values are not allowed in this context
  |
1 | listen: here: there
  |             ^
  = expected `key: value` lines; strings that hold `: `, `#` or `${…}` go in quotes
",
    );
}

#[test]
fn a_syntax_error_in_toml() {
    check(
        "bad.toml",
        r#"listen = "127.0.0.1:8080"
[scrape]
interval = 2s
"#,
        &[],
        "
bad.toml:3:12: not TOML: string values must be quoted, expected literal string
  |
3 | interval = 2s
  |            ^^
  = expected `key = value` lines; text goes in quotes
",
    );
}

#[test]
fn two_syntax_errors_in_toml() {
    check(
        "bad.toml",
        "listen = 1.2.3.4:80
[scrape]
interval = 2s
",
        &[],
        "
bad.toml:1:13: not TOML: invalid float, expected nothing
  |
1 | listen = 1.2.3.4:80
  |             ^^^^^^^
  = expected `key = value` lines; text goes in quotes

bad.toml:3:12: not TOML: string values must be quoted, expected literal string
  |
3 | interval = 2s
  |            ^^
  = expected `key = value` lines; text goes in quotes
",
    );
}

#[test]
fn a_duplicate_key_in_yaml() {
    check(
        "bad.yaml",
        "probe:
  interval: 1s
  timeout: 1s
  interval: 2s
",
        &[],
        "
bad.yaml:4:3: the key `interval` stands twice in one table
  |
4 |   interval: 2s
  |   ^^^^^^^^
  = expected it once
",
    );
}

#[test]
fn a_duplicate_key_in_toml() {
    check(
        "bad.toml",
        r#"[probe]
interval = "1s"
interval = "2s"
"#,
        &[],
        r#"
bad.toml:3:1: the key `interval` stands twice in one table
  |
3 | interval = "2s"
  | ^^^^^^^^
  = expected it once
"#,
    );
}

#[test]
fn an_anchor_that_multiplies() {
    check(
        "bad.yaml",
        "a: &a [x, x, x, x, x, x, x, x, x]
b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]
c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]
d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]
e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]
f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]
g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f]
",
        &[],
        "
bad.yaml:5:36: the file grows too large when it is read
  |
5 | e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]
  |                                    ^^
  = expected at most 65536 values, 32 deep; anchors count each time
",
    );
}

#[test]
fn an_unknown_anchor() {
    check(
        "bad.yaml",
        "probe: *fast\n",
        &[],
        "
bad.yaml:1:8: no such anchor is defined above
  |
1 | probe: *fast
  |        ^
  = expected `&name` before `*name`
",
    );
}

#[test]
fn two_documents() {
    check(
        "bad.yaml",
        "listen: 127.0.0.1:1
---
listen: 127.0.0.1:2
",
        &[],
        "
bad.yaml:3:1: a second document begins
  |
3 | listen: 127.0.0.1:2
  | ^
  = expected one document, without a `---` in it
",
    );
}

#[test]
fn an_empty_file() {
    check(
        "bad.yaml",
        "",
        &[],
        "
bad.yaml: the file is empty
 = expected at least `workers` with a `url` each, or `discovery`
",
    );
}

#[test]
fn a_file_of_comments() {
    check(
        "bad.toml",
        "# nothing yet\n\n",
        &[],
        "
bad.toml: the file is empty
 = expected at least `workers` with a `url` each, or `discovery`
",
    );
}

#[test]
fn no_workers() {
    check(
        "bad.yaml",
        "listen: 127.0.0.1:8080\n",
        &[],
        "
bad.yaml: no workers are configured
 = expected `workers` with a `url` each, or `discovery`
",
    );
}

#[test]
fn a_name_that_says_nothing() {
    check(
        "overdraft.conf",
        "listen: 127.0.0.1:8080\n",
        &[],
        "
overdraft.conf: the file's name does not say what is in it
 = expected a name that ends with `.yaml`, `.yml` or `.toml`
",
    );
}

#[test]
fn a_file_that_is_not_there() {
    let said = refusal(Path::new("no-such-file.yaml"), &[]);
    assert_eq!(
        said,
        "no-such-file.yaml: there is no such file\n = name another one with `--config`; \
         `examples/overdraft.yaml` is a start"
    );
}

#[test]
fn a_file_that_is_too_long() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("long.yaml");
    std::fs::write(&path, "# ".repeat(overdraft_config::FILE_BYTES_MAX)).expect("it is writable");
    let said = refusal(&path, &[]);
    let expected = "long.yaml: the file is too long\n = expected at most 1048576 bytes";
    assert!(said.ends_with(expected), "{said}");
}

#[test]
fn a_file_that_is_not_text() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("bytes.yaml");
    std::fs::write(&path, b"listen: \xff").expect("it is writable");
    let said = refusal(&path, &[]);
    assert!(said.contains("the file is not text: its byte 8 is not UTF-8"), "{said}");
}
