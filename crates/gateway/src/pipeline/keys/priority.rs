//! Request priority: from the header, OpenAI's `service_tier` or the key's default.
//!
//! The header decides, else OpenAI's `service_tier`, else the key's default. A request above its
//! key's maximum is lowered, not refused: the answer's header tells the priority it got.

use http::{HeaderMap, HeaderName};
use overdraft_core::admit::Priority;
use overdraft_wire::{ApiError, RequestPeek};

use super::Caller;

/// Header of the priority, in the request and in the answer.
pub(crate) const URGENCY: HeaderName = HeaderName::from_static(URGENCY_NAME);
const URGENCY_NAME: &str = "x-overdraft-priority";

/// Maximum characters of a client's value that an error repeats.
const QUOTED_CHARACTERS_MAX: usize = 40;

/// The priority of a request.
///
/// # Errors
/// 400 where it asks for one that does not exist.
pub(crate) fn urgency(
    caller: &Caller,
    head: &HeaderMap,
    peek: &RequestPeek<'_>,
) -> Result<Priority, ApiError> {
    let (default, most) = caller.priorities();
    let tier = tier(peek)?;
    let asked = header(head)?.or(tier).unwrap_or(default);
    Ok(asked.min(most))
}

fn header(head: &HeaderMap) -> Result<Option<Priority>, ApiError> {
    let Some(value) = head.get(&URGENCY) else { return Ok(None) };
    let text = String::from_utf8_lossy(value.as_bytes());
    let told = text.trim().parse().map(Some);
    told.map_err(|_| unknown(URGENCY_NAME, &text, "`flex`, `default` or `priority`"))
}

fn tier(peek: &RequestPeek<'_>) -> Result<Option<Priority>, ApiError> {
    match peek.service_tier.as_deref() {
        // What `auto` stands for is the key's business, as it is the project's at OpenAI.
        None | Some("auto") => Ok(None),
        Some(name) => name
            .parse()
            .map(Some)
            .map_err(|_| unknown("service_tier", name, "`auto`, `default`, `flex` or `priority`")),
    }
}

fn unknown(param: &'static str, found: &str, expected: &str) -> ApiError {
    let found: String = found.chars().take(QUOTED_CHARACTERS_MAX).collect();
    let found = found.escape_debug();
    ApiError::invalid(param, format!("`{found}` is not a `{param}`; expected {expected}"))
}
