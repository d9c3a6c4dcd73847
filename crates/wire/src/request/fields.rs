//! Request field reader: typed access to JSON members, with errors that name the path.
//!
//! The JSON tree has types but no positions, so a [`Fields`] carries the path of the object it
//! reads. Null reads as absent, as in OpenAI's own server. **Invariant:** every error names the
//! value found, its path, and what was expected.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::error::{ApiError, ErrorKind, clip};

/// The members of one object, taken out one by one.
pub(super) struct Fields {
    /// Path of the object; empty for the body itself.
    path: String,
    members: Map<String, Value>,
}

/// Parses a body that must be one JSON object.
pub(super) fn parse_body(body: &[u8]) -> Result<Fields, ApiError> {
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        ApiError::new(ErrorKind::InvalidJson, format!("the body is not valid JSON: {error}"))
    })?;
    match value {
        Value::Object(members) => Ok(Fields { path: String::new(), members }),
        other => Err(ApiError::new(
            ErrorKind::InvalidRequest,
            format!("the body is {}; expected a JSON object", describe(&other)),
        )),
    }
}

/// A value that must be an object at `path`.
pub(super) fn object_at(path: String, value: Value) -> Result<Fields, ApiError> {
    match value {
        Value::Object(members) => Ok(Fields { path, members }),
        other => Err(mismatch(&path, &other, "an object")),
    }
}

impl Fields {
    /// The path of the member `name`.
    pub(super) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Whether there is a member that is not null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|value| !value.is_null())
    }

    /// Takes a member; `None` if it is absent or null.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        // Shifting keeps the order of what is left over, which a template may print.
        self.members.shift_remove(name).filter(|value| !value.is_null())
    }

    /// What has not been taken.
    pub(super) fn rest(self) -> Map<String, Value> {
        self.members
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(mismatch(&self.path(name), &other, "true or false")),
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(mismatch(&self.path(name), &other, "a string")),
        }
    }

    pub(super) fn array(&mut self, name: &str) -> Result<Option<Vec<Value>>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(mismatch(&self.path(name), &other, "an array")),
        }
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Option<Self>, ApiError> {
        self.take(name).map(|value| object_at(self.path(name), value)).transpose()
    }

    /// An integer in `range`. A float without a fraction counts: some clients' JSON has no integers.
    pub(super) fn integer(
        &mut self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        let path = self.path(name);
        self.take(name).map(|value| integer_at(&path, &value, range)).transpose()
    }

    /// A count up to `max`.
    pub(super) fn count(&mut self, name: &str, max: u32) -> Result<Option<u32>, ApiError> {
        let found = self.integer(name, 0..=i64::from(max))?;
        Ok(found.map(|count| u32::try_from(count).expect("the range ends within u32")))
    }

    /// A finite number for which `holds`, which `expected` describes.
    pub(super) fn number(
        &mut self,
        name: &str,
        holds: impl Fn(f32) -> bool,
        expected: &str,
    ) -> Result<Option<f32>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match as_f32(&value) {
            Some(number) if holds(number) => Ok(Some(number)),
            Some(_) => Err(out_of_range(&self.path(name), &value, expected)),
            None => Err(mismatch(&self.path(name), &value, expected)),
        }
    }
}

/// A value as the engine's number type, if it is a finite number.
pub(super) fn as_f32(value: &Value) -> Option<f32> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the engine computes in f32; checked below"
    )]
    value.as_f64().map(|wide| wide as f32).filter(|number| number.is_finite())
}

/// An integer in `range` at `path`.
pub(super) fn integer_at(
    path: &str,
    value: &Value,
    range: RangeInclusive<i64>,
) -> Result<i64, ApiError> {
    let expected = describe_range(&range);
    let Some(integer) = as_integer(value) else { return Err(mismatch(path, value, &expected)) };
    match i64::try_from(integer) {
        Ok(fitting) if range.contains(&fitting) => Ok(fitting),
        _ => Err(out_of_range(path, value, &expected)),
    }
}

/// A JSON number without a fraction.
pub(crate) fn as_integer(value: &Value) -> Option<i128> {
    /// Beyond this, not every integer is a float.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let number = value.as_number()?;
    if let Some(integer) = number.as_i64() {
        return Some(i128::from(integer));
    }
    if let Some(integer) = number.as_u64() {
        return Some(i128::from(integer));
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the exact range")]
    number
        .as_f64()
        .filter(|float| float.fract() == 0.0 && float.abs() <= EXACT_MAX)
        .map(|float| float as i128)
}

/// The error for a value of the wrong type.
pub(super) fn mismatch(path: &str, value: &Value, expected: &str) -> ApiError {
    ApiError::invalid(path, format!("`{path}` is {}; expected {expected}", describe(value)))
}

/// The error for a value of the right type that cannot be.
pub(super) fn out_of_range(path: &str, value: &Value, expected: &str) -> ApiError {
    let shown = clip(&value.to_string());
    ApiError::invalid(path, format!("`{shown}` is out of range for `{path}`; expected {expected}"))
}

fn describe_range(range: &RangeInclusive<i64>) -> String {
    match (*range.start(), *range.end()) {
        (0, end) if end >= i64::from(u32::MAX) => "an integer, zero or more".to_owned(),
        (1, end) if end >= i64::from(u32::MAX) => "an integer, one or more".to_owned(),
        (start, end) => format!("an integer from {start} to {end}"),
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => format!("the boolean `{flag}`"),
        Value::Number(number) => format!("the number `{number}`"),
        Value::String(text) => format!("the string `{}`", clip(text)),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
