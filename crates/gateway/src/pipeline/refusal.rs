//! Refusals: the error and the `retry-after` of a request that is not served.
//!
//! Both official SDKs retry on their own after 408, 409, 429 and every 5xx: after `retry-after-ms` where it
//! is given, and not at all with `x-should-retry: false`, which is sent where a retry would only add
//! load.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use overdraft_core::admit::{Priority, RETRY_AFTER_MAX, RETRY_AFTER_MIN};
use overdraft_http::{Body, reply};
use overdraft_telemetry::unix_time;
use overdraft_units::Micros;
use overdraft_wire::{ApiError, ErrorKind};

use super::explanation;
use super::keys::{Level, RetryAfter, Standing, URGENCY};
use crate::settings::Budget;

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Names of the headers on one budget: limit, remaining, reset.
type Names = [HeaderName; 3];

const OF_REQUESTS: Names = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
const OF_TOKENS: Names = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// Whether a refused client should come back by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// After this time.
    After(Micros),
    /// It would make things worse, but after this time it may.
    Unwise(Micros),
}

/// A refusal on its way to the client.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) error: ApiError,
    retry: Option<Retry>,
    /// What metrics call the reason; none where it is the request itself that is wrong.
    pub(crate) reason: Option<&'static str>,
    /// Why it went nowhere, where that was asked for.
    explained: Option<Bytes>,
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self { error, retry: None, reason: None, explained: None }
    }
}

impl Refused {
    /// There is no room for it, because of `reason`.
    pub(crate) const fn for_room(error: ApiError, reason: &'static str, retry: Retry) -> Self {
        Self { error, retry: Some(retry), reason: Some(reason), explained: None }
    }

    /// Its deadline has passed: an SDK that asked again would wait for as long once more.
    pub(crate) fn for_lateness(error: ApiError) -> Self {
        Self { retry: Some(Retry::Unwise(RETRY_AFTER_MIN)), ..Self::from(error) }
    }

    /// Its key has spent what it may.
    pub(crate) fn for_budget(budget: Budget, tokens: u32, why: RetryAfter) -> Self {
        let limit =
            |limit: Option<std::num::NonZeroU32>| limit.map_or(0, std::num::NonZeroU32::get);
        let seconds = |wait: Micros| wait.get().div_ceil(1_000_000);
        let (message, reason, retry) = match why {
            RetryAfter::Requests(wait) => {
                let limit = limit(budget.requests_per_minute);
                let message = format!(
                    "rate limit reached for requests: the key has used up its {limit} a minute; \
                     try again in {} s",
                    seconds(wait)
                );
                (message, "budget_requests", after(wait))
            }
            RetryAfter::Tokens(wait) => {
                let limit = limit(budget.tokens_per_minute);
                let message = format!(
                    "rate limit reached for tokens: the request needs about {tokens}, and fewer \
                     are left of the key's {limit} a minute; try again in {} s, or lower \
                     `max_tokens`",
                    seconds(wait)
                );
                (message, "budget_tokens", after(wait))
            }
            RetryAfter::Unlimited(wait) => {
                let message = format!(
                    "rate limit reached for tokens: running requests without `max_tokens` take up \
                     the key's whole budget; try again in {} s, or set `max_tokens`",
                    seconds(wait)
                );
                (message, "budget_tokens", after(wait))
            }
            RetryAfter::Never => {
                let limit = limit(budget.tokens_per_minute);
                let message = format!(
                    "the request needs about {tokens} tokens, more than the {limit} that its key \
                     has in a whole minute; shorten the prompt or lower `max_tokens`"
                );
                (message, "budget_tokens", Retry::Unwise(RETRY_AFTER_MAX))
            }
        };
        Self::for_room(ApiError::rate_limited(message), reason, retry)
    }

    /// Tells as well why it went nowhere.
    pub(crate) fn explained(self, explained: Option<Bytes>) -> Self {
        Self { explained, ..self }
    }

    /// The answer.
    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = reply::error(&self.error);
        let headers = response.headers_mut();
        if let Some(words) = &self.explained {
            explanation::attach(headers, words);
        }
        let wait = match self.retry {
            Some(Retry::After(wait)) => wait,
            Some(Retry::Unwise(wait)) => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
                wait
            }
            None if matches!(self.error.kind, ErrorKind::RateLimited | ErrorKind::Overloaded) => {
                RETRY_AFTER_MIN
            }
            None => return response,
        };
        tell_retry(headers, wait);
        response
    }
}

