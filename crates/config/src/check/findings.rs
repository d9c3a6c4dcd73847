//! Findings of the checks, each with its place in the file.

use crate::error::{ConfigError, Wrong};
use crate::node::{Node, Step};
use crate::place::{Origin, Source};

/// Where a finding points: at a key or at its value.
pub(super) enum At {
    Key,
    Value,
}

/// Collects what is wrong.
pub(super) struct Findings<'a> {
    root: &'a Node,
    source: &'a Source,
    faults: Vec<ConfigError>,
}

impl<'a> Findings<'a> {
    pub(super) const fn new(root: &'a Node, source: &'a Source) -> Self {
        Self { root, source, faults: Vec::new() }
    }

    /// All of it, in the order of the file.
    pub(super) fn in_order(mut self) -> Vec<ConfigError> {
        self.faults.sort_by_key(|fault| (fault.line(), fault.column()));
        self.faults
    }

    pub(super) fn add(&mut self, at: &At, path: &[Step], wrong: Wrong) {
        let origin = match at {
            At::Key => self.root.key_origin_of(path),
            At::Value => self.root.origin_of(path),
        };
        self.faults.push(ConfigError::new(self.source, &origin, wrong));
    }

    pub(super) fn value(
        &mut self,
        path: &[Step],
        message: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.add(&At::Value, path, Wrong::new(message, expected));
    }

    pub(super) fn key(
        &mut self,
        path: &[Step],
        message: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.add(&At::Key, path, Wrong::new(message, expected));
    }

    /// `workers[1]`'s line, to point back to from another place.
    pub(super) fn line_of(&self, path: &[Step]) -> String {
        match self.root.origin_of(path) {
            Origin::Spot(spot) => format!("line {}", spot.line),
            Origin::Variable(name) => format!("`{name}`"),
            Origin::Whole => "elsewhere".to_owned(),
        }
    }
}
