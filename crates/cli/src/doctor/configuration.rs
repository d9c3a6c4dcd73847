//! Configuration section: which file, whether it is good, and what it says that the defaults do not.

use std::path::{Path, PathBuf};

use overdraft_config::{Config, ConfigErrors, Loader, WorkerSource};
use serde_json::{Value, json};

use super::section::Section;

/// Files that are looked for where none is named.
const PLACES: [&str; 2] = ["overdraft.yaml", "/etc/overdraft/overdraft.yaml"];

/// What was found.
pub(super) struct Found {
    /// None where there is no file, so that the environment alone says something.
    path: Option<PathBuf>,
    read: Result<Config, ConfigErrors>,
}

/// Reads the file that was named, or the first that there is, and the environment.
pub(super) fn find(named: Option<&Path>) -> Found {
    let there = || PLACES.into_iter().map(PathBuf::from).find(|path| path.exists());
    let path = named.map(Path::to_path_buf).or_else(there);
    let loader = path.as_ref().map_or_else(Loader::of_environment, Loader::new);
    let loaded = loader.with_workers(WorkerSource::FileOrEmbedded).load();
    Found { path, read: loaded.map(|loaded| loaded.config) }
}

impl Found {
    /// What is in force by it.
    pub(super) fn config(&self) -> Option<&Config> {
        self.read.as_ref().ok()
    }

    /// The part of the report.
    pub(super) fn section(&self) -> Section {
        let mut section = Section::new("configuration");
        if let Some(path) = &self.path {
            section.fact("file", &path.display().to_string());
        } else {
            let places = PLACES.join(" or ");
            section.line("file", format!("none at {places}: the defaults and the environment"));
            section.set("file", Value::Null);
        }
        match &self.read {
            Err(errors) => {
                for error in errors.iter() {
                    section.line("problem", problem(error));
                }
                section.set("problems", errors.iter().map(problem).collect::<Vec<String>>());
            }
            Ok(config) => {
                let (ours, defaults) =
                    (config.effective_json(), Config::default().effective_json());
                let mut changes = Vec::new();
                compare(&ours, &defaults, "", &mut changes);
                for Change { key, value } in changes {
                    section.line(key, value.to_string());
                }
                section.set("problems", json!([]));
                section.set("effective", ours);
            }
        }
        section
    }
}

fn problem(error: &overdraft_config::ConfigError) -> String {
    let place = match (error.line(), error.column(), error.variable()) {
        (_, _, Some(variable)) => format!("{variable}: "),
        (Some(line), Some(column), None) => format!("{line}:{column}: "),
        _ => String::new(),
    };
    let expected = error.expected().map_or(String::new(), |expected| format!("; {expected}"));
    format!("{place}{}{expected}", error.message())
}

/// A value that is not the default.
struct Change<'a> {
    /// The keys that lead to it, joined with dots.
    key: String,
    value: &'a Value,
}

fn compare<'a>(ours: &'a Value, defaults: &Value, key: &str, changes: &mut Vec<Change<'a>>) {
    let (Value::Object(own), Value::Object(other)) = (ours, defaults) else {
        if ours != defaults {
            changes.push(Change { key: key.to_owned(), value: ours });
        }
        return;
    };
    for (name, value) in own {
        let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
        match other.get(name) {
            Some(default) => compare(value, default, &key, changes),
            None => changes.push(Change { key, value }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(yaml: &str) -> (Section, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("overdraft.yaml");
        std::fs::write(&path, yaml).expect("it is written");
        (find(Some(&path)).section(), folder)
    }

    #[test]
    fn what_differs_from_the_defaults_is_shown_and_secrets_are_not() {
        let yaml = "listen: 0.0.0.0:9000\nadmin: {token: a-secret-of-operators}\n\
                    models: {llama-3.1: {tokenizer: off, wake: {url: 'http://127.0.0.1:1/w?key=hush'}}}\n\
                    store: {url: 'redis://me:hush@127.0.0.1:1'}\n\
                    workers: [{url: 'http://127.0.0.1:1', api_key: another-secret}]\n";
        let (section, _folder) = found(yaml);
        let text = section.text();
        for part in ["0.0.0.0:9000", "models.llama-3.1", "admin.token", "@127.0.0.1:1"] {
            assert!(text.contains(part), "`{part}` is not in {text}");
        }
        assert!(!text.contains("limits."), "defaults are left out: {text}");
        assert!(section.view["effective"]["limits"].is_object(), "but are in JSON");
        let all = format!("{text}{}", section.view);
        for secret in ["a-secret", "hush", "another-secret"] {
            assert!(!all.contains(secret), "`{secret}` is in {all}");
        }
    }

    #[test]
    fn a_bad_file_is_a_part_of_the_report() {
        let (section, _folder) = found("workers: [{url: 'http://a:1'}]\nscrape: {intervall: 1s}\n");
        assert!(section.text().contains("2:10: unknown key `intervall`"), "{}", section.text());
        assert_eq!(section.view["problems"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn a_secret_that_is_wrong_is_no_part_of_the_report() {
        let (section, _folder) =
            found("workers: [{url: 'http://a:1', api_key: 4711471147114711}]\n");
        let all = format!("{}{}", section.text(), section.view);
        assert!(
            all.contains("`workers[0].api_key` is (redacted)") && !all.contains("4711"),
            "{all}"
        );
    }
}
