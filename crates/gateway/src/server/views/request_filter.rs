//! Request filter: which requests of the log a view lists, as its query says.

use overdraft_telemetry::Ender;
use overdraft_wire::ApiError;

use crate::pipeline::request_log::Logged;
use crate::server::history::unix_ms;
use crate::server::percent::unescaped;

/// Requests that one view lists at most.
const LIMIT_MAX: usize = 1_000;
/// Requests that it lists where nothing is said.
const LIMIT: usize = 200;

/// How a request came out, in the words of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Its answer is whole.
    Ok,
    /// We refused it for want of room or budget.
    Refused,
    /// It was not acceptable.
    Rejected,
    /// A worker or a defect ended it.
    Failed,
    /// Its client went away.
    Left,
}

/// Which requests a view lists where not all have room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// The newest, the newest first.
    #[default]
    Newest,
    /// The oldest, the oldest first, so that one page follows on the other.
    Oldest,
}

/// What of the log is asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestFilter {
    worker: Option<String>,
    /// Those that this worker failed, whichever answered in the end.
    failed_at: Option<String>,
    tenant: Option<String>,
    model: Option<String>,
    /// The two letters of how it ended.
    end: Option<String>,
    /// A part of its name.
    id: Option<String>,
    outcome: Option<Outcome>,
    /// Those that ended then or later, in milliseconds since 1970.
    from_ms: Option<u64>,
    /// Those that ended before.
    to_ms: Option<u64>,
    /// Those whose first token took so long or longer.
    slower_ms: Option<u64>,
    /// Those with this number or a later one.
    pub(super) after: Option<u64>,
    pub(super) order: Order,
    limit: Option<usize>,
}

impl RequestFilter {
    /// Reads the query of an address.
    ///
    /// # Errors
    /// 400 for a name that is none of these, or a value that is no number where one is wanted.
    pub(super) fn of_query(query: &str) -> Result<Self, ApiError> {
        let mut filter = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = unescaped(value);
            let text = (!value.is_empty()).then(|| value.clone());
            match name {
                "worker" => filter.worker = text,
                "failed_at" => filter.failed_at = text,
                "tenant" => filter.tenant = text,
                "model" => filter.model = text,
                "end" => filter.end = text,
                "id" => filter.id = text,
                "outcome" => filter.outcome = Some(outcome(&value)?),
                "from" => filter.from_ms = Some(number(name, &value)?),
                "to" => filter.to_ms = Some(number(name, &value)?),
                "slower" => filter.slower_ms = Some(number(name, &value)?),
                "after" => filter.after = Some(number(name, &value)?),
                "order" => filter.order = order(&value)?,
                "limit" => {
                    let limit = usize::try_from(number(name, &value)?).unwrap_or(usize::MAX);
                    filter.limit = Some(limit);
                }
                _ => {
                    let why = format!(
                        "`{name}` is no filter; expected worker, failed_at, tenant, model, end, id, outcome, from, \
                         to, slower, after, order or limit"
                    );
                    return Err(ApiError::invalid(name, why));
                }
            }
        }
        Ok(filter)
    }

    /// Requests that are listed at most.
    pub(super) fn limit(&self) -> usize {
        self.limit.unwrap_or(LIMIT).min(LIMIT_MAX)
    }

    /// Whether it asks for that one.
    pub(super) fn takes(&self, logged: &Logged) -> bool {
        let is = |wanted: &Option<String>, value: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| value.unwrap_or("other") == wanted)
        };
        let ended = unix_ms(logged.ended_at);
        is(&self.worker, Some(logged.worker.as_deref().unwrap_or_default()))
            && self
                .failed_at
                .as_deref()
                .is_none_or(|worker| failed_at(logged).any(|at| at == worker))
            && is(&self.tenant, logged.tenant.as_deref())
            && self.model.as_deref().is_none_or(|model| is_for(logged, model))
            && self.end.as_deref().is_none_or(|end| logged.end.to_string() == end)
            && self.id.as_deref().is_none_or(|id| logged.id.contains(id))
            && self.outcome.is_none_or(|outcome| of(logged) == outcome)
            && self.from_ms.is_none_or(|from| from <= ended)
            && self.to_ms.is_none_or(|to| ended < to)
            && self.slower_ms.is_none_or(|slower| {
                logged.first_token.is_some_and(|took| slower.saturating_mul(1_000) <= took.get())
            })
    }
}

