//! Example configurations: each is accepted, without a secret of its own.

use std::path::Path;

use overdraft_config::{Loader, Variables};

/// What the examples take from the environment.
const SECRETS: [(&str, &str); 4] = [
    ("APPS_KEY", "a-key-of-the-applications"),
    ("CHAT_KEY", "a-key-of-the-chat"),
    ("OVERDRAFT_ADMIN_TOKEN", "a-token-of-the-operators"),
    ("OVERDRAFT_SALT_SECRET", "a-secret-of-more-than-thirty-two-characters"),
];

#[test]
fn every_example_is_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut accepted = Vec::new();
    for entry in std::fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let loader = Loader::new(&path).with_variables(SECRETS.into_iter().collect());
        loader.load().unwrap_or_else(|errors| panic!("{errors}"));
        accepted.push(path.file_stem().expect("a name").to_string_lossy().into_owned());
    }
    accepted.sort();
    let expected = [
        "cache",
        "cascade",
        "fleet",
        "kubernetes",
        "models",
        "oidc",
        "one-gpu",
        "overdraft",
        "spot",
        "tenants",
    ];
    assert_eq!(accepted, expected);
}

#[test]
fn an_example_asks_for_its_secrets() {
    for name in ["fleet", "kubernetes", "tenants"] {
        let path = format!("{}/../../examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let refused = Loader::new(path).with_variables(Variables::default()).load();
        let said = refused.expect_err("it names variables that are not set").to_string();
        assert!(SECRETS.iter().any(|(variable, _)| said.contains(variable)), "{said}");
    }
}
