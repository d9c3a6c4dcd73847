//! Methods of Python's strings and lists that the engine's own set lacks.

use minijinja::value::{Tuple, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

/// Calls `value.method(args)`.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    match (value.as_str(), method) {
        (Some(text), "removeprefix") => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        (Some(text), "removesuffix") => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        (Some(text), "partition") => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) = text.split_once(separator).unwrap_or((text, ""));
            let found = &text[before.len()..text.len() - after.len()];
            Ok(tuple([before, found, after]))
        }
        (Some(text), "rpartition") => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) = text.rsplit_once(separator).unwrap_or(("", text));
            let found = &text[before.len()..text.len() - after.len()];
            Ok(tuple([before, found, after]))
        }
        (Some(text), "rsplit") => rsplit(state, value, text, args),
        (Some(_), "index" | "rindex") => {
            let find = if method == "index" { "find" } else { "rfind" };
            let place = pycompat::unknown_method_callback(state, value, find, args)?;
            if place.as_i64() == Some(-1) { Err(not_found()) } else { Ok(place) }
        }
        (None, "index") if value.kind() == ValueKind::Seq => {
            let (item,): (Value,) = from_args(args)?;
            let place = value.try_iter()?.position(|other| other == item);
            place.map(Value::from).ok_or_else(not_found)
        }
        _ => pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// `rsplit`, which differs from `split` where it does not cut everywhere.
fn rsplit(
    state: &mut State<'_, '_>,
    value: &Value,
    text: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let (separator, cuts): (Option<&str>, Option<i64>) = from_args(args)?;
    match (separator, cuts.and_then(|cuts| usize::try_from(cuts).ok())) {
        (Some(separator), Some(cuts)) if !separator.is_empty() => {
            let mut parts: Vec<&str> = text.rsplitn(cuts.saturating_add(1), separator).collect();
            parts.reverse();
            Ok(Value::from_iter(parts))
        }
        (None, Some(_)) => Err(Error::from(ErrorKind::UnknownMethod)),
        _ => pycompat::unknown_method_callback(state, value, "split", args),
    }
}

fn tuple(parts: [&str; 3]) -> Value {
    Value::from(Tuple::from(parts.map(Value::from)))
}

fn not_found() -> Error {
    Error::new(ErrorKind::InvalidOperation, "what `index` looks for is not there")
}
