//! Environment variables: `${NAME}` interpolation and `OVERDRAFT__…` overrides.
//!
//! Two things: `${NAME}` and `${NAME:-default}` inside strings of the file, and variables such as
//! `OVERDRAFT__SCRAPE__INTERVAL=1s` that stand in for the value at `scrape.interval`. Text from the
//! environment has no type of its own, so it is parsed as the type of its key.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as ValueError;

use crate::error::{ConfigError, ConfigErrors, Wrong};
use crate::node::{Entry, Node, Value};
use crate::place::{Origin, Source, Spot};
use crate::tree::{Config, StoreUrl, Worker, host_and_port};
use crate::yaml;

/// What variables that override a value begin with, and what stands between their parts.
pub const OVERRIDE_PREFIX: &str = "OVERDRAFT__";

/// Maximum depth of an override; no key is deeper.
const OVERRIDE_PARTS_MAX: usize = 8;

/// Bytes that a string may hold once its variables are filled in.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Environment variables by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Those of this process whose name and value are UTF-8.
    pub fn of_process() -> Self {
        let pairs = std::env::vars_os();
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(pairs.filter_map(text).collect())
    }
}

impl Variables {
    /// The value of a variable that is set to something.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// What the write-ups call the address of a worker.
const LLM_ENDPOINT: &str = "LLM_ENDPOINT";
/// What they call Redis' `host:port`, and its password.
const REDIS_ADDR: &str = "REDIS_ADDR";
const REDIS_PASS: &str = "REDIS_PASS";

impl Config {
    /// Takes `LLM_ENDPOINT` for a worker where none is named, and `REDIS_ADDR` with `REDIS_PASS` for the store where
    /// that is left at `memory`: the variables of the write-ups. OpenTelemetry's stand in for `tracing`.
    ///
    /// # Errors
    /// Says which of them cannot be used.
    pub fn stand_in(&mut self, variables: &Variables) -> Result<(), String> {
        let of = |name: &str| variables.0.get(name).filter(|text| !text.is_empty());
        if let Some(endpoint) = of(LLM_ENDPOINT).filter(|_| !self.names_workers()) {
            // Clients of OpenAI's name its version, too.
            let url = endpoint.trim_end_matches('/').trim_end_matches("/v1");
            host_and_port(url).map_err(|error| format!("`{LLM_ENDPOINT}`: {error}"))?;
            self.workers.push(Worker::at(url.to_owned()));
        }
        if let Some(address) = of(REDIS_ADDR).filter(|_| self.store.url.reveal() == "memory") {
            let login = of(REDIS_PASS).map(|word| format!(":{}@", escaped(word)));
            let url = format!("redis://{}{address}", login.unwrap_or_default());
            let url: Result<StoreUrl, ValueError> =
                StoreUrl::deserialize(url.as_str().into_deserializer());
            self.store.url = url.map_err(|error| format!("`{REDIS_ADDR}`: {error}"))?;
        }
        self.tracing.stand_in(variables)
    }
}

/// A password as a part of a URL.
fn escaped(word: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    word.bytes().map(one).collect()
}

/// Puts the overriding variables into the tree, in the order of their names.
pub(crate) fn override_values(
    root: &mut Node,
    source: &Source,
    variables: &Variables,
) -> Result<(), ConfigErrors> {
    for (name, text) in &variables.0 {
        let Some(rest) = name.strip_prefix(OVERRIDE_PREFIX) else { continue };
        let origin = Origin::Variable(name.clone());
        let parts: Vec<&str> = rest.split("__").collect();
        if parts.iter().any(|part| part.is_empty()) || OVERRIDE_PARTS_MAX < parts.len() {
            let wrong = Wrong::new("it names no key", "expected `OVERDRAFT__SECTION__KEY`");
            return Err(ConfigError::new(source, &origin, wrong).into());
        }
        let node = overriding(text, source, &origin)?;
        put(root, &parts, node, &origin)
            .map_err(|wrong| ConfigError::new(source, &origin, wrong))?;
    }
    Ok(())
}

/// A plain word stays text; what begins like a list or a table is read as one.
fn overriding(text: &str, source: &Source, origin: &Origin) -> Result<Node, ConfigErrors> {
    if !text.starts_with(['[', '{']) {
        return Ok(Node { value: Value::Loose(text.to_owned()), origin: origin.clone() });
    }
    let inner = Source::new(&source.path, text.to_owned());
    let mut node = yaml::parse(&inner).map_err(|faults| {
        let moved = faults.iter().map(|fault| {
            let message = fault.message().to_owned();
            let expected = fault.expected().map(str::to_owned);
            ConfigError::new(source, origin, Wrong { message, expected })
        });
        ConfigErrors::new(moved.collect())
    })?;
    visit(&mut node, &mut |node| node.origin = origin.clone());
    Ok(node)
}

fn put(node: &mut Node, parts: &[&str], new: Node, origin: &Origin) -> Result<(), Wrong> {
    let Some((part, rest)) = parts.split_first() else {
        *node = new;
        return Ok(());
    };
    if node.value == Value::Null {
        node.value = Value::Table(Vec::new());
    }
    match &mut node.value {
        Value::Table(entries) => {
            // Variables are written in capitals; a key that is there keeps its own letters.
            let known = entries.iter().position(|entry| entry.key.eq_ignore_ascii_case(part));
            let index = known.unwrap_or(entries.len());
            if known.is_none() {
                let (key, key_origin) = (part.to_lowercase(), origin.clone());
                let node = Node { value: Value::Null, origin: origin.clone() };
                entries.push(Entry { key, key_origin, node });
            }
            put(&mut entries[index].node, rest, new, origin)
        }
        Value::List(nodes) => {
            let index: Option<usize> = part.parse().ok();
            let count = nodes.len();
            let node = index.and_then(|index| nodes.get_mut(index)).ok_or_else(|| {
                Wrong::new(
                    format!("`{part}` is not in a list of {count}"),
                    "expected an index, counted from 0",
                )
            })?;
            put(node, rest, new, origin)
        }
        _ => Err(Wrong::new(
            format!("`{part}` is asked of a value that has no keys"),
            "expected the name of a key that the file has",
        )),
    }
}

/// Fills in the variables of every string that was written in the file.
pub(crate) fn fill_in(root: &mut Node, source: &Source, variables: &Variables) -> Vec<ConfigError> {
    let mut faults = Vec::new();
    visit(root, &mut |node| {
        let (Value::Text(text), Origin::Spot(spot)) = (&node.value, &node.origin) else { return };
        if !text.contains("${") {
            return;
        }
        match filled(text, variables) {
            Ok(filled) => node.value = Value::Loose(filled),
            Err((reference, wrong)) => {
                let origin = Origin::Spot(narrowed(*spot, source, &reference));
                // A secret may look like a variable.
                let is_secret = source.is_secret(*spot) && reference.ends_with('}');
                let wrong = if is_secret { wrong.without(&reference) } else { wrong };
                faults.push(ConfigError::new(source, &origin, wrong));
            }
        }
    });
    faults
}

/// The spot of the reference itself, when it stands on the line where its string begins.
fn narrowed(spot: Spot, source: &Source, reference: &str) -> Spot {
    let line = source.text.lines().nth(spot.line - 1).unwrap_or_default();
    let skipped: String = line.chars().take(spot.column - 1).collect();
    match line[skipped.len()..].split_once(reference) {
        Some((before, _)) => Spot {
            line: spot.line,
            column: spot.column + before.chars().count(),
            width: reference.chars().count(),
        },
        None => spot,
    }
}

fn filled(text: &str, variables: &Variables) -> Result<String, (String, Wrong)> {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        // `$${` is a dollar sign and a brace, not a variable.
        if let Some(before) = before.strip_suffix('$') {
            whole.extend([before, "${"]);
            rest = after;
            continue;
        }
        whole.push_str(before);
        let Some((inside, after)) = after.split_once('}') else {
            let wrong =
                Wrong::new("a `${` is not closed", "expected `${NAME}`; `$${` is a plain `${`");
            return Err(("${".to_owned(), wrong));
        };
        let reference = format!("${{{inside}}}");
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if !is_name(name) {
            let wrong = Wrong::new(
                format!("`{reference}` does not name a variable"),
                "expected `${NAME}` or `${NAME:-default}`, of letters, digits and `_`",
            );
            return Err((reference, wrong));
        }
        let value = variables.0.get(name).map(String::as_str);
        // As in a shell, `:-` also stands in for an empty value.
        let value = value.filter(|value| default.is_none() || !value.is_empty()).or(default);
        let Some(value) = value else { return Err((reference, unset(name))) };
        whole.push_str(value);
        if TEXT_BYTES_MAX < whole.len() {
            let expected = format!("expected at most {TEXT_BYTES_MAX} bytes");
            return Err((reference, Wrong::new("the text grows too long", expected)));
        }
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole)
}

fn unset(name: &str) -> Wrong {
    Wrong::new(
        format!("the environment variable `{name}` is not set"),
        format!("set it, or give a default as in `${{{name}:-value}}`"),
    )
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn visit(node: &mut Node, change: &mut impl FnMut(&mut Node)) {
    change(node);
    match &mut node.value {
        Value::List(nodes) => {
            for node in nodes {
                visit(node, change);
            }
        }
        Value::Table(entries) => {
            for entry in entries {
                visit(&mut entry.node, change);
            }
        }
        _ => {}
    }
}
