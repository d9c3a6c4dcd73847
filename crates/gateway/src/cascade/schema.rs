//! JSON schema validation: whether an answer keeps to the `response_format` of its request.
//!
//! The check covers a subset of JSON Schema: that the answer is JSON, and the types, required
//! members, closed objects, fixed values and the items of lists. Patterns, bounds and references
//! are not checked, so an answer that passes may still violate the schema; one that fails here
//! violates it for certain.

use serde_json::Value;

/// Maximum depth of a schema that is checked.
const DEPTH_MAX: usize = 32;

/// What an answer is bound to.
#[derive(Clone, Debug, Default)]
pub(super) struct Schema {
    /// The schema, where there is one.
    schema: Option<Value>,
    /// Whether it must be an object at least.
    object: bool,
}

impl Schema {
    /// That of a request's `response_format`.
    pub(super) fn of(format: Option<&str>) -> Self {
        let format: Option<Value> = format.and_then(|raw| serde_json::from_str(raw).ok());
        let Some(format) = format else { return Self::default() };
        let kind = format.get("type").and_then(Value::as_str);
        let schema = format.get("json_schema").and_then(|named| named.get("schema"));
        Self { schema: schema.cloned(), object: kind == Some("json_object") }
    }

    /// Whether `text` keeps to it as far as that is checked.
    pub(super) fn admits(&self, text: &str) -> bool {
        let Ok(value) = serde_json::from_str::<Value>(text) else { return false };
        (!self.object || value.is_object())
            && self.schema.as_ref().is_none_or(|schema| admits(schema, &value, DEPTH_MAX))
    }
}

fn admits(schema: &Value, value: &Value, depth: usize) -> bool {
    let Some(schema) = schema.as_object() else { return schema != &Value::Bool(false) };
    let Some(depth) = depth.checked_sub(1) else { return true };
    let fits = |wanted: &Value| wanted.as_str().is_none_or(|name| is_type(name, value));
    let typed = match schema.get("type") {
        Some(Value::Array(any)) => any.iter().any(fits),
        Some(one) => fits(one),
        None => true,
    };
    let fixed = schema.get("const").is_none_or(|only| only == value);
    let listed = schema.get("enum").and_then(Value::as_array).is_none_or(|any| any.contains(value));
    if !(typed && fixed && listed) {
        return false;
    }
    match value {
        Value::Object(members) => {
            let own = schema.get("properties").and_then(Value::as_object);
            let required = schema.get("required").and_then(Value::as_array);
            let has = |name: &Value| name.as_str().is_none_or(|name| members.contains_key(name));
            let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
            required.is_none_or(|names| names.iter().all(has))
                && members.iter().all(|(name, member)| match own.and_then(|own| own.get(name)) {
                    Some(schema) => admits(schema, member, depth),
                    None => !closed,
                })
        }
        Value::Array(items) => schema
            .get("items")
            .is_none_or(|schema| items.iter().all(|item| admits(schema, item, depth))),
        _ => true,
    }
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(is_whole),
        _ => true,
    }
}

fn is_whole(number: f64) -> bool {
    number.fract() == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: &str, admitted: &[&str], refused: &[&str]) {
        let schema = Schema::of(Some(format));
        for text in admitted {
            assert!(schema.admits(text), "{text}");
        }
        for text in refused {
            assert!(!schema.admits(text), "{text}");
        }
    }

    #[test]
    fn an_object_is_asked_for() {
        check(r#"{"type":"json_object"}"#, &["{}", r#"{"a":1}"#], &["[]", "1", "", "{", "hello"]);
    }

    #[test]
    fn a_schema_is_kept_to() {
        let format = r#"{"type":"json_schema","json_schema":{"name":"p","schema":{
            "type":"object","required":["name","tags"],"additionalProperties":false,
            "properties":{"name":{"type":"string"},"age":{"type":["integer","null"]},
                "tags":{"type":"array","items":{"enum":["a","b"]}}}}}}"#;
        check(
            format,
            &[r#"{"name":"x","tags":[]}"#, r#"{"name":"x","age":3.0,"tags":["a","b"]}"#],
            &[
                r#"{"name":"x"}"#,
                r#"{"name":1,"tags":[]}"#,
                r#"{"name":"x","tags":["c"]}"#,
                r#"{"name":"x","tags":[],"more":1}"#,
                r#"{"name":"x","age":1.5,"tags":[]}"#,
            ],
        );
    }
}
