//! Secret text of a configuration.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quoting::REDACTED;

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for comparing; never for a log.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_string(SecretText)
    }
}

/// Reads text. What is no text is refused without its value: a key of digits alone is a number to YAML.
struct SecretText;

impl SecretText {
    fn refused<T, E: Error>(&self) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Other(REDACTED), self))
    }
}

impl<'de> Visitor<'de> for SecretText {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Secret, E> {
        Ok(Secret(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Secret, E> {
        Ok(Secret(text))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Secret, E> {
        self.refused()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Secret, E> {
        self.refused()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Secret, E> {
        self.refused()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Secret, E> {
        self.refused()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Secret, A::Error> {
        self.refused()
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Secret, A::Error> {
        self.refused()
    }
}
