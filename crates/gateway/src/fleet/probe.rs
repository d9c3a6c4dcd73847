//! Health probes: whether each worker is there, and which models it serves.
//!
//! One task per worker requests `/health` and `/v1/models` in turn and reports the result to the
//! core, which decides the worker's health. The prober also sweeps the idle connections.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use overdraft_core::cascade::Abilities;
use overdraft_core::fleet::{Health, Probe, WorkerId};
use overdraft_units::Micros;
use tokio::time::{Instant, sleep, timeout};

use super::Fleet;
use super::maintenance::Warmth;
use super::model_list::Listing;
use crate::dispatch::Member;
use crate::upstream::fetch::{FetchError, fetch};
use crate::upstream::{Upstream, UpstreamError};

/// While a worker has never been ready, it is asked this often: it may just be starting, and
/// somebody waits for it.
const INTERVAL_UNPROVEN: Duration = Duration::from_millis(50);

/// How long a worker that has never been ready is waited for in silence: one in this process is there by then.
const STARTING: Duration = Duration::from_secs(1);

const HEALTH: &str = "/health";
pub(super) const MODELS: &str = "/v1/models";

/// What one look at a worker showed.
enum Seen {
    Ready(Bytes),
    /// It asks for a key that it was not shown.
    Locked(StatusCode),
    /// It answers, and not as a worker that can be asked.
    Unready(String),
    /// No answer came, or none in time.
    Silent(String),
    /// It refuses connections.
    Unreachable(String),
    /// No connection to it comes about.
    Unreached(String),
    /// It is there, and no encrypted connection comes of it.
    Untrusted(String),
    /// Its name has no address now.
    Nameless(String),
    /// This machine could not try.
    Untried(String),
}

/// Watches one worker until it is dropped.
pub(crate) async fn watch(fleet: Arc<Fleet>, worker: WorkerId) {
    let mut memory = Memory::default();
    let mut changes = fleet.dispatcher.member(worker).changes();
    loop {
        look(&fleet, worker, &mut memory).await;
        fleet.dispatcher.members.asked(&fleet.dispatcher.member(worker));
        fleet.dispatcher.upstream(worker).sweep();
        let unproven = fleet.dispatcher.view().fleet().worker(worker).health() == Health::Unproven;
        let interval = fleet.settings().probe.interval;
        tokio::select! {
            () = sleep(if unproven { interval.min(INTERVAL_UNPROVEN) } else { interval }) => {}
            // It was judged by the settings before.
            () = changes.next() => memory.tell_again(),
        }
    }
}

/// What is remembered between two looks.
#[derive(Default)]
pub(super) struct Memory {
    /// The list of models that was taken in last; an equal one is not read again, ...
    listed: Bytes,
    /// ... unless others of them are asked of it now.
    serves: Vec<String>,
    warmth: Warmth,
    /// Whether it was told that the worker asks for a key.
    is_locked_told: bool,
    obstacles: Obstacles,
}

/// Why a worker cannot be asked, as far as it was told.
#[derive(Default)]
struct Obstacles {
    /// Those told since it could be asked.
    told: BTreeSet<&'static str>,
    /// When it was looked at first.
    first_look: Option<Instant>,
}

impl Memory {
    /// Other settings are in force: what was wrong with those before is told again if it is wrong with these.
    fn tell_again(&mut self) {
        self.is_locked_told = false;
        self.obstacles.told.clear();
    }
}

/// Probes once.
pub(super) async fn look(fleet: &Fleet, worker: WorkerId, memory: &mut Memory) {
    let member = fleet.dispatcher.member(worker);
    let settings = fleet.settings().probe;
    let begun = Instant::now();
    let probing = probe(&member.upstream, settings.answer_bytes);
    let late = |_elapsed| Seen::Silent(format!("no answer within {:?}", settings.timeout));
    let seen = timeout(settings.timeout, probing).await.unwrap_or_else(late);
    let seen = unlock(&member, seen, &mut memory.is_locked_told);
    let before = health(fleet, worker);
    memory.obstacles.tell(&member, &seen, before, begun);
    if matches!(seen, Seen::Ready(_)) {
        // Two questions were answered one after the other.
        let took = Micros::from(begun.elapsed() / 2);
        fleet.dispatcher.round_trip(worker, took);
    }
    memory.warmth.observe(before);
    match seen {
        Seen::Ready(list) => memory.take_in(fleet, worker, &member, list, before).await,
        Seen::Locked(_) | Seen::Unready(_) => fleet.dispatcher.probed(worker, Probe::Unready),
        // One that stays without an address would else be sent requests for ever.
        Seen::Silent(_) | Seen::Nameless(_) => fleet.dispatcher.probed(worker, Probe::Silent),
        Seen::Unreachable(_) => fleet.dispatcher.probed(worker, Probe::Unreachable),
        Seen::Unreached(_) | Seen::Untrusted(_) => {
            fleet.dispatcher.probed(worker, Probe::NoConnection);
        }
        Seen::Untried(_) => {}
    }
    let after = health(fleet, worker);
    if matches!(after, Health::Failing { cause, .. } if cause.loses_the_cache()) {
        // The process that comes back is another one, and may take what this one refused.
        member.refusals().forget();
        member.unlocked();
        *member.abilities() = Abilities::default();
        fleet.tokenizers.gone(worker);
    }
    if !after.is_up() && !memory.listed.is_empty() {
        fleet.models.note(worker, None);
        memory.listed = Bytes::new();
    }
}

