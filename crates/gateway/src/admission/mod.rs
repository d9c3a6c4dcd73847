//! Is a request sent now, does it wait, or is it told to come back?
//!
//! The core says so; here the waiting is done. A request waits for a worker that has no room for it yet. It is
//! called when there may be room, and goes when there is. It is refused where it would wait for too long,
//! when its time is over, and when the gateway shuts down.

mod lobby;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use overdraft_core::admit::{ByPriority, QueueSettings, RETRY_AFTER_MIN, Refusal};
use overdraft_core::fleet::{Turn, WorkerId};
use overdraft_core::route::{Choice, Tried};
use overdraft_http::Exchange;
use overdraft_telemetry::Phase;
use overdraft_units::Micros;
use overdraft_wire::{ApiError, ErrorKind};
use tokio::time::{Instant, sleep_until};

pub(crate) use self::lobby::Lobby;
use crate::fingerprint::Fingerprint;
use crate::forward::unknown_model;
use crate::lease::Lease;
use crate::refusal::{Refused, Retry};
use crate::shared::{Shared, Strictness};

/// How requests wait. When a worker takes one more is a matter of its model's route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// How much may wait.
    pub queue: QueueSettings,
    /// How long a request may wait before it is refused.
    pub first_token: ByPriority<Duration>,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        // As long as anybody is ever told to stay away: on two processor cores a long prompt takes most
        // of it, and a client that is refused only comes back.
        let wait = Duration::from_secs(30);
        let first_token = ByPriority { flex: wait, default: wait, priority: wait };
        Self { queue: QueueSettings::default(), first_token }
    }
}

/// What a request needs and what there was for it, as the core saw it last.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    asked: u64,
    free: u64,
    retry_after: Micros,
}

/// Why a request gets no worker.
#[derive(Clone, Copy, Debug)]
enum Denial {
    /// The core says so, and waiting would not help.
    Choice(Choice),
    /// It may not even wait.
    Queue(Refusal),
    /// It has waited for as long as it may.
    Late(Micros),
    /// The gateway shuts down.
    Draining,
}

/// Finds a worker for the first attempt, when it is the request's turn.
pub(crate) async fn place(
    shared: &Arc<Shared>,
    exchange: &Exchange,
    print: &Fingerprint,
    explained: &mut Option<Bytes>,
) -> Result<Lease, Refused> {
    let mut figures = None;
    let placing = seek(shared, exchange, print, (&mut figures, explained));
    placing.await.map_err(|denial| refused(shared, print, denial, figures))
}

async fn seek(
    shared: &Arc<Shared>,
    exchange: &Exchange,
    print: &Fingerprint,
    (figures, explained): (&mut Option<Figures>, &mut Option<Bytes>),
) -> Result<Lease, Denial> {
    let first = (&Tried::default(), Turn::First);
    let at = match shared.choose(print, first, Strictness::Judged, explained) {
        Ok(lease) => return Ok(lease),
        Err(choice) if !waits(shared, print) => return Err(Denial::Choice(choice)),
        Err(choice) => {
            let (at, seen) = saturation(choice).ok_or(Denial::Choice(choice))?;
            if let Choice::Saturated { awaits, .. } = choice {
                shared.routing.waits(awaits.name());
            }
            *figures = Some(seen);
            at
        }
    };
    // In a box: most requests do not wait and should not carry room for it along.
    Box::pin(wait(shared, exchange, print, at, (figures, explained))).await
}

/// Whether the model's requests wait where there is no room.
fn waits(shared: &Shared, print: &Fingerprint) -> bool {
    shared.routes().route(&print.model).admission.mode.waits()
}

/// Waits in the queue for a worker.
async fn wait(
    shared: &Arc<Shared>,
    exchange: &Exchange,
    print: &Fingerprint,
    at: WorkerId,
    (figures, explained): (&mut Option<Figures>, &mut Option<Bytes>),
) -> Result<Lease, Denial> {
    exchange.access.note(|record| record.end.phase = Phase::Queue);
    let patience = shared.settings().admission.first_token.of(print.priority);
    let until = Instant::now() + patience;
    let patience = Micros::new(u64::try_from(patience.as_micros()).unwrap_or(u64::MAX));
    let entered = shared.lobby.enter(shared, print.request(), at, patience);
    let place = entered.map_err(Denial::Queue)?;
    loop {
        tokio::select! {
            biased;
            () = place.called() => {}
            () = sleep_until(until) => return Err(Denial::Late(place.waited())),
            () = exchange.drain.closing() => return Err(Denial::Draining),
        }
        let placed = shared.choose_called(print, place.ticket(), explained);
        shared.lobby.ring(shared);
        match placed {
            Ok(lease) => {
                let waited = place.waited();
                exchange.access.note(|record| record.queued = Some(waited));
                shared.admission.waited(print.priority.name(), waited);
                return Ok(lease);
            }
            Err(choice) => {
                let (_, seen) = saturation(choice).ok_or(Denial::Choice(choice))?;
                *figures = Some(seen);
            }
        }
    }
}

