//! Refusals of members: whether an error finds fault with a member of the request or only repeats the request.
//!
//! Servers that check requests by a schema repeat what they were sent in the error, as `FastAPI` and vLLM do in `input`:
//! as JSON, as Python writes a dictionary, or as either within a string. Names in such a copy stand in quotes, before a
//! colon and their values, beside a member that every request has. A name in any other place is one that the server
//! objects to: `LiteLLM` prints those members alone that it refuses.

/// Members that requests have, of which a copy shows one at least. `input` is none of them: `FastAPI` calls the copy so.
const OF_EVERY_REQUEST: [&[u8]; 3] = [b"model", b"messages", b"prompt"];

/// What was read of an object, between its braces and outside of those within.
#[derive(Default)]
struct Scope {
    /// It has a member that every request has.
    is_request: bool,
    member: Member,
}

/// Where an object has the member with a value, the farther in the greater.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Member {
    #[default]
    Nowhere,
    Here,
    /// In an object within it that is no request, as `stream_options`.
    Within,
}

/// Whether an error names `member`, in lower case, in another way than by repeating the request.
///
/// Braces count wherever they stand, within strings too. Where those of a client's text have no counterpart, a copy may
/// be taken for a refusal.
///
/// ```
/// use overdraft_wire::refuses_member;
///
/// let refused = br#"{"error":{"message":"stream_options: extra inputs are not permitted"}}"#;
/// assert!(refuses_member(refused, "stream_options"));
/// let repeated = br#"{"detail":[{"loc":["body","messages"],"input":{"model":"m","stream_options":{}}}]}"#;
/// assert!(!refuses_member(repeated, "stream_options"));
/// ```
pub fn refuses_member(error: &[u8], member: &str) -> bool {
    let lower = error.to_ascii_lowercase();
    let mut open: Vec<Scope> = Vec::new();
    for (at, byte) in lower.iter().enumerate() {
        let rest = &lower[at..];
        if let Some(after) = rest.strip_prefix(member.as_bytes()) {
            match open.last_mut() {
                Some(scope) if is_repeated(after) => scope.member = scope.member.max(Member::Here),
                _ => return true,
            }
        }
        match byte {
            b'{' => open.push(Scope::default()),
            b'}' if closes_refusal(&mut open) => return true,
            b'"' | b'\'' => {
                if let Some(scope) = open.last_mut() {
                    scope.is_request |= is_of_every_request(&rest[1..]);
                }
            }
            _ => {}
        }
    }
    // An error that was cut off leaves objects open.
    while !open.is_empty() {
        if closes_refusal(&mut open) {
            return true;
        }
    }
    false
}

/// Closes the innermost object; whether it has the member and neither it nor the one around it is a request.
fn closes_refusal(open: &mut Vec<Scope>) -> bool {
    let Some(closed) = open.pop() else { return false };
    if closed.is_request {
        return false;
    }
    match open.last_mut() {
        Some(outer) => {
            if closed.member == Member::Here {
                outer.member = Member::Within;
            }
            closed.member == Member::Within
        }
        None => closed.member != Member::Nowhere,
    }
}

/// Whether a text, after a quote, begins with the name of a member that every request has, as one with a value.
fn is_of_every_request(text: &[u8]) -> bool {
    let mut after = OF_EVERY_REQUEST.iter().filter_map(|name| text.strip_prefix(*name));
    after.any(|after| {
        unquoted(after).is_some_and(|after| after.trim_ascii_start().starts_with(b":"))
    })
}

/// Whether what follows a name makes it a member with its value.
fn is_repeated(after: &[u8]) -> bool {
    let value = unquoted(after).and_then(|after| after.trim_ascii_start().strip_prefix(b":"));
    value.is_some_and(|value| is_value(value.trim_ascii_start()))
}

/// What follows a quote. Within a string it is escaped, perhaps more than once.
fn unquoted(text: &[u8]) -> Option<&[u8]> {
    let escapes = text.iter().take_while(|byte| **byte == b'\\').count();
    let (quote, rest) = text[escapes..].split_first()?;
    matches!(quote, b'"' | b'\'').then_some(rest)
}

