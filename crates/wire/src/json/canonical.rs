//! Canonical JSON: equal values in equal bytes, for cache keys.
//!
//! Two requests are the same for a cache only where no worker could tell them apart. So, of what RFC
//! 8785 unifies, only what nobody sees is unified: white space, escapes, and the order of the
//! request's own members. Below that order and the writing of numbers stay, for chat templates print
//! tools and documents as they came. A single number that is a member's whole value is unified
//! (`0` and `0.0` are the same temperature).
//!
//! **Invariant:** equal bytes mean equal values; what can be read in two ways (a key that is there
//! twice, half a surrogate pair) has no canonical form.

use std::collections::BTreeSet;

use super::scan::Object;

/// Largest whole number that a float holds exactly, with all below it.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Members by which a request names something that lies elsewhere.
const POINTERS: [&str; 3] = ["url", "image_url", "file_id"];

/// Why a value has no canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Uncanonical {
    /// A key is there twice, or text that is no text.
    #[error("the value can be read in two ways")]
    Ambiguous,
    /// It names something that may change without it.
    #[error("the value refers to something outside the request")]
    Outside,
}

/// Whether members that point outside are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointers {
    /// They are text like any other.
    Text,
    /// They are refused, unless what they point to is in them (`data:`).
    Refused,
}

/// One member of a request in its canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanonicalMember {
    /// The key, unescaped.
    pub name: String,
    /// The value's bytes.
    pub value: Vec<u8>,
}

/// The members of `object` by name.
///
/// # Errors
/// [`Uncanonical`], where the object can be read in two ways or, in `messages` and `prompt`, points
/// outside.
pub fn members(object: &Object<'_>) -> Result<Vec<CanonicalMember>, Uncanonical> {
    let mut members = Vec::with_capacity(object.members().len());
    for member in object.members() {
        let name = member.key().into_owned();
        let pointers = match name.as_str() {
            "messages" | "prompt" => Pointers::Refused,
            _ => Pointers::Text,
        };
        let mut value = Vec::with_capacity(member.value().len());
        write(member.value(), pointers, &mut value)?;
        members.push(CanonicalMember { name, value });
    }
    members.sort_by(|one, other| one.name.cmp(&other.name));
    let twice = members.windows(2).any(|pair| pair[0].name == pair[1].name);
    if twice { Err(Uncanonical::Ambiguous) } else { Ok(members) }
}

/// Appends the canonical form of a value whose grammar has been checked.
///
/// # Errors
/// [`Uncanonical`].
pub fn write(value: &str, pointers: Pointers, out: &mut Vec<u8>) -> Result<(), Uncanonical> {
    if let Some(number) = number(value) {
        out.extend_from_slice(number.as_bytes());
        return Ok(());
    }
    let mut walk = Walk { rest: value, pointers, out };
    walk.value(None)
}

/// A value that is one number, in one of its writings; `None` where it is none, or would not be
/// exact.
fn number(value: &str) -> Option<String> {
    let value = value.trim();
    if !value.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return None;
    }
    let digits = value.strip_prefix('-').unwrap_or(value);
    if digits != "0" && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(value.to_owned());
    }
    let float: f64 = value.parse().ok().filter(|float: &f64| float.is_finite())?;
    if float.abs() < WHOLE_MAX && float.fract() == 0.0 {
        // Negative zero is zero for everybody who samples.
        return Some(format!("{:.0}", float + 0.0));
    }
    // Shortest text that reads as this float.
    Some(format!("{float:?}"))
}

/// Goes over text whose grammar has been checked: it never has to doubt what comes next.
struct Walk<'a, 'out> {
    rest: &'a str,
    pointers: Pointers,
    out: &'out mut Vec<u8>,
}

