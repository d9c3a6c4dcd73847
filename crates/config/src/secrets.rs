//! Secret values: the keys of the configuration that hold them, and where they stand in a file.
//!
//! Their paths tell them, not their names, their lines or their quotes: the value of `key: |` stands on other lines, and
//! any header of a collector may be one. A test compares the table with the schema.

use crate::node::{Entry, Node, Step, Value};
use crate::place::{Origin, Position, Stretch};

/// Any name.
const NAME: &str = "*";

/// Any place in a list.
const EACH: &str = "[]";

/// The paths of values that are never shown.
const SECRETS: &[&[&str]] = &[
    &["admin", "token"],
    &["cache", "encryption_key"],
    &["discovery", EACH, NAME, "each", "api_key"],
    &["discovery", EACH, NAME, "each", "restart", NAME, "token"],
    &["isolation", "salt_secret"],
    &["keys", EACH, "key"],
    &["keys", EACH, "key_sha256"],
    &["models", NAME, "wake", "token"],
    &["store", "url"],
    &["tracing", "headers", NAME],
    &["workers", EACH, "api_key"],
    &["workers", EACH, "restart", NAME, "token"],
];

/// Whether a value is a secret, or a part of one.
pub(crate) fn is_secret(path: &[Step]) -> bool {
    SECRETS.iter().any(|secret| secret.len() <= path.len() && fits(secret, path))
}

/// Whether a secret stands somewhere below a value. What stands in its place may be the secret itself.
pub(crate) fn leads_to_secret(path: &[Step]) -> bool {
    SECRETS.iter().any(|secret| path.len() < secret.len() && fits(secret, path))
}

/// Whether a path and that of a secret are the same as far as both go.
fn fits(secret: &[&str], path: &[Step]) -> bool {
    secret.iter().zip(path).all(|(word, step)| match step {
        Step::Key(key) => *word == NAME || word == key,
        Step::Index(_) => *word == EACH,
    })
}

/// The parts of a file that are secrets, in order.
pub(crate) fn stretches(root: &Node) -> Vec<Stretch> {
    let mut walk = Walk { path: Vec::new(), marks: Vec::new() };
    let kind = walk.kind(root, Kind::Open);
    walk.note(&root.origin, kind);
    walk.visit(root, kind);
    // Where a secret begins at the same place as another value, it counts.
    walk.marks.sort_by_key(|mark| (mark.at, mark.kind));
    let mut stretches = Vec::new();
    let mut begin = None;
    for Mark { at, kind } in walk.marks {
        match (begin, kind) {
            (Some(begun), Kind::Open) => {
                stretches.push(Stretch { begin: begun, end: at });
                begin = None;
            }
            (None, Kind::Secret) => begin = Some(at),
            _ => {}
        }
    }
    stretches.extend(begin.map(|begin| Stretch { begin, end: Position::END }));
    stretches
}

/// What begins somewhere in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A key, or a value that may be shown.
    Open,
    /// A secret.
    Secret,
}

/// A place where a key or a value begins.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Position,
    kind: Kind,
}

/// A walk through a tree that notes where its keys and values begin.
struct Walk {
    path: Vec<Step>,
    marks: Vec<Mark>,
}

impl Walk {
    fn visit(&mut self, node: &Node, kind: Kind) {
        if kind == Kind::Open {
            self.note(&node.origin, Kind::Open);
        }
        match &node.value {
            Value::List(nodes) => {
                for (index, node) in nodes.iter().enumerate() {
                    self.path.push(Step::Index(index));
                    self.item(node, kind);
                    self.path.pop();
                }
            }
            Value::Table(entries) => {
                for entry in entries {
                    self.path.push(Step::Key(entry.key.clone()));
                    self.entry(entry, kind);
                    self.path.pop();
                }
            }
            _ => {}
        }
    }

    fn item(&mut self, node: &Node, kind: Kind) {
        let own = self.kind(node, kind);
        if own != kind {
            // It ends the one above it and begins another.
            self.note(&node.origin, Kind::Open);
            self.note(&node.origin, Kind::Secret);
        }
        self.visit(node, own);
    }

    fn entry(&mut self, entry: &Entry, kind: Kind) {
        let own = self.kind(&entry.node, kind);
        match (kind, &entry.key_origin) {
            // It is within the secret above it.
            (Kind::Secret, _) => {}
            (Kind::Open, Origin::Spot(spot)) => {
                self.note(&entry.key_origin, Kind::Open);
                if own == Kind::Secret {
                    let column = spot.column.saturating_add(spot.width);
                    let at = Position { line: spot.line, column };
                    self.marks.push(Mark { at, kind: own });
                }
            }
            (Kind::Open, _) => self.note(&entry.node.origin, own),
        }
        self.visit(&entry.node, own);
    }

    /// What the value at the end of the path is, within one that is `above`.
    fn kind(&self, node: &Node, above: Kind) -> Kind {
        let is_secret = is_secret(&self.path);
        let is_hidden = match (&node.value, self.path.as_slice()) {
            (Value::Null, _) => false,
            // A table where the list of keys belongs may have the keys for names, and a list the headers.
            (Value::Table(_), [Step::Key(only)]) if only == "keys" => true,
            (Value::List(_), [Step::Key(first), Step::Key(last)]) if first == "tracing" => {
                last == "headers"
            }
            (Value::Table(_) | Value::List(_), _) => is_secret,
            (_, path) => is_secret || leads_to_secret(path),
        };
        if is_hidden { Kind::Secret } else { above }
    }

    fn note(&mut self, origin: &Origin, kind: Kind) {
        if let Origin::Spot(spot) = origin {
            let at = Position { line: spot.line, column: spot.column };
            self.marks.push(Mark { at, kind });
        }
    }
}