/// Says when to come back, within bounds.
fn tell_retry(head: &mut HeaderMap, wait: Micros) {
    let wait = wait.clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX).get();
    head.insert(RETRY_AFTER, HeaderValue::from(wait.div_ceil(1_000_000)));
    head.insert(RETRY_AFTER_MS, HeaderValue::from(wait.div_ceil(1_000)));
}

/// Makes a worker's own refusal say when to come back: as it did, within our bounds.
pub(crate) fn bound_retry(head: &mut HeaderMap) {
    let asked = asked_for(head).unwrap_or(RETRY_AFTER_MIN);
    if RETRY_AFTER_MAX < asked {
        // A client that came back as soon as that would come too soon.
        head.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    tell_retry(head, asked);
}

/// The time that a worker asks to be left alone for: seconds, or a date (RFC 9110, section 10.2.3).
pub(crate) fn asked_for(head: &HeaderMap) -> Option<Micros> {
    let text = head.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Micros::new(seconds.saturating_mul(1_000_000)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let then = date.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let left = then.saturating_sub(Duration::try_from_secs_f64(unix_time()).ok()?);
    Some(Micros::from(left))
}

/// Nobody is told to wait for longer than the maximum; who would have to, should not come by itself.
fn after(wait: Micros) -> Retry {
    if RETRY_AFTER_MAX < wait { Retry::Unwise(wait) } else { Retry::After(wait) }
}

/// Tells how a key stands, as `OpenAI` does.
pub(crate) fn tell_standing(head: &mut HeaderMap, standing: Standing) {
    for (names, level) in [(OF_REQUESTS, standing.requests), (OF_TOKENS, standing.tokens)] {
        let Some(Level { limit, remaining, reset }) = level else { continue };
        let [limit_name, remaining_name, reset_name] = names;
        head.insert(limit_name, HeaderValue::from(limit));
        head.insert(remaining_name, HeaderValue::from(remaining));
        if let Ok(value) = HeaderValue::from_str(&clock_face(reset)) {
            head.insert(reset_name, value);
        }
    }
}

/// Tells the priority that a request got.
pub(crate) fn tell_priority(head: &mut HeaderMap, priority: Priority) {
    head.insert(URGENCY, HeaderValue::from_static(priority.name()));
}

/// A time as `OpenAI`'s headers have it: `17ms`, `1.5s`, `6m0s`.
fn clock_face(time: Micros) -> String {
    let millis = time.get().div_ceil(1_000);
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    let (seconds, fraction) = (rest / 1_000, rest % 1_000);
    let fraction = format!(".{fraction:03}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    match (minutes, seconds) {
        (0, 0) => format!("{millis}ms"),
        (0, _) => format!("{seconds}{fraction}s"),
        _ => format!("{minutes}m{seconds}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_s_own_word_is_kept_within_bounds() {
        for (said, told) in [("7", "7"), ("0", "1"), ("900", "30"), ("soon", "1"), ("-1", "1")] {
            let mut head = HeaderMap::new();
            head.insert(RETRY_AFTER, HeaderValue::from_static(said));
            bound_retry(&mut head);
            assert_eq!(head[RETRY_AFTER], told);
            assert_eq!(head[RETRY_AFTER_MS], format!("{told}000"));
            let should_retry = head.get(SHOULD_RETRY).map(HeaderValue::as_bytes);
            assert_eq!(should_retry, (said == "900").then_some(&b"false"[..]), "{said}");
        }
    }

    #[test]
    fn a_date_is_as_good_as_seconds() {
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(unix_time() + 20.0);
        let mut head = HeaderMap::new();
        let text = httpdate::fmt_http_date(date);
        head.insert(RETRY_AFTER, HeaderValue::from_str(&text).unwrap());
        let left = asked_for(&head).unwrap().get();
        assert!((18_000_000..=20_000_000).contains(&left), "{left}");
        head.insert(RETRY_AFTER, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(asked_for(&head), Some(Micros::ZERO));
    }

    #[test]
    fn times_are_told_as_the_sdks_know_them() {
        let told = |millis: u64| clock_face(Micros::new(millis * 1_000));
        let faces = [0, 17, 1_000, 1_500, 60_000, 361_000, 60_020].map(told);
        assert_eq!(faces, ["0ms", "17ms", "1s", "1.5s", "1m0s", "6m1s", "1m0.02s"]);
    }
}