impl<'a> Walk<'a, '_> {
    fn value(&mut self, key: Option<&str>) -> Result<(), Uncanonical> {
        self.rest = self.rest.trim_ascii_start();
        match self.rest.as_bytes().first() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => {
                let text = self.string()?;
                let points = self.pointers == Pointers::Refused
                    && key.is_some_and(|key| POINTERS.contains(&key));
                if points && !text.starts_with("data:") {
                    return Err(Uncanonical::Outside);
                }
                self.push_text(&text);
                Ok(())
            }
            _ => {
                let ends =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                let end = self.rest.bytes().position(|byte| ends(&byte)).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.out.extend_from_slice(word.as_bytes());
                self.rest = rest;
                Ok(())
            }
        }
    }

    fn object(&mut self) -> Result<(), Uncanonical> {
        let mut keys = BTreeSet::new();
        self.out.push(b'{');
        self.skip('{');
        while !self.skip('}') {
            if self.skip(',') {
                self.out.push(b',');
                continue;
            }
            if self.rest.is_empty() {
                return Err(Uncanonical::Ambiguous);
            }
            let key = self.string()?;
            self.push_text(&key);
            self.skip(':');
            self.out.push(b':');
            self.value(Some(&key))?;
            if !keys.insert(key) {
                return Err(Uncanonical::Ambiguous);
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn array(&mut self) -> Result<(), Uncanonical> {
        self.out.push(b'[');
        self.skip('[');
        while !self.skip(']') {
            if self.skip(',') {
                self.out.push(b',');
                continue;
            }
            if self.rest.is_empty() {
                return Err(Uncanonical::Ambiguous);
            }
            self.value(None)?;
        }
        self.out.push(b']');
        Ok(())
    }

    /// Takes a character where it stands next.
    fn skip(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_ascii_start();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Takes a string; its text.
    fn string(&mut self) -> Result<std::borrow::Cow<'a, str>, Uncanonical> {
        self.rest = self.rest.trim_ascii_start();
        let bytes = self.rest.as_bytes();
        let mut end = 1;
        loop {
            let found = bytes.get(end..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest));
            end += found.ok_or(Uncanonical::Ambiguous)?;
            if bytes[end] == b'"' {
                break;
            }
            end += 2;
        }
        let (raw, rest) = self.rest.split_at(end + 1);
        self.rest = rest;
        let inside = &raw[1..raw.len() - 1];
        if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
            return Ok(inside.into());
        }
        // Half a surrogate pair is no text, and readers differ in what they make of it.
        serde_json::from_str::<String>(raw).map(Into::into).map_err(|_| Uncanonical::Ambiguous)
    }

    fn push_text(&mut self, text: &str) {
        serde_json::to_writer(&mut *self.out, text).expect("a string serialises");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> Result<String, Uncanonical> {
        let mut out = Vec::new();
        write(text, Pointers::Text, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
    }

    #[test]
    fn what_nobody_sees_is_unified_and_the_rest_is_kept() {
        check(
            " { \"b\" : [ 1 , 2.0 ] , \"a\" : \"\\u0041\\/\\n\" } ",
            r#"{"b":[1,2.0],"a":"A/\n"}"#,
        );
        check("[]", "[]");
        check("{ }", "{}");
        check("[[],{},null,true , -1e5]", "[[],{},null,true,-1e5]");
        check(r#""\u00e9""#, "\"é\"");
        check(r#""a\"b\\""#, r#""a\"b\\""#);
    }

    #[test]
    fn a_single_number_has_one_writing() {
        for (text, expected) in [
            ("0", "0"),
            ("0.0", "0"),
            ("-0", "0"),
            ("1e2", "100"),
            ("0.70", "0.7"),
            ("7e-1", "0.7"),
            ("-3.0", "-3"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
        ] {
            check(text, expected);
        }
        // Beyond what a float holds exactly, neighbours stay apart.
        assert_ne!(canonical("9007199254740993"), canonical("9007199254740992"));
        assert_ne!(canonical("-9007199254740993"), canonical("-9007199254740992"));
    }

    #[test]
    fn what_can_be_read_in_two_ways_has_no_form() {
        for text in
            [r#"{"a":1,"a":2}"#, r#"{"a":1,"\u0061":2}"#, r#"[{"x":{"a":1,"a":1}}]"#, r#""\ud800""#]
        {
            assert_eq!(canonical(text), Err(Uncanonical::Ambiguous), "{text}");
        }
        let twice = Object::parse(br#"{"a":1,"b":2,"a":1}"#).unwrap();
        assert_eq!(members(&twice), Err(Uncanonical::Ambiguous));
    }

    #[test]
    fn members_stand_by_name_and_messages_point_nowhere() {
        let one = Object::parse(br#"{"model":"m","messages":[{"role":"user"}]}"#).unwrap();
        let other = Object::parse(br#" {"messages": [{"role": "user"}], "model": "m"}"#).unwrap();
        assert_eq!(members(&one), members(&other));
        let picture = |url: &str| {
            let body = format!(
                r#"{{"messages":[{{"content":[{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}]}}"#
            );
            members(&Object::parse(body.as_bytes()).unwrap()).map(|members| members.len())
        };
        assert_eq!(picture("https://example.org/now.png"), Err(Uncanonical::Outside));
        assert_eq!(picture("data:image/png;base64,AA"), Ok(1));
        let schema = Object::parse(br#"{"tools":[{"url":"http://a"}]}"#).unwrap();
        assert!(members(&schema).is_ok());
    }

    proptest! {
        #[test]
        fn equal_forms_mean_equal_values(text in r#"[\[\]{}:,"a\\\\ \n0-9.]{0,24}"#) {
            let wrapped = format!("{{\"x\":{text}}}");
            let Ok(object) = Object::parse(wrapped.as_bytes()) else { return Ok(()) };
            let value = object.raw("x").unwrap();
            let Ok(form) = canonical(value) else { return Ok(()) };
            let before: serde_json::Value = serde_json::from_str(value).unwrap();
            let after: serde_json::Value = serde_json::from_str(&form).unwrap();
            // Numbers alone may change their writing, not their value.
            prop_assert!(before == after || before.as_f64() == after.as_f64());
            prop_assert_eq!(canonical(&form), Ok(form));
        }
    }
}
