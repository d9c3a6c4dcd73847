//! Secrets of the configuration: nothing that is printed repeats one, whatever is wrong with it.

use std::collections::BTreeSet;

use overdraft_config::{Config, ConfigError, Loader, Variables, WorkerSource};
use serde_json::Value;

/// The path of a secret, and a file that has it; `@` stands for its value.
struct Place {
    path: String,
    file: String,
}

impl Place {
    fn new(path: impl Into<String>, file: impl Into<String>) -> Self {
        Self { path: path.into(), file: file.into() }
    }
}

/// A place for each secret that there is.
fn places() -> Vec<Place> {
    let mut places = vec![
        Place::new("admin.token", "admin:\n  token: @\n"),
        Place::new("cache.encryption_key", "cache:\n  encryption_key: @\n"),
        Place::new("isolation.salt_secret", "isolation:\n  salt_secret: @\n"),
        Place::new("keys[].key", "keys:\n  - tenant: acme\n    key: @\n"),
        Place::new(
            "models.NAME.wake.token",
            "models:\n  m:\n    wake:\n      url: http://a:1/wake\n      token: @\n",
        ),
        Place::new("tracing.headers.NAME", "tracing:\n  headers:\n    authorization: @\n"),
    ];
    let found = |kind: &str, keys: &[&str]| {
        let keys = keys.join("\n      ");
        let head = format!("discovery:\n  - {kind}:\n      {keys}\n      each:\n");
        (format!("discovery[].{kind}.each"), head, "        ")
    };
    for (path, head, indent) in [
        ("workers[]".to_owned(), "workers:\n  - url: http://a:1\n".to_owned(), "    "),
        found("dns", &["name: w", "port: 1"]),
        found("file", &["path: w"]),
        found("kubernetes", &["namespace: n", "service: s", "port: http"]),
    ] {
        places.push(Place::new(format!("{path}.api_key"), format!("{head}{indent}api_key: @\n")));
        for hook in ["supervise", "webhook"] {
            let file = format!(
                "{head}{indent}restart:\n{indent}  {hook}:\n{indent}    url: http://a:2\n\
                 {indent}    token: @\n"
            );
            places.push(Place::new(format!("{path}.restart.{hook}.token"), file));
        }
    }
    places
}

/// The paths of what the schema calls a secret.
fn of_schema(schema: &Value, node: &Value, path: &str, found: &mut BTreeSet<String>) {
    if !node.is_object() {
        return;
    }
    match node["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        Some("Secret") => _ = found.insert(path.to_owned()),
        Some(name) => of_schema(schema, &schema["$defs"][name], path, found),
        None => {}
    }
    for (name, node) in node["properties"].as_object().into_iter().flatten() {
        let dot = if path.is_empty() { "" } else { "." };
        of_schema(schema, node, &format!("{path}{dot}{name}"), found);
    }
    for (step, inside) in [("[]", "items"), (".NAME", "additionalProperties")] {
        of_schema(schema, &node[inside], &format!("{path}{step}"), found);
    }
    for form in ["anyOf", "oneOf"].iter().filter_map(|word| node[*word].as_array()).flatten() {
        of_schema(schema, form, path, found);
    }
}

/// What is said about a file that cannot be used, without its quoted lines.
#[track_caller]
fn messages(file: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.yaml");
    std::fs::write(&path, file).expect("it is writable");
    let loader = Loader::new(&path).with_variables(Variables::default());
    let errors = loader.with_workers(WorkerSource::Elsewhere).load().expect_err(file);
    errors.iter().map(ConfigError::message).collect::<Vec<&str>>().join("\n")
}

#[test]
fn every_secret_of_the_schema_has_a_place_here() {
    let schema = Config::schema();
    let mut found = BTreeSet::new();
    of_schema(&schema, &schema, "", &mut found);
    let places: BTreeSet<String> = places().into_iter().map(|place| place.path).collect();
    assert_eq!(found, places);
}

#[test]
fn a_secret_of_the_wrong_type_is_refused_without_its_value() {
    for Place { path, file } in places() {
        for value in [
            "4711471147114711",
            "-4711",
            "47114711471147114711471147114711",
            "4711.4711",
            "[4711]",
            "{a: 4711}",
        ] {
            let said = messages(&file.replace('@', value));
            assert!(said.contains("is (redacted)") && !said.contains("4711"), "{path}: {said}");
        }
    }
}

#[test]
fn a_scalar_where_the_table_of_a_secret_belongs_is_not_repeated() {
    for file in [
        "admin: hunter2\n",
        "cache: 4711\n",
        "isolation: hunter2\n",
        "keys: hunter2\n",
        "keys: [hunter2]\n",
        "models: {m: {wake: hunter2}}\n",
        "store: 'redis://me:hunter2@a:1'\n",
        "tracing: {headers: 'authorization: hunter2'}\n",
        "workers: [hunter2]\n",
    ] {
        let said = messages(file);
        let is_hidden = !said.contains("hunter2") && !said.contains("4711");
        assert!(said.contains("is (redacted)") && is_hidden, "{said}");
    }
    assert!(messages("scrape: hunter2\n").contains("`scrape` is `hunter2`"));
}
