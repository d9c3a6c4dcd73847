//! YAML parser: reads a document into nodes, with bounds on size, depth and aliases.
//!
//! The YAML crate itself refuses duplicate keys, unknown anchors and anchors that multiply
//! ("billion laughs"); this file rewords its errors.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Error, Location, MessageFormatter, Spanned, UserMessageFormatter};

use crate::error::{ConfigError, ConfigErrors, Wrong};
use crate::node::{Entry, Node, Value};
use crate::place::{Origin, Source, Spot};

/// Maximum values of one file; those repeated through anchors count each time.
pub(crate) const NODES_MAX: usize = 65_536;

/// How deep tables and lists may be nested.
pub(crate) const DEPTH_MAX: usize = 32;

/// Reads a whole document.
pub(crate) fn parse(source: &Source) -> Result<Node, ConfigErrors> {
    parse_within(source, NODES_MAX)
}

/// Reads a whole document of at most so many values.
pub(crate) fn parse_within(source: &Source, nodes_max: usize) -> Result<Node, ConfigErrors> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        // `off` is a word of ours; YAML 1.1 would make it `false`.
        strict_booleans: true,
        budget: serde_saphyr::budget! { max_nodes: nodes_max, max_depth: DEPTH_MAX },
    };
    let read = serde_saphyr::from_str_with_options::<Node>(&source.text, options);
    read.map_err(|error| {
        let spot = error.location().map(|location| spot(&location));
        let origin = spot.map_or(Origin::Whole, Origin::Spot);
        ConfigError::new(source, &origin, told(&error)).into()
    })
}

fn told(mut error: &Error) -> Wrong {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } =
        error
    {
        error = inner;
    }
    match error {
        Error::DuplicateMappingKey { key, .. } => Wrong::twice(key.as_deref().unwrap_or("?")),
        Error::UnknownAnchor { .. } => {
            Wrong::new("no such anchor is defined above", "expected `&name` before `*name`")
        }
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => Wrong::too_large(),
        Error::MultipleDocuments { .. } => {
            Wrong::new("a second document begins", "expected one document, without a `---` in it")
        }
        // Without the number: a secret of hexadecimal digits may look like one, as in `1e999`.
        Error::NonFiniteFloat { .. } => {
            Wrong::new("the value is not a finite number", "expected one; text goes in quotes")
        }
        other => Wrong {
            message: format!("not YAML: {}", UserMessageFormatter.format_message(other)),
            expected: Some(
                "expected `key: value` lines; strings that hold `: `, `#` or `${…}` go in quotes"
                    .to_owned(),
            ),
        },
    }
}

fn spot(location: &Location) -> Spot {
    let number = |count: u64| usize::try_from(count).unwrap_or(1).max(1);
    let width = number(location.span().len());
    Spot { line: number(location.line()), column: number(location.column()), width }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { value: read.value, origin: Origin::Spot(spot(&read.referenced)) })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Anything)
    }
}

struct Anything;

impl<'de> Visitor<'de> for Anything {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Whole(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Whole(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Real(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = items.next_element()? {
            nodes.push(node);
        }
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut table = Vec::new();
        while let Some((key, node)) = entries.next_entry::<Spanned<String>, Node>()? {
            let key_origin = Origin::Spot(spot(&key.referenced));
            table.push(Entry { key: key.value, key_origin, node });
        }
        Ok(Value::Table(table))
    }
}
