//! End of a key: a point in time, or how long from now.

use jiff::{SignedDuration, Timestamp};

/// Longest life that can be asked for: ten years.
const LIFE_MAX: SignedDuration = SignedDuration::from_hours(10 * 366 * 24);

const HOURS: [(&str, i64); 3] = [("h", 1), ("d", 24), ("w", 7 * 24)];

/// The end that `text` says, asked for `now`.
///
/// # Errors
/// A sentence where it is none, is over or is too far away.
pub(super) fn end(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let end = if let Ok(end) = text.parse::<Timestamp>() {
        end
    } else {
        let span = span(text).ok_or_else(|| {
            format!(
                "`{text}` is no end of a key; expected how long it is good, as in `90d`, `12h` or \
                 `8w`, or a point in time, as in `2027-01-31T00:00:00Z`"
            )
        })?;
        now.checked_add(span).map_err(|_| too_far(text))?
    };
    if end <= now {
        return Err(format!("`{text}` is over; expected an end after `{now}`"));
    }
    if LIFE_MAX < end.duration_since(now) {
        return Err(too_far(text));
    }
    Ok(end)
}

fn too_far(text: &str) -> String {
    format!("`{text}` is too far away; expected at most ten years, or no `--expires`")
}

fn span(text: &str) -> Option<SignedDuration> {
    let (unit, hours) = HOURS.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let count: u32 = text.strip_suffix(unit)?.trim().parse().ok()?;
    Some(SignedDuration::from_hours(i64::from(count).checked_mul(hours)?))
}