/// Whether a model was asked for: by its own name, or by the one that the client gave it, as that of a cascade.
fn is_for(logged: &Logged, model: &str) -> bool {
    logged.model.as_deref() == Some(model) || logged.named.as_deref() == Some(model)
}

fn number(name: &str, value: &str) -> Result<u64, ApiError> {
    let why = || ApiError::invalid(name, format!("`{value}` is no number; expected a whole one"));
    value.parse().map_err(|_| why())
}

fn order(value: &str) -> Result<Order, ApiError> {
    match value {
        "newest" => Ok(Order::Newest),
        "oldest" => Ok(Order::Oldest),
        _ => {
            let why = format!("`{value}` is no order; expected newest or oldest");
            Err(ApiError::invalid("order", why))
        }
    }
}

fn outcome(value: &str) -> Result<Outcome, ApiError> {
    Ok(match value {
        "ok" => Outcome::Ok,
        "refused" => Outcome::Refused,
        "rejected" => Outcome::Rejected,
        "failed" => Outcome::Failed,
        "left" => Outcome::Left,
        _ => {
            let why =
                format!("`{value}` is no outcome; expected ok, refused, rejected, failed or left");
            return Err(ApiError::invalid("outcome", why));
        }
    })
}

fn of(logged: &Logged) -> Outcome {
    match logged.end.ender {
        _ if logged.refusal.is_some() => Outcome::Refused,
        Ender::Nobody => Outcome::Ok,
        Ender::Capacity => Outcome::Refused,
        Ender::Policy => Outcome::Rejected,
        Ender::Client | Ender::ClientStalled => Outcome::Left,
        Ender::Server | Ender::ServerStalled | Ender::Defect | Ender::Drain => Outcome::Failed,
    }
}

/// Whether it was refused for want of room or budget.
pub(super) fn is_refused(logged: &Logged) -> bool {
    of(logged) == Outcome::Refused
}

/// The workers that failed it, whichever answered in the end.
pub(super) fn failed_at(logged: &Logged) -> impl Iterator<Item = &str> {
    let attempts = logged.trail.notes().iter().filter(|note| note.failed.is_some());
    let chosen = attempts.filter_map(|note| note.candidates.first().map(|one| one.worker.as_ref()));
    // One that broke off after it had begun failed no attempt.
    let broke =
        logged.worker.as_deref().filter(|_| is_failed(logged) && logged.first_token.is_some());
    chosen.chain(broke)
}

/// Whether a worker or a defect ended it.
pub(super) fn is_failed(logged: &Logged) -> bool {
    of(logged) == Outcome::Failed
}

#[cfg(test)]
mod tests {
    use overdraft_telemetry::{EndCode, Phase};
    use overdraft_units::Micros;

    use super::*;

    fn logged() -> Logged {
        Logged {
            id: "req_7".into(),
            worker: Some("w 1".into()),
            model: Some("large".into()),
            named: Some("fast".into()),
            ended_at: 10.0,
            first_token: Some(Micros::new(250_000)),
            end: EndCode::WHOLE,
            ..Logged::default()
        }
    }

    #[track_caller]
    fn check(query: &str, expected: bool) {
        assert_eq!(RequestFilter::of_query(query).unwrap().takes(&logged()), expected, "{query}");
    }

    #[test]
    fn every_filter_must_hold() {
        check("", true);
        check("worker=w%201&id=q_7&outcome=ok&end=--", true);
        check("worker=w%201&id=q_8", false);
        check("from=10000&to=10001&slower=250", true);
        check("to=10000", false);
        check("slower=251", false);
        check("slower=18446744073709551615", false);
        check("tenant=other", true);
        check("model=m", false);
        check("model=large", true);
        check("model=fast", true);
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for query in ["wrker=a", "limit=x", "outcome=good", "order=best"] {
            assert_eq!(RequestFilter::of_query(query).unwrap_err().status(), 400, "{query}");
        }
    }

    #[test]
    fn outcomes_follow_from_the_end() {
        let ended = |ender| Logged { end: EndCode { ender, phase: Phase::Data }, ..logged() };
        assert!(is_failed(&ended(Ender::ServerStalled)));
        assert!(!is_failed(&ended(Ender::Client)));
        assert!(is_refused(&ended(Ender::Capacity)));
        let refused = Logged { refusal: Some(("late", "why".into())), ..ended(Ender::Nobody) };
        assert!(is_refused(&refused));
    }
}
