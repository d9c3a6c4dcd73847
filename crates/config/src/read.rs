//! Deserializer (`serde`): reads nodes into the typed tree, with the place of every error.
//!
//! It adds the place to the derived code: the innermost node that could not be read names the line,
//! and every table and list around it adds its key or index to the path.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, Expected, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};

use crate::error::{ConfigError, ConfigErrors, Unread};
use crate::node::{Entry, Node, Step, Value};
use crate::place::{Origin, Source};

/// Reads the whole tree.
pub(crate) fn read<T: DeserializeOwned>(root: &Node, source: &Source) -> Result<T, ConfigErrors> {
    T::deserialize(Reader(root)).map_err(|fault| {
        let Inner { what, origin, mut path } = *fault.0;
        path.reverse();
        let origin = origin.unwrap_or(Origin::Whole);
        ConfigError::quoting(source, &origin, what.quoted(&path), what.told(&path)).into()
    })
}

/// Why a value cannot be read, on its way out.
#[derive(Debug)]
struct Fault(Box<Inner>);

#[derive(Debug)]
struct Inner {
    what: Unread,
    origin: Option<Origin>,
    /// From the inside out.
    path: Vec<Step>,
}

impl Fault {
    fn new(what: Unread) -> Self {
        Self(Box::new(Inner { what, origin: None, path: Vec::new() }))
    }

    /// Names the place unless something inside has named a better one.
    fn at(mut self, origin: &Origin) -> Self {
        self.0.origin.get_or_insert_with(|| origin.clone());
        self
    }

    fn under(mut self, step: Step) -> Self {
        self.0.path.push(step);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.what.told(&[]).message)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::new(Unread::Said(text.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let (found, expected) = (plain(found), in_plain_words(&expected.to_string()));
        Self::new(Unread::Unfit { found, expected })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Self {
        Self::new(Unread::UnknownWord { found: found.to_owned(), known })
    }

    fn unknown_field(found: &str, known: &'static [&'static str]) -> Self {
        Self::new(Unread::UnknownKey { found: found.to_owned(), known })
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new(Unread::Missing { key })
    }
}

fn plain(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(flag) => format!("`{flag}`"),
        Unexpected::Unsigned(number) => format!("`{number}`"),
        Unexpected::Signed(number) => format!("`{number}`"),
        Unexpected::Float(number) => format!("`{number}`"),
        Unexpected::Str(text) => format!("`{text}`"),
        Unexpected::Unit | Unexpected::Option => "empty".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a table".to_owned(),
        other => other.to_string(),
    }
}

/// What Rust calls a type, as someone would who never saw Rust.
fn in_plain_words(expected: &str) -> String {
    let whole = |max: u64| format!("a whole number from 0 to {max}");
    match expected {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" => "a whole number, not negative".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "a string" | "path string" => "text; numbers and `true` go in quotes".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => other.to_owned(),
    }
}

#[derive(Clone, Copy)]
struct Reader<'a>(&'a Node);

impl<'a> Reader<'a> {
    fn with<T>(self, read: impl FnOnce(&'a Value) -> Result<T, Fault>) -> Result<T, Fault> {
        read(&self.0.value).map_err(|fault| fault.at(&self.0.origin))
    }

    fn whole<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.with(|value| match value {
            Value::Loose(text) => match text.trim().parse() {
                Ok(number) => visit_whole(number, visitor),
                Err(_) => visitor_refuses(text, &visitor),
            },
            value => visit(value, visitor),
        })
    }
}

fn visitor_refuses<'de, T, V: Visitor<'de>>(text: &str, visitor: &V) -> Result<T, Fault> {
    Err(de::Error::invalid_type(Unexpected::Str(text), visitor))
}

fn visit_whole<'de, V: Visitor<'de>>(number: i128, visitor: V) -> Result<V::Value, Fault> {
    match (u64::try_from(number), i64::try_from(number)) {
        (Ok(number), _) => visitor.visit_u64(number),
        (_, Ok(number)) => visitor.visit_i64(number),
        _ => visitor_refuses(&number.to_string(), &visitor),
    }
}

