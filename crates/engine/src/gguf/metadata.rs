//! GGUF metadata: typed access to the entries of a model file.
//!
//! Absent entries are `None`; entries of the wrong type are errors that name key, found value and
//! expected type. Any integer type is accepted for an integer, because writers disagree about
//! widths.

use std::collections::BTreeMap;

use candle_core::quantized::gguf_file::Value;

use super::OpenError;

/// Maximum characters of a value that a message quotes.
const QUOTED_MAX: usize = 60;

/// The metadata entries of a GGUF file by key.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    entries: BTreeMap<String, Value>,
}

impl Metadata {
    /// Wraps entries that were read, or made up for a test.
    pub fn new(entries: BTreeMap<String, Value>) -> Self {
        Self { entries }
    }

    /// All entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The entry as it was read.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// A string.
    ///
    /// # Errors
    /// [`OpenError::Metadata`] when the entry is no string.
    pub fn text(&self, key: &str) -> Result<Option<&str>, OpenError> {
        self.typed(key, "a string", |value| match value {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// An integer that is not negative.
    ///
    /// # Errors
    /// [`OpenError::Metadata`] when the entry is no such integer.
    pub fn unsigned(&self, key: &str) -> Result<Option<u64>, OpenError> {
        self.typed(key, "an integer that is not negative", |value| {
            integer(value).and_then(|number| u64::try_from(number).ok())
        })
    }

    /// A floating-point number.
    ///
    /// # Errors
    /// [`OpenError::Metadata`] when the entry is no number.
    pub fn float(&self, key: &str) -> Result<Option<f32>, OpenError> {
        self.typed(key, "a number", float)
    }

    /// A truth value.
    ///
    /// # Errors
    /// [`OpenError::Metadata`] when the entry is no truth value.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, OpenError> {
        self.typed(key, "true or false", |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    /// A list of strings.
    ///
    /// # Errors
    /// [`OpenError::Metadata`] when the entry is no such list.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<&str>>, OpenError> {
        self.list(key, "a list of strings", |value| match value {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// A list of numbers.
    ///
    /// # Errors
    /// [`OpenError::Metadata`] when the entry is no such list.
    pub fn floats(&self, key: &str) -> Result<Option<Vec<f32>>, OpenError> {
        self.list(key, "a list of numbers", float)
    }

    /// A list of integers.
    ///
    /// # Errors
    /// [`OpenError::Metadata`] when the entry is no such list.
    pub fn integers(&self, key: &str) -> Result<Option<Vec<i64>>, OpenError> {
        self.list(key, "a list of integers", |value| {
            integer(value).and_then(|number| i64::try_from(number).ok())
        })
    }

    /// Insists on an entry that an accessor looked for.
    ///
    /// # Errors
    /// [`OpenError::MissingMetadata`] when it was absent.
    pub fn required<T>(found: Option<T>, key: &str, expected: &str) -> Result<T, OpenError> {
        found.ok_or_else(|| OpenError::MissingMetadata {
            key: key.to_owned(),
            expected: expected.to_owned(),
        })
    }

    /// Insists that the file has a tokenizer.
    ///
    /// # Errors
    /// [`OpenError::MissingTokenizer`] when it has none.
    pub fn require_tokenizer(&self) -> Result<(), OpenError> {
        for key in ["tokenizer.ggml.model", "tokenizer.ggml.tokens"] {
            if !self.entries.contains_key(key) {
                return Err(OpenError::MissingTokenizer { key: key.to_owned() });
            }
        }
        Ok(())
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, OpenError> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        match convert(value) {
            Some(converted) => Ok(Some(converted)),
            None => Err(mismatch(key, value, expected)),
        }
    }

    fn list<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>, OpenError> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        let Value::Array(elements) = value else { return Err(mismatch(key, value, expected)) };
        let converted: Option<Vec<T>> = elements.iter().map(convert).collect();
        converted.map(Some).ok_or_else(|| mismatch(key, value, expected))
    }
}

fn integer(value: &Value) -> Option<i128> {
    Some(match value {
        Value::U8(number) => (*number).into(),
        Value::I8(number) => (*number).into(),
        Value::U16(number) => (*number).into(),
        Value::I16(number) => (*number).into(),
        Value::U32(number) => (*number).into(),
        Value::I32(number) => (*number).into(),
        Value::U64(number) => (*number).into(),
        Value::I64(number) => (*number).into(),
        _ => return None,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "the engine computes in single precision")]
fn float(value: &Value) -> Option<f32> {
    match value {
        Value::F32(number) => Some(*number),
        Value::F64(number) => Some(*number as f32),
        _ => None,
    }
}

fn mismatch(key: &str, value: &Value, expected: &str) -> OpenError {
    let found = match value {
        Value::Array(elements) => format!("a list of {} elements", elements.len()),
        Value::String(text) => text.chars().take(QUOTED_MAX).collect(),
        scalar => format!("{scalar:?}"),
    };
    OpenError::Metadata { key: key.to_owned(), found, expected: expected.to_owned() }
}