fn health(fleet: &Fleet, worker: WorkerId) -> Health {
    fleet.dispatcher.view().fleet().worker(worker).health()
}

impl Memory {
    /// Takes in the list of models of a worker that answered as one that can be asked, and reports what it makes of the
    /// worker. `before` is its health at the time of the answer.
    async fn take_in(
        &mut self,
        fleet: &Fleet,
        worker: WorkerId,
        member: &Member,
        list: Bytes,
        before: Health,
    ) {
        let asked = &member.settings.traits.serves;
        let Some(listing) = Listing::parse(&list, asked) else {
            return fleet.dispatcher.probed(worker, Probe::Unready);
        };
        let names = listing.names();
        let wanted = member.settings.model.as_ref();
        if let Some(wanted) = wanted.filter(|wanted| !names.contains(wanted)) {
            tell_wrong_model(fleet, worker, wanted, &names);
            return fleet.dispatcher.probed(worker, Probe::WrongModel);
        }
        if !self.warmth.is_ready(fleet, worker, &names).await {
            return fleet.dispatcher.probed(worker, Probe::Unready);
        }
        fleet.tokenizers.look_for(worker, &names, || Arc::clone(&member.upstream));
        if self.listed != list || self.serves != *asked {
            tell_unlisted(member, &names);
            fleet.models.saw(&names, member.settings.pool);
            fleet.models.note(worker, Some(listing));
            self.listed = list;
            self.serves.clone_from(asked);
        }
        // Last, so that a model whose worker is up is in the list. One that was restarted meanwhile may be another
        // process than the one that answered, and cold: the next look tells.
        if health(fleet, worker).is_up() || !before.is_up() {
            fleet.dispatcher.probed(worker, Probe::Ready(&names));
        }
    }
}

/// What a worker that asks for a key is taken for: ready where it has listed its models to a client's key, which
/// is then shown to it with each request.
fn unlock(member: &Member, seen: Seen, is_told: &mut bool) -> Seen {
    match seen {
        Seen::Locked(status) => {
            if !std::mem::replace(is_told, true) {
                tell_locked(member, status);
            }
            let models = member.locked();
            if models.is_empty() { Seen::Locked(status) } else { Seen::Ready(models) }
        }
        Seen::Ready(_) => {
            member.unlocked();
            *is_told = false;
            seen
        }
        _ => seen,
    }
}

fn tell_locked(member: &Member, status: StatusCode) {
    let remedy = if member.upstream.key.is_some() {
        "it refuses its `api_key`; set the one that the worker was started with"
    } else {
        "it asks for a key; set the worker's `api_key`, or let clients bring it where the gateway has no `keys`"
    };
    tracing::error!(worker = member.upstream.name(), %status, path = MODELS, "{remedy}");
}

impl Obstacles {
    /// Says once why it cannot be asked, and again after it could. Of one that was up, the dispatcher tells that it went
    /// down; one that never was may be just starting, so that is no error yet.
    fn tell(&mut self, member: &Member, seen: &Seen, health: Health, looked: Instant) {
        let (why, obstacle) = match seen {
            Seen::Untrusted(why) => (
                why,
                "no TLS connection; correct its certificate, or the worker's `tls`: `ca_file` names its authority, \
                 `server_name` the name in its certificate",
            ),
            Seen::Nameless(why) => (
                why,
                "no address for its name; correct the worker's `url`, or the name servers of this machine",
            ),
            Seen::Untried(why) => (
                why,
                "no connection could be tried; raise this machine's limits of open files and ports, or free some",
            ),
            Seen::Unreachable(why) => (why, "no connection; start it, or correct its `url`"),
            Seen::Unreached(why) => {
                (why, "no connection is made; correct its `url`, or the network to it")
            }
            Seen::Silent(why) => {
                (why, "no answer to a probe; expected a server of `/health` and `/v1/models`")
            }
            Seen::Unready(why) => (why, "not ready; it is sent nothing until it is"),
            Seen::Ready(_) | Seen::Locked(_) => {
                self.told.clear();
                return;
            }
        };
        let may_come_up =
            !matches!(seen, Seen::Untrusted(_) | Seen::Nameless(_) | Seen::Untried(_));
        let is_early = self.first_look.get_or_insert(looked).elapsed() < STARTING;
        if may_come_up && (is_early || health != Health::Unproven) || !self.told.insert(obstacle) {
            return;
        }
        let worker = member.upstream.name();
        if may_come_up {
            let url = member.settings.url.as_str();
            tracing::warn!(worker, url, why, "worker is not up yet: {obstacle}");
        } else {
            tracing::error!(worker, why, "{obstacle}");
        }
    }
}