/// The worker to wait for, and what there was, where waiting helps.
const fn saturation(choice: Choice) -> Option<(WorkerId, Figures)> {
    match choice {
        Choice::Saturated { asked, free, at, retry_after, .. } => {
            Some((at, Figures { asked, free, retry_after }))
        }
        _ => None,
    }
}

/// Turns a denial into what the client is told.
fn refused(
    shared: &Shared,
    print: &Fingerprint,
    denial: Denial,
    figures: Option<Figures>,
) -> Refused {
    let saturated = |what: String, reason, retry| {
        let Figures { asked, free, .. } = figures.unwrap_or_else(|| look(shared, print));
        let message = format!(
            "every worker that serves `{}` is saturated: the request needs about {asked} tokens \
             and the most that is free on one of them is {free}; {what}",
            print.model
        );
        Refused::for_room(ApiError::rate_limited(message), reason, retry)
    };
    let seconds = |time: Micros| time.get().div_ceil(1_000_000);
    match denial {
        Denial::Choice(choice) => of_choice(shared, print, choice),
        Denial::Queue(refusal) => {
            let wait = refusal.retry_after();
            let (why, retry) = match refusal {
                Refusal::QueueFull { .. } => {
                    ("as many requests wait as may".to_owned(), Retry::After(wait))
                }
                // It is this tenant's own load that is in its way.
                Refusal::TenantFull { .. } => (
                    "as many requests of yours wait as may; send fewer at once".to_owned(),
                    Retry::Unwise(wait),
                ),
                Refusal::TooLate { wait: expected, .. } => {
                    let expected = seconds(expected);
                    (format!("it would wait for about {expected} s"), Retry::After(wait))
                }
            };
            let what = format!("{why}; try again in {} s", seconds(wait));
            saturated(what, refusal.name(), retry)
        }
        Denial::Late(waited) => {
            let wait = figures.map_or(RETRY_AFTER_MIN, |figures| figures.retry_after);
            let what = format!(
                "it has waited for {} s, which is as long as `{}` may; try again in {} s",
                seconds(waited),
                print.priority,
                seconds(wait)
            );
            saturated(what, "late", Retry::After(wait))
        }
        Denial::Draining => {
            let error =
                ApiError::overloaded("the gateway is shutting down; send the request again");
            Refused::for_room(error, "draining", Retry::After(Micros::ZERO))
        }
    }
}

/// What the core would say now, where it was not asked because others wait.
fn look(shared: &Shared, print: &Fingerprint) -> Figures {
    let routes = shared.routes();
    let settings = routes.route(&print.model);
    let mut router = shared.router();
    router.explain(print.request(), settings, &Tried::default(), shared.clock.now());
    let (prompt, completion) = router.expected(print.request());
    let asked = u64::from(prompt.get()).saturating_add(u64::from(completion.get()));
    let choice = router.decision().choice;
    saturation(choice).map_or(Figures { asked, ..Figures::default() }, |(_, figures)| figures)
}

/// What the client is told where waiting would not help.
fn of_choice(shared: &Shared, print: &Fingerprint, choice: Choice) -> Refused {
    let model = &print.model;
    let now = Retry::After(Micros::ZERO);
    match choice {
        Choice::UnknownModel => unknown_model(shared, &print.caller, model).into(),
        Choice::NoRoom { asked, most, .. } if most < asked => ApiError::new(
            ErrorKind::ContextLengthExceeded,
            format!(
                "the prompt has {}{asked} tokens and the largest cache of a worker that serves \
                 `{model}` has room for {most}; send a shorter prompt",
                if print.is_counted() { "" } else { "about " }
            ),
        )
        .into(),
        Choice::NoRoom { asked, free, .. } => {
            let error = ApiError::overloaded(format!(
                "no worker that serves `{model}` has room: the prompt has about {asked} tokens \
                 and the most that is free on one of them is {free}; send a shorter prompt, or \
                 try again when others have finished"
            ));
            Refused::for_room(error, "no_room", now)
        }
        Choice::Saturated { asked, free, retry_after, .. } => {
            let error = ApiError::overloaded(format!(
                "every worker that serves `{model}` is saturated: the request needs about {asked} \
                 tokens and the most that is free on one of them is {free}; try again in {} s",
                retry_after.get().div_ceil(1_000_000)
            ));
            Refused::for_room(error, "threshold", Retry::After(retry_after))
        }
        _ => {
            let error = ApiError::overloaded(format!(
                "no worker that serves `{model}` is up; try again in a moment"
            ));
            Refused::for_room(error, "none_up", now)
        }
    }
}