fn visit<'de, V: Visitor<'de>>(value: &Value, visitor: V) -> Result<V::Value, Fault> {
    match value {
        Value::Null => visitor.visit_unit(),
        Value::Flag(flag) => visitor.visit_bool(*flag),
        Value::Whole(number) => visit_whole(*number, visitor),
        Value::Real(number) => visitor.visit_f64(*number),
        Value::Text(text) | Value::Loose(text) => visitor.visit_str(text),
        Value::List(nodes) => visitor.visit_seq(Items { nodes: nodes.iter(), next: 0 }),
        Value::Table(entries) => visitor.visit_map(Entries { entries: entries.iter(), open: None }),
    }
}

macro_rules! whole_numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.whole(visitor)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Reader<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.with(|value| visit(value, visitor))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.with(|value| match value {
            Value::Loose(text) => match text.trim().parse() {
                Ok(flag) => visitor.visit_bool(flag),
                Err(_) => visitor_refuses(text, &visitor),
            },
            value => visit(value, visitor),
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.with(|value| match value {
            Value::Text(word) | Value::Loose(word) => {
                visitor.visit_enum(StrDeserializer::<Fault>::new(word))
            }
            Value::Table(entries) => match entries.as_slice() {
                [entry] => visitor.visit_enum(Variant(entry)),
                _ => Err(one_key(&format!("a table of {} keys", entries.len()), variants)),
            },
            Value::Null => Err(one_key("empty", variants)),
            other => visit(other, visitor),
        })
    }

    /// Derived code would take a list for a table with its keys in order; people would not.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.with(|value| match value {
            Value::List(_) => Err(de::Error::invalid_type(Unexpected::Seq, &visitor)),
            value => visit(value, visitor),
        })
    }

    whole_numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    serde::forward_to_deserialize_any! {
        f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map identifier
        ignored_any
    }
}

fn one_key(found: &str, variants: &[&str]) -> Fault {
    let known: Vec<String> = variants.iter().map(|word| format!("`{word}`")).collect();
    let expected = format!("one key of {}", known.join(", "));
    Fault::new(Unread::Unfit { found: found.to_owned(), expected })
}

struct Items<'a> {
    nodes: std::slice::Iter<'a, Node>,
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(node) = self.nodes.next() else { return Ok(None) };
        let index = self.next;
        self.next += 1;
        let read = seed.deserialize(Reader(node));
        read.map(Some).map_err(|fault| fault.at(&node.origin).under(Step::Index(index)))
    }
}

struct Entries<'a> {
    entries: std::slice::Iter<'a, Entry>,
    open: Option<&'a Entry>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        // A key without a value is as good as no key: the default stands.
        let entry = self.entries.find(|entry| entry.node.value != Value::Null);
        self.open = entry;
        let Some(entry) = entry else { return Ok(None) };
        let read = seed.deserialize(StrDeserializer::<Fault>::new(&entry.key));
        read.map(Some).map_err(|fault| fault.at(&entry.key_origin))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let entry = self.open.take().expect("serde asks for a value after its key");
        let read = seed.deserialize(Reader(&entry.node));
        read.map_err(|fault| fault.at(&entry.node.origin).under(Step::Key(entry.key.clone())))
    }
}

/// A table with one key, which says what its value is.
#[derive(Clone, Copy)]
struct Variant<'a>(&'a Entry);

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let read = seed.deserialize(StrDeserializer::<Fault>::new(&self.0.key));
        read.map(|variant| (variant, self)).map_err(|fault| fault.at(&self.0.key_origin))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Err(Fault::new(Unread::Said("it takes no value; expected the word alone".to_owned())))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        let Entry { key, node, .. } = self.0;
        let read = seed.deserialize(Reader(node));
        read.map_err(|fault| fault.at(&node.origin).under(Step::Key(key.clone())))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        visit(&self.0.node.value, visitor).map_err(|fault| fault.at(&self.0.node.origin))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.tuple_variant(0, visitor)
    }
}
