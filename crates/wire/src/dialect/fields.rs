//! JSON object fields: an object of a request, read member by member, so that what nobody read is known.
//!
//! Values stay the client's text until they are wanted: numbers keep their digits and schemas their
//! order of keys. A member that is null counts as absent; of two members with one name the last counts.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{ApiError, ErrorKind, clip};
use crate::json::{Object, Patch};

/// An object that is being read, and where it stands in the request.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    path: String,
    members: Vec<(String, &'a RawValue)>,
}

impl<'a> Fields<'a> {
    /// The object that a request's body is.
    pub(super) fn of_body(body: &'a [u8]) -> Result<Self, ApiError> {
        let raw: &RawValue = serde_json::from_slice(body).map_err(|error| {
            ApiError::new(ErrorKind::InvalidJson, format!("the body is not JSON: {error}"))
        })?;
        let members: Members<'a> = serde_json::from_str(raw.get()).map_err(|_| {
            ApiError::new(
                ErrorKind::InvalidRequest,
                "the body is no object; expected a JSON object",
            )
        })?;
        Ok(Self { path: String::new(), members: members.0 })
    }

    /// The object at `path`.
    pub(super) fn of(raw: &'a RawValue, path: impl Into<String>) -> Result<Self, ApiError> {
        let path = path.into();
        match serde_json::from_str::<Members<'a>>(raw.get()) {
            Ok(Members(members)) => Ok(Self { path, members }),
            Err(_) => Err(mistyped(&path, raw, "an object")),
        }
    }

    /// Where a member of it stands.
    pub(super) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Where it stands itself.
    pub(super) fn place(&self) -> &str {
        &self.path
    }

    /// Whether a member is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|(key, value)| key == name && value.get() != "null")
    }

    /// A member's value, which counts as read.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.members.iter().position(|(key, _)| key == name)?;
        let (_, value) = self.members.swap_remove(at);
        (value.get() != "null").then_some(value)
    }

    /// A member that must be there.
    pub(super) fn required(
        &mut self,
        name: &str,
        expected: &str,
    ) -> Result<&'a RawValue, ApiError> {
        self.take(name).ok_or_else(|| missing(&self.path(name), expected))
    }

    /// A text.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        text_of(raw, &self.path(name)).map(Some)
    }

    /// A text that must be there.
    pub(super) fn required_text(&mut self, name: &str) -> Result<String, ApiError> {
        let raw = self.required(name, "a string")?;
        text_of(raw, &self.path(name))
    }

    /// True or false.
    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        let flag = serde_json::from_str(raw.get());
        flag.map(Some).map_err(|_| mistyped(&self.path(name), raw, "true or false"))
    }

    /// A number in the client's own digits.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<&'a RawValue>, ApiError> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        match serde_json::from_str::<f64>(raw.get()) {
            Ok(_) => Ok(Some(raw)),
            Err(_) => Err(mistyped(&self.path(name), raw, "a number")),
        }
    }

    /// A count of at least `least`.
    pub(super) fn count(&mut self, name: &str, least: u32) -> Result<Option<u32>, ApiError> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        match serde_json::from_str::<u32>(raw.get()) {
            Ok(count) if least <= count => Ok(Some(count)),
            _ => {
                let expected = format!("an integer of at least {least}");
                Err(mistyped(&self.path(name), raw, &expected))
            }
        }
    }

    /// A list.
    pub(super) fn list(&mut self, name: &str) -> Result<Option<Vec<&'a RawValue>>, ApiError> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        list_of(raw, &self.path(name)).map(Some)
    }

    /// An object.
    pub(super) fn object(&mut self, name: &str) -> Result<Option<Self>, ApiError> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        Self::of(raw, self.path(name)).map(Some)
    }

    /// Hints change no answer: they are read and left.
    pub(super) fn skip(&mut self, names: &[&str]) {
        self.members.retain(|(key, _)| !names.contains(&key.as_str()));
    }

    /// Refuses what is left unread, by name.
    pub(super) fn finish(self) -> Result<(), ApiError> {
        match self.unread().next() {
            None => Ok(()),
            Some(path) => {
                let message = format!(
                    "`{}` is a field that cannot be translated to chat completions; leave it out",
                    clip(&path)
                );
                Err(ApiError::invalid(path, message))
            }
        }
    }

    /// The places of what nobody has read.
    pub(super) fn unread(&self) -> impl Iterator<Item = String> {
        let left = self.members.iter().filter(|(_, value)| value.get() != "null");
        left.map(|(key, _)| self.path(&clip(key)))
    }
}

/// The elements of a list.
pub(super) fn list_of<'a>(raw: &'a RawValue, path: &str) -> Result<Vec<&'a RawValue>, ApiError> {
    serde_json::from_str(raw.get()).map_err(|_| mistyped(path, raw, "a list"))
}

/// A text.
pub(super) fn text_of(raw: &RawValue, path: &str) -> Result<String, ApiError> {
    serde_json::from_str(raw.get()).map_err(|_| mistyped(path, raw, "a string"))
}

/// Whether a value is a string.
pub(super) fn is_text(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}

/// A member that must be there and is not.
pub(super) fn missing(path: &str, expected: &str) -> ApiError {
    ApiError::invalid(path, format!("`{path}` is missing; expected {expected}"))
}

/// A value of the wrong type.
pub(super) fn mistyped(path: &str, raw: &RawValue, expected: &str) -> ApiError {
    let message = format!("`{path}` is `{}`; expected {expected}", clip(raw.get()));
    ApiError::invalid(path, message)
}

/// A value that is none of those known.
pub(super) fn unknown(path: &str, value: &str, expected: &str) -> ApiError {
    let message = format!("`{path}` is `{}`; expected {expected}", clip(value));
    ApiError::invalid(path, message)
}

/// The text of a JSON value without the spaces between its tokens: the same value, however it was written.
pub(super) fn compact(raw: &RawValue) -> String {
    let mut out = String::with_capacity(raw.get().len());
    let (mut in_text, mut is_escaped) = (false, false);
    for letter in raw.get().chars() {
        if in_text {
            in_text = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
        } else if letter == '"' {
            in_text = true;
        } else if letter.is_ascii_whitespace() {
            continue;
        }
        out.push(letter);
    }
    out
}

struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut read = ReadMembers::default();
                while let Some(key) = map.next_key::<String>()? {
                    let value = map.next_value()?;
                    read.put(key, value);
                }
                Ok(read.members)
            }
        }
        deserializer.deserialize_map(Reader).map(Self)
    }
}

/// Members as they come. Each is found by its name: a client may send as many as its body holds, and a look at all of
/// them for each would take hours.
#[derive(Default)]
struct ReadMembers<'a> {
    members: Vec<(String, &'a RawValue)>,
    places: BTreeMap<String, usize>,
}

impl<'a> ReadMembers<'a> {
    /// Adds a member; of two with one name the last counts.
    fn put(&mut self, key: String, value: &'a RawValue) {
        if let Some((_, before)) = self.places.get(&key).and_then(|at| self.members.get_mut(*at)) {
            *before = value;
            return;
        }
        self.places.insert(key.clone(), self.members.len());
        self.members.push((key, value));
    }
}

/// An object with its members changed so.
pub(super) fn patched(raw: &RawValue, patch: &Patch) -> Box<RawValue> {
    let Ok(object) = Object::parse(raw.get().as_bytes()) else {
        return raw.to_owned();
    };
    let patched = String::from_utf8(patch.apply(&object)).ok();
    let patched = patched.and_then(|text| RawValue::from_string(text).ok());
    patched.unwrap_or_else(|| raw.to_owned())
}