/// Whether a text begins as values of members do that the gateway adds. What is said of a member by its name has more
/// words than one, or stands in a list.
fn is_value(text: &[u8]) -> bool {
    let is_plain = matches!(text.first(), Some(b'{' | b'-' | b'0'..=b'9'));
    let is_switch = text.starts_with(b"true") || text.starts_with(b"false");
    let is_word = || {
        let end = |byte: &u8| matches!(byte, b'"' | b'\'' | b'\\') || byte.is_ascii_whitespace();
        let rest = unquoted(text)?;
        let end = rest.iter().position(end)?;
        unquoted(&rest[end..])
    };
    is_plain || is_switch || is_word().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: [&str; 4] =
        ["return_token_ids", "stream_options", "continuous_usage_stats", "cache_salt"];

    /// The members that an error refuses.
    fn refused(error: &str) -> Vec<&'static str> {
        MEMBERS.into_iter().filter(|member| refuses_member(error.as_bytes(), member)).collect()
    }

    const REQUEST: &str = r#"{"model":"m","stream":true,"return_token_ids":true,"cache_salt":"a1","stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#;

    /// The request as Python prints it.
    fn printed() -> String {
        REQUEST.replace('"', "'").replace(':', ": ").replace(',', ", ").replace("true", "True")
    }

    #[test]
    fn a_request_that_is_repeated_is_no_refusal_of_its_members() {
        let lacks = format!(
            "[{{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required', 'input': {}}}]",
            printed()
        );
        let told = |message: &str| serde_json::json!({"error": {"message": message}}).to_string();
        // vLLM's and SGLang's errors, FastAPI's own, and JSON within strings.
        assert_eq!(refused(&told(&lacks)), [""; 0]);
        let detail =
            format!(r#"[{{"type":"missing","loc":["body","messages"],"input":{REQUEST}}}]"#);
        assert_eq!(refused(&format!(r#"{{"detail":{detail}}}"#)), [""; 0]);
        assert_eq!(refused(&told(&detail)), [""; 0]);
        assert_eq!(refused(&told(&told(&detail))), [""; 0]);
        // An answer that was read in part.
        assert_eq!(refused(&told(&lacks)[..told(&lacks).len() - 6]), [""; 0]);
        // Without a model, of which the error complains.
        let nameless = REQUEST.replace(r#""model":"m""#, r#""messages":[]"#);
        let detail = format!(r#"{{"detail":[{{"loc":["body","model"],"input":{nameless}}}]}}"#);
        assert_eq!(refused(&detail), [""; 0]);
    }

    #[test]
    fn a_member_with_its_value_is_refused_where_no_request_is_around_it() {
        let told = |message: &str| serde_json::json!({"error": {"message": message}}).to_string();
        let model = "for model=claude. To drop these, set `drop_params`";
        let lite = |member: &str| {
            told(&format!("anthropic does not support parameters: {{{member}}}, {model}"))
        };
        let salts = [
            lite("'cache_salt': 'a1'"),
            r#"{"errors":{"cache_salt":"unsupported"}}"#.to_owned(),
            told("Invalid value for 'cache_salt': 'a1'"),
            "Invalid value for 'cache_salt': 'a1'".to_owned(),
            format!(r#"{{"errors":{{"cache_salt":"unsupported"}},"input":{REQUEST}}}"#),
        ];
        for error in salts {
            assert_eq!(refused(&error), ["cache_salt"], "{error}");
        }
        assert_eq!(
            refused(&lite("'stream_options': {'continuous_usage_stats': True}")),
            ["stream_options", "continuous_usage_stats"]
        );
        let effort = lite("'reasoning_effort': 'none'");
        assert!(refuses_member(effort.as_bytes(), "reasoning_effort"));
    }

    #[test]
    fn a_member_that_is_named_is_refused_though_the_request_is_repeated_as_well() {
        let place = format!(
            "[{{'type': 'extra_forbidden', 'loc': ('body', 'return_token_ids'), 'msg': 'Extra inputs are not permitted', 'input': {}}}]",
            printed()
        );
        assert_eq!(refused(&place), ["return_token_ids"]);
        let place = r#"{"detail":[{"loc":["body","stream_options","continuous_usage_stats"],"input":true}]}"#;
        assert_eq!(refused(place), ["stream_options", "continuous_usage_stats"]);
    }

    #[test]
    fn a_member_may_be_refused_in_any_words() {
        for error in [
            r#"{"error":{"message":"Unrecognized request argument supplied: cache_salt"}}"#,
            r#"{"error":{"message":"no","param":"cache_salt"}}"#,
            r#"{"cache_salt":["Unknown field."]}"#,
            r#"{"cache_salt": "is not known here"}"#,
            "unknown field `cache_salt` at line 1",
            r#"{"error":"Cache_Salt: unsupported"}"#,
        ] {
            assert_eq!(refused(error), ["cache_salt"], "{error}");
        }
    }
}
