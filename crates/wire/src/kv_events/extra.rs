//! Extra keys of a KV block hash: cache salt, `LoRA` adapter and multimodal inputs.
//!
//! Engines list the extra keys of each block: the client's `cache_salt` at the front of a prompt,
//! the adapter on every block, images at their positions. vLLM wraps each in an array that begins
//! with its kind (from 0.31 on) or gives it bare. A salt can be compared with that of a request;
//! other keys only distinguish the block from the plain one and from each other.
//!
//! **Invariant:** equal keys have equal bytes, and a salt is never shown.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// The kind of a client's salt.
const SALT: &str = "cache_salt";
/// The kind of an adapter.
const LORA: &str = "lora";
/// The kind that is written for unknown keys.
const OTHER: &str = "other";

/// What entered the hash of one block, the adapter apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExtraKeys {
    /// Its tokens and parent alone.
    #[default]
    Nothing,
    /// A client's salt. Given bare it may be an image's hash as well; the two differ by their place.
    Salt(SaltText),
    /// Something else, as bytes to compare and hash.
    Other(Box<[u8]>),
}

impl ExtraKeys {
    /// All of it as bytes to hash; none for a plain block.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Nothing => &[],
            Self::Salt(salt) => salt.as_str().as_bytes(),
            Self::Other(bytes) => bytes,
        }
    }
}

/// A client's `cache_salt`: a secret between the client and the engine.
#[derive(Clone, PartialEq, Eq)]
pub struct SaltText(Box<str>);

impl SaltText {
    /// Wraps a salt as the client gave it.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The salt, to be hashed and never to be shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SaltText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SaltText(..)")
    }
}

impl Serialize for ExtraKeys {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing => to.serialize_none(),
            Self::Salt(salt) => [(SALT, salt.as_str())].serialize(to),
            Self::Other(bytes) => [(OTHER, Bytes(bytes))].serialize(to),
        }
    }
}

struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0)
    }
}

/// The keys of all blocks of an event, as they came.
#[derive(Debug, Default)]
pub(super) struct RawExtraKeys(Vec<Value>);

impl<'de> Deserialize<'de> for RawExtraKeys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::deserialize(from).map(Self)
    }
}

impl RawExtraKeys {
    /// Block by block what is left without the adapter, which the event names apart. Plain blocks at
    /// the end are left out.
    pub(super) fn without(self, lora: Option<&str>) -> Vec<ExtraKeys> {
        let mut blocks: Vec<ExtraKeys> =
            self.0.into_iter().map(|block| block.into_keys(lora)).collect();
        let plain = blocks.iter().rev().take_while(|keys| **keys == ExtraKeys::Nothing).count();
        blocks.truncate(blocks.len() - plain);
        blocks
    }
}

/// Whatever `MessagePack` can say.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Nil,
    Text(String),
    List(Vec<Value>),
    /// A byte string.
    Bytes(Box<[u8]>),
    /// Anything else, written out.
    Scalar(String),
}

impl Value {
    /// The keys of a block: a list of them, or one that stands for itself.
    fn into_keys(self, lora: Option<&str>) -> ExtraKeys {
        let keys = match self {
            Self::Nil => return ExtraKeys::Nothing,
            Self::List(keys) => keys,
            one => vec![one],
        };
        let mut rest: Vec<Self> = keys.into_iter().filter(|key| !key.is_adapter(lora)).collect();
        if rest.is_empty() {
            return ExtraKeys::Nothing;
        }
        if let [key] = &mut *rest {
            match key {
                Self::Text(salt) => return ExtraKeys::Salt(SaltText::new(salt)),
                Self::List(pair) => match &**pair {
                    [Self::Text(kind), Self::Text(salt)] if kind == SALT => {
                        return ExtraKeys::Salt(SaltText::new(salt));
                    }
                    [Self::Text(kind), Self::Bytes(bytes)] if kind == OTHER => {
                        return ExtraKeys::Other(bytes.clone());
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        let mut bytes = Vec::new();
        Self::List(rest).write(&mut bytes);
        ExtraKeys::Other(bytes.into())
    }

    /// Whether it only repeats which adapter the event names.
    fn is_adapter(&self, lora: Option<&str>) -> bool {
        match (self, lora) {
            (Self::Text(text), Some(lora)) => text == lora,
            (Self::List(parts), Some(_)) => parts.first() == Some(&Self::Text(LORA.to_owned())),
            _ => false,
        }
    }

    /// Different values write different bytes: each begins with its kind and its length.
    fn write(&self, out: &mut Vec<u8>) {
        let (kind, length) = match self {
            Self::Nil => (b'n', 0),
            Self::Text(text) => (b't', text.len()),
            Self::Scalar(text) => (b's', text.len()),
            Self::Bytes(bytes) => (b'b', bytes.len()),
            Self::List(list) => (b'l', list.len()),
        };
        out.push(kind);
        out.extend_from_slice(&(length as u64).to_le_bytes());
        match self {
            Self::Nil => {}
            Self::Text(text) | Self::Scalar(text) => out.extend_from_slice(text.as_bytes()),
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
            Self::List(list) => list.iter().for_each(|value| value.write(out)),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Scalar(value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Scalar(format!("{:x}f", value.to_bits())))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_bytes<E: de::Error>(self, value: &[u8]) -> Result<Value, E> {
        Ok(Value::Bytes(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut list = vec![Value::Scalar("map".to_owned())];
        while let Some((key, value)) = map.next_entry()? {
            list.push(Value::List(vec![key, value]));
        }
        Ok(Value::List(list))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        Value::deserialize(from)
    }
}
