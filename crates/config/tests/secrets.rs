//! Secrets of the configuration: nothing that is printed repeats one, whatever is wrong with it.

use std::collections::BTreeSet;

use overdraft_config::{
    Config, ConfigError, ConfigErrors, Loaded, Loader, Variables, WorkerSource,
};
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

/// Loads a file without an environment; its workers may be elsewhere.
fn load(name: &str, file: &str) -> Result<Loaded, ConfigErrors> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, file).expect("it is writable");
    let loader = Loader::new(&path).with_variables(Variables::default());
    loader.with_workers(WorkerSource::Elsewhere).load()
}

/// What is said about a file that cannot be used, without its quoted lines.
#[track_caller]
fn messages(file: &str) -> String {
    let errors = load("a.yaml", file).expect_err(file);
    errors.iter().map(ConfigError::message).collect::<Vec<&str>>().join("\n")
}

/// Everything that commands print of a file: its faults with their lines, or its views.
fn printed(name: &str, file: &str) -> String {
    match load(name, file) {
        Ok(Loaded { config, .. }) => {
            format!("{}\n{}", config.effective_yaml(), config.effective_json())
        }
        Err(errors) => {
            // The folder's name is made of random letters.
            let file = errors.iter().next().map(|error| error.file().display().to_string());
            let told = format!("{errors}\n{}", errors.summary());
            told.replace(&file.unwrap_or_default(), name)
        }
    }
}

#[test]
fn every_secret_of_the_schema_has_a_place_here() {
    let schema = Config::schema();
    let mut found = BTreeSet::new();
    of_schema(&schema, &schema, "", &mut found);
    let places: BTreeSet<String> = places().into_iter().map(|place| place.path).collect();
    assert_eq!(found, places);
}

/// A file with a value in the place of its `@`. Further lines of the value are indented as it is.
fn written(file: &str, value: &str) -> String {
    let line = file.lines().find(|line| line.contains('@')).unwrap_or_default();
    let indent = line.len() - line.trim_start_matches([' ', '-']).len() + 2;
    file.replace('@', &value.replace('\n', &format!("\n{}", " ".repeat(indent))))
}

#[track_caller]
fn is_not_printed(name: &str, file: &str) {
    let printed = printed(name, file);
    assert!(!printed.contains("hunter2") && !printed.contains("4711"), "{file}\n{printed}");
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
            let file = written(&file, value);
            let said = messages(&file);
            assert!(said.contains("is (redacted)") && !said.contains("4711"), "{path}: {said}");
            is_not_printed("a.yaml", &file);
        }
    }
}

/// Ways to write a value in YAML, and to slip.
const IN_YAML: &[&str] = &[
    "hunter2",
    "hunter2 hunter2 hunter2",
    "hunter2hunter2hunter2\u{e9}",
    "\"hunter2 hunter2\\u00e9\"",
    "|\nhunter2 hunter2 \u{e9}",
    "|\nhunter2: hunter2",
    ">-\nhunter2\nhunter2",
    "\"hunter2\nhunter2 \u{e9}\"",
    "'hunter2\nhunter2 \u{e9}'",
    "hunter2\nhunter2 \u{e9}",
    "\nhunter2 \u{e9}",
    "&a hunter2 \u{e9}",
    "!!str hunter2 \u{e9}",
    "${1st:-hunter2}",
    "\"hunter2${hunter2 hunter2}\"",
    "\"hunter2${\"",
    "[hunter2]",
    "{hunter2: hunter2}",
    "[[hunter2, hunter2], hunter2]",
    "1e47114711",
    ".4711",
    "!!int hunter2",
    "\"hunter2",
    "'hunter2",
    "\"hunter2\" hunter2",
    "\"hunter2\\q\"",
    "hunter2: hunter2",
    "|\nhunter2\n\u{7f}hunter2",
    "|hunter2",
    "[hunter2",
    "{hunter2",
    "- hunter2",
    "*hunter2",
    "%hunter2",
    "`hunter2",
    "@hunter2",
];

#[test]
fn a_secret_is_not_printed_however_it_is_written_in_yaml() {
    for Place { file, .. } in places() {
        for value in IN_YAML {
            let file = written(&file, value);
            is_not_printed("a.yaml", &file);
            // Beside what is wrong elsewhere.
            is_not_printed("a.yaml", &format!("{file}\nscrape: {{interval: 0s}}\n"));
            is_not_printed("a.yaml", &format!("listen: here\n{file}\n"));
        }
    }
}

#[test]
fn a_secret_is_not_printed_however_it_is_written_in_toml() {
    for file in [
        "[admin]\ntoken = @\n",
        "[[keys]]\ntenant = 'a'\nkey = @\n",
        "[tracing.headers]\nauthorization = @\n",
        "[tracing]\nheaders = {x-team = @}\n",
        "tracing.headers.x-team = @\n",
        "[[workers]]\nurl = 'http://a:1'\napi_key = @\n",
        "[isolation]\nsalt_secret = @\n",
    ] {
        for value in [
            "\"hunter2 \u{e9}\"",
            "'''\nhunter2 hunter2 \u{e9}'''",
            "4711471147114711471147114711",
            "4711.4711",
            "[\"hunter2\"]",
            "{hunter2 = 1}",
            "hunter2",
            "\"hunter2",
            "\"hunter2\\q\"",
            "\"\"\"\nhunter2\n\\qhunter2\"\"\"",
            "\"\"\"\nhunter2 = \\q\"\"\"",
            "[\n\"hunter2\",\n",
        ] {
            is_not_printed("a.toml", &file.replace('@', value));
        }
    }
}

