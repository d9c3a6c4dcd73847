//! Syntax tree: the common tree of YAML and TOML, whose nodes know their place.
//!
//! YAML and TOML become one tree of [`Node`]s that remember where they were written. Everything
//! after that (variables, overrides, types, checks) works on this tree, so an error has the same
//! words and its place, whichever notation the file uses.

use crate::place::Origin;

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// A value as the notation has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Nothing, or `null`: as if the key were not there.
    Null,
    Flag(bool),
    Whole(i128),
    Real(f64),
    Text(String),
    /// Text from the environment, which knows no types: it is a number where a number is asked for.
    Loose(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// One key of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_origin: Origin,
    pub(crate) node: Node,
}

/// One step from a table or a list to something in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The way to a value, as a person would write it: `workers[1].url`.
pub(crate) fn shown(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.extend([".", key.as_str()]),
            Step::Index(index) => text.extend(["[", &index.to_string(), "]"]),
        }
    }
    text
}

impl Node {
    /// A table without keys.
    pub(crate) const fn empty() -> Self {
        Self { value: Value::Table(Vec::new()), origin: Origin::Whole }
    }

    /// Where the value at the end of `steps` was written, or the last thing on the way to it.
    pub(crate) fn origin_of(&self, steps: &[Step]) -> Origin {
        let mut node = self;
        for step in steps {
            let Some(next) = node.step(step) else { break };
            node = next;
        }
        // The root's own place would be the first line, which is nobody's fault.
        if std::ptr::eq(node, self) { Origin::Whole } else { node.origin.clone() }
    }

    /// Where the key at the end of `steps` was written, rather than its value.
    pub(crate) fn key_origin_of(&self, steps: &[Step]) -> Origin {
        let Some((Step::Key(last), before)) = steps.split_last() else {
            return self.origin_of(steps);
        };
        let parent = before.iter().try_fold(self, |node, step| node.step(step));
        let key = parent.and_then(|parent| parent.entry(last));
        key.map_or_else(|| self.origin_of(steps), |entry| entry.key_origin.clone())
    }

    fn step(&self, step: &Step) -> Option<&Self> {
        match (&self.value, step) {
            (Value::Table(_), Step::Key(key)) => self.entry(key).map(|entry| &entry.node),
            (Value::List(nodes), Step::Index(index)) => nodes.get(*index),
            _ => None,
        }
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }
}
