//! Lists that are taken and lists that are refused.

use std::path::Path;

use super::parse;
use crate::settings::Pool;

/// `name url pool model` of each worker.
#[track_caller]
fn check(content: &str, expected: &[&str]) {
    let workers = parse(content.as_bytes()).expect("the list is good");
    let told: Vec<String> = workers
        .iter()
        .map(|worker| {
            let pool = if worker.pool == Pool::Draft { "draft" } else { "target" };
            let model = worker.model.as_deref().unwrap_or("-");
            format!("{} {} {pool} {model}", worker.name, worker.url)
        })
        .collect();
    assert_eq!(told, expected);
}

#[track_caller]
fn refuse(content: &[u8], expected: &str) {
    let fault = parse(content).expect_err("the list is bad");
    let said = fault.in_file(Path::new("list"));
    assert!(said.starts_with(expected), "`{said}` does not begin with `{expected}`");
}

#[test]
fn lines_name_workers() {
    check(
        "# the fleet\n\n  http://10.0.0.1:8000  # the old one\r\n\
         http://[2001:db8::1]:8000/ name=six pool=draft model=llama-3-8b\n\
         http://host:80 model=a=b pool=target",
        &[
            "10.0.0.1:8000 http://10.0.0.1:8000 target -",
            "six http://[2001:db8::1]:8000/ draft llama-3-8b",
            "host:80 http://host:80 target a=b",
        ],
    );
}

#[test]
fn an_array_names_workers() {
    check("[]", &[]);
    check(
        " \n[{\"url\": \"http://10.0.0.1:8000\"},\n{\"url\": \"http://a:1\", \"name\": \"a\", \
         \"pool\": \"draft\", \"model\": \"m\"}]\n",
        &["10.0.0.1:8000 http://10.0.0.1:8000 target -", "a http://a:1 draft m"],
    );
}

#[test]
fn a_fault_has_its_line() {
    refuse(b"http://a:1\nhttp://b:1 weight=3", "list:2: `weight=3` is not a setting");
    refuse(b"http://a:1 draft", "list:1: `draft` is not a setting");
    refuse(b"http://a:1 name=", "list:1: `name=` is not a setting");
    refuse(b"http://a:1 name=x name=y", "list:1: `name` is given twice");
    refuse(b"\n\nhttp://a:1 pool=fast", "list:3: `fast` is not a pool");
    refuse(b"http://a:1\na:1", "list:2: `a:1` is not a worker's address");
    refuse(b"http://a:1\nhttp://b:1\nhttp://a:1", "list:3: a second worker is called `a:1`");
    refuse(b"http://a:1\n\xff", "list:2: not UTF-8");
    refuse(b"", "list:1: no worker is named");
    refuse(b"# nobody\n# at all\n", "list:2: no worker is named");
}

#[test]
fn a_fault_in_an_array_has_its_line() {
    refuse(b"[\n{\"url\": \"http://a:1\"},\n{\"url\" 1}]", "list:3: not JSON");
    refuse(b"[{\"url\": \"http://a:1\"}", "list:1: not JSON");
    refuse(b"[\n\n{\"url\": \"http://a:1\",\n\"weight\": 3}]", "list:4: not JSON");
    refuse(b"[\n\n {\"name\": \"a\"}]", "list:3: not JSON: missing field `url`");
    refuse(b"[\n{\"url\": \"http://a:1\"},\n{\"url\": \"http://a:1\"}]", "list:3: a second");
    refuse(b"[\n{\"url\": \"ftp://a:1\"}]", "list:2: `ftp://a:1` is not a worker's address");
}

#[test]
fn a_list_has_a_bound() {
    let list = |count: usize| {
        let lines = (0..count).map(|index| format!("http://10.0.0.1:{}\n", 1_000 + index));
        lines.collect::<String>()
    };
    assert_eq!(parse(list(1_024).as_bytes()).unwrap().len(), 1_024);
    refuse(list(1_025).as_bytes(), "list:1025: more than 1024 workers");
}