/// Models that a complaint names at most.
const MODELS_NAMED_MAX: usize = 8;

/// Says with each new list which models of `serves` are not in it.
fn tell_unlisted(member: &Member, names: &[String]) {
    let is_unlisted = |wanted: &&String| !names.contains(wanted);
    let unlisted = member.settings.traits.serves.iter().filter(is_unlisted);
    let unlisted: Vec<&str> = unlisted.take(MODELS_NAMED_MAX).map(String::as_str).collect();
    if !unlisted.is_empty() {
        tracing::warn!(
            worker = member.upstream.name(),
            "its `serves` names `{}`, which it does not list; correct the name, or start the worker with it",
            unlisted.join("`, `")
        );
    }
}

/// Says once what is wrong with a worker that serves something else than it is configured for.
fn tell_wrong_model(fleet: &Fleet, worker: WorkerId, wanted: &str, names: &[String]) {
    let wrong = Health::is_wrong_model;
    if !wrong(fleet.dispatcher.view().fleet().worker(worker).health()) {
        let served = names.iter().take(MODELS_NAMED_MAX).cloned().collect::<Vec<_>>().join("`, `");
        tracing::error!(
            worker = fleet.dispatcher.upstream(worker).name(),
            "it serves `{served}` and is configured for `{wanted}`; it is sent nothing until it \
             serves that, or its `model` is changed"
        );
    }
}

async fn probe(upstream: &Arc<Upstream>, answer_bytes: usize) -> Seen {
    match fetch(upstream, HEALTH, answer_bytes).await {
        // A server without `/health` is judged by its models alone.
        Ok((StatusCode::OK | StatusCode::NOT_FOUND, _)) | Err(FetchError::TooLong(_)) => {}
        Ok((status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), _)) => {
            return Seen::Locked(status);
        }
        Ok((status, _)) => return Seen::Unready(format!("`{HEALTH}` answered {status}")),
        Err(error) => return unseen(&error),
    }
    match fetch(upstream, MODELS, answer_bytes).await {
        Ok((StatusCode::OK, list)) => Seen::Ready(list),
        Ok((status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), _)) => {
            Seen::Locked(status)
        }
        Ok((status, _)) => Seen::Unready(format!("`{MODELS}` answered {status}")),
        Err(error @ (FetchError::TooLong(_) | FetchError::BrokenOff)) => {
            Seen::Unready(format!("`{MODELS}`: {error}"))
        }
        Err(error) => unseen(&error),
    }
}

fn unseen(error: &FetchError) -> Seen {
    let FetchError::Upstream(error) = error else { return Seen::Silent(error.to_string()) };
    match error {
        UpstreamError::Refused(why) => Seen::Unreachable(why.to_string()),
        UpstreamError::Unreached(why) => Seen::Unreached(why.to_string()),
        UpstreamError::ConnectTimedOut(_) => Seen::Unreached(error.to_string()),
        UpstreamError::Handshake(why) => Seen::Untrusted(why.to_string()),
        UpstreamError::Resolve(why) => Seen::Nameless(why.to_string()),
        UpstreamError::Local(why) => Seen::Untried(why.to_string()),
        UpstreamError::Broken(_) => Seen::Silent(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn only_a_refused_connection_says_that_a_worker_is_gone() {
        let seen = |error| unseen(&FetchError::Upstream(error));
        let late = || Error::from(ErrorKind::TimedOut);
        let second = Duration::from_secs(1);
        assert!(matches!(seen(UpstreamError::Refused(late())), Seen::Unreachable(_)));
        assert!(matches!(seen(UpstreamError::Unreached(late())), Seen::Unreached(_)));
        assert!(matches!(seen(UpstreamError::ConnectTimedOut(second)), Seen::Unreached(_)));
        assert!(matches!(seen(UpstreamError::Handshake(late())), Seen::Untrusted(_)));
        assert!(matches!(seen(UpstreamError::Resolve(late())), Seen::Nameless(_)));
        assert!(matches!(seen(UpstreamError::Local(late())), Seen::Untried(_)));
    }
}