#[test]
fn a_secret_is_not_printed_beside_a_fault_or_under_another_name() {
    for file in [
        "hunter2\n",
        "token: hunter2\n",
        "salt_secret: hunter2\n",
        "admin:\n  tokn: hunter2\n",
        "admin:\n  passphrase: hunter2\n",
        "admin: {token: hunter2, hosts: ['http://a']}\n",
        "admin: {token: \"hunter2\n  hunter2\", hosts: ['http://a']}\n",
        "isolation:\n  salt_secrt: hunter2\n",
        "keys: [{key: hunter2, tenant: ''}]\n",
        "keys:\n  - hunter2\n",
        "keys:\n- hunter2\n- hunter2\n",
        "keys:\n  sk-hunter2: acme\n",
        "keys:\n  - sk-hunter2: acme\n",
        "keys:\n  - {tenant: acme, key:\n      hunter2, nme: [a}\n",
        "kyes: [hunter2]\n",
        "store: {uri: hunter2}\n",
        "tracing:\n  x-team: hunter2\n",
        "tracing:\n  headers:\n    - x-team: hunter2\n",
        "tracing:\n  headers:\n    x-team: hunter2\n    x-other: \"\\u00e9\"\n",
        "tracing:\n  headers: {x-team: hunter2: hunter2}\n",
        "workers: [{api_key: hunter2, url: 'ftp://a'}]\n",
        "workers: [{url: 'http://a:1', apikey: hunter2}]\n",
    ] {
        is_not_printed("a.yaml", file);
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

/// Files with an address of a scheme; `@` stands for it.
const ADDRESSES: [(&str, &str); 18] = [
    ("http", "workers:\n  - url: '@'\n"),
    ("http", "workers:\n  - url: http://a:1\n    memory:\n      url: '@'\n"),
    ("http", "workers:\n  - url: http://a:1\n    restart:\n      webhook:\n        url: '@'\n"),
    ("http", "workers:\n  - url: http://a:1\n    restart:\n      supervise:\n        url: '@'\n"),
    ("tcp", "workers:\n  - url: http://a:1\n    kv_events:\n      endpoint: '@'\n"),
    (
        "tcp",
        "workers: [{url: 'http://a:1', kv_events: {endpoint: 'tcp://a:2', replay_endpoint: '@'}}]",
    ),
    (
        "http",
        "discovery:\n  - file:\n      path: w\n      each:\n        memory:\n          url: '@'\n",
    ),
    (
        "https",
        "discovery:\n  - kubernetes:\n      namespace: n\n      service: s\n      port: http\n      \
         api_server: '@'\n",
    ),
    ("http", "models:\n  m:\n    wake:\n      url: '@'\n"),
    ("https", "jwt:\n  issuer: https://a\n  audience: b\n  jwks_url: '@'\n"),
    ("https", "tracing:\n  endpoint: '@'\n"),
    ("http", "termination:\n  endpoint: '@'\n"),
    ("redis", "store:\n  url: '@'\n"),
    ("mysql", "store:\n  url: '@'\n"),
    ("https", "cors:\n  origins: ['https://a/', '@', 'https://b/']\n"),
    ("http", "listen: '@'\n"),
    ("http", "admin:\n  hosts: ['http://a', '@']\n"),
    ("http", "workers: [{url: '@', tokn: x, api_key: y}]\n"),
];

#[test]
fn no_user_name_password_or_query_of_an_address_is_printed() {
    for (scheme, file) in ADDRESSES {
        for rest in [
            "me:hunter2@a:1",
            "me:hunter2@a:1/x",
            "me:pa/ss hunter2@a:1",
            "me:pa`ss?hunter2@a:1",
            "a:1/x?key=hunter2",
            "a:1?hunter2",
            "a:1/x?key=first@hunter2",
            "a?hunter2:1",
        ] {
            let file = file.replace('@', &format!("{scheme}://{rest}"));
            let printed = printed("a.yaml", &file);
            assert!(!printed.contains("hunter2"), "{file}{printed}");
        }
    }
}

#[test]
fn an_address_without_credentials_is_shown_as_it_was_written() {
    let file = "workers: [{url: 'http://a:1', memory: {url: 'http://a:9400/metrics'}}]\n\
                models: {m: {wake: {url: 'http://b:2/wake?key=1'}}}\n";
    let shown = printed("a.yaml", file);
    for part in ["http://a:1", "http://a:9400/metrics", "http://b:2/wake?(redacted)"] {
        assert!(shown.contains(part), "`{part}` is not in {shown}");
    }
}
