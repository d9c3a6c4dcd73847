//! Background responses: answers that nobody waits for, and the owner of all that Responses leave behind.
//!
//! A response in the background is made by a task of this owner. Its events are logged, so that a client can
//! follow them; the log outlives the response for a while, where there is room.
//!
//! **Invariant:** at most [`LIVE_MAX`] responses are logged, and a tenant that begins one leaves room for as many of
//! others as it has under way itself.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use overdraft_store::OpenError;
use overdraft_telemetry::Clock;
use overdraft_units::Micros;
use overdraft_wire::ApiError;
use overdraft_wire::dialect::responses::Writer;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::kept::{Kept, KeptResponses};
use super::live::Live;
use super::seal::Seals;
use super::stream::Translated;
use crate::pipeline::keys::Realm;
use crate::settings::GatewaySettings;

/// Responses whose events are logged at most.
const LIVE_MAX: usize = 256;

/// How long the log of a response that has ended is held at most: long enough for a client that lost its
/// connection, and not until 256 others have filled as many logs.
const LOG_LIFE: Duration = Duration::from_mins(10);

/// How long responses that outlast the drain may take to be written as failed.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// What a client is told of a response that outlasted the drain.
const ENDED: &str = "the gateway that made this response was shut down before its end; ask again";

/// What Responses leave behind.
#[derive(Debug)]
pub(crate) struct Responses {
    pub(super) kept: KeptResponses,
    pub(super) seals: Arc<Seals>,
    clock: Clock,
    live: Mutex<VecDeque<Arc<Live>>>,
    /// How long the log of a response that has ended is held.
    log_life: Micros,
    /// Is cancelled once what is under way has had its time.
    ending: CancellationToken,
    tasks: TaskTracker,
}

/// What belongs to a response beside its events.
#[derive(Debug)]
pub(super) struct Identified {
    pub(super) tenant: Realm,
    pub(super) id: String,
    pub(super) input: Vec<Box<RawValue>>,
    pub(super) previous: Option<String>,
}

impl Identified {
    /// The response as it is kept.
    pub(super) fn kept(&self, object: &[u8], background: bool) -> Option<Kept> {
        let object: Box<RawValue> = serde_json::from_slice(object).ok()?;
        let (input, previous) = (self.input.clone(), self.previous.clone());
        Some(Kept { object, input, previous, background })
    }
}

impl Responses {
    /// An owner of nothing yet.
    ///
    /// # Errors
    /// [`OpenError`] where the store's certificates cannot be used.
    pub(in crate::server) fn new(
        settings: &GatewaySettings,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        Ok(Self {
            kept: KeptResponses::new(settings, clock)?,
            seals: Arc::new(Seals::new(&settings.isolation)),
            clock,
            live: Mutex::default(),
            log_life: LOG_LIFE.min(settings.responses.life).into(),
            ending: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// Waits for what is under way for as long as the gateway drains, and ends what is left as failed.
    pub(crate) async fn end(&self, patience: Duration) {
        self.tasks.close();
        if timeout(patience, self.tasks.wait()).await.is_ok() {
            return;
        }
        tracing::warn!(responses = self.tasks.len(), "responses that outlast the drain fail");
        self.ending.cancel();
        if timeout(LAST_WRITES, self.tasks.wait()).await.is_err() {
            tracing::warn!(responses = self.tasks.len(), "responses under way are given up");
        }
    }

    /// Keeps a response that was waited for here, and with the other gateways beside.
    pub(super) fn keep(self: &Arc<Self>, of: &Identified, object: &[u8]) {
        let Some(kept) = of.kept(object, false) else { return };
        let Some(entry) = self.kept.keep(of.tenant, &of.id, kept) else { return };
        let (this, tenant, id) = (Arc::clone(self), of.tenant, of.id.clone());
        self.tasks.spawn(async move { this.kept.share(tenant, &id, &entry).await });
    }

    /// Keeps a response in the background here as it stands; what the other gateways are to be told.
    fn keep_background(&self, of: &Identified, object: &[u8]) -> Option<Vec<u8>> {
        let kept = of.kept(object, true)?;
        self.kept.keep(of.tenant, &of.id, kept)
    }

    /// Makes a response that nobody waits for; none where there are too many, of its tenant or of all.
    pub(super) fn start(
        self: &Arc<Self>,
        of: Identified,
        answer: Translated<Writer>,
    ) -> Option<Arc<Live>> {
        let object: Bytes = answer.writer().under_way().into();
        let live = Arc::new(Live::new(of.tenant, of.id.clone(), object));
        {
            let mut all = self.live();
            if !make_room(&mut all, of.tenant) {
                return None;
            }
            all.push_back(Arc::clone(&live));
        }
        let begun = self.keep_background(&of, &live.object());
        let (this, made) = (Arc::clone(self), Arc::clone(&live));
        self.tasks.spawn(async move {
            // One task writes the first entry and the last, so that the last stays.
            if let Some(entry) = begun {
                this.kept.share(of.tenant, &of.id, &entry).await;
            }
            this.make(&of, &made, answer).await;
        });
        Some(live)
    }

    /// Frees the logs of responses that ended a while ago.
    pub(crate) fn sweep(&self) {
        let now = self.clock.now();
        self.live().retain(|live| !live.is_stale(self.log_life, now));
    }

    /// The response of that id, where it is the tenant's and its events are logged.
    pub(super) fn find_live(&self, tenant: Realm, id: &str) -> Option<Arc<Live>> {
        let all = self.live();
        let found = all.iter().find(|live| live.is_of(tenant, id));
        found.cloned()
    }

    /// The same, unless a client of another gateway has deleted it.
    pub(super) async fn find_undeleted(&self, tenant: Realm, id: &str) -> Option<Arc<Live>> {
        let live = self.find_live(tenant, id)?;
        if self.kept.is_deleted(tenant, id).await {
            self.forget_live(tenant, id);
            return None;
        }
        Some(live)
    }

    /// Lets go of a response's events, and gives it up where it is under way.
    pub(super) fn forget_live(&self, tenant: Realm, id: &str) {
        let mut all = self.live();
        all.retain(|live| {
            let is_it = live.is_of(tenant, id);
            if is_it {
                live.give_up();
            }
            !is_it
        });
    }

    async fn make(&self, of: &Identified, live: &Live, mut answer: Translated<Writer>) {
        let mut cancel_asked = pin!(self.kept.cancel_asked(of.tenant, &of.id));
        let mut is_failing = false;
        loop {
            let frame = tokio::select! {
                biased;
                () = live.given_up() => {
                    let object = answer.writer().cancelled();
                    self.settle(of, live, object).await;
                    break;
                }
                () = &mut cancel_asked => {
                    live.give_up();
                    continue;
                }
                () = self.ending.cancelled(), if !is_failing => {
                    is_failing = true;
                    answer.give_up(&ApiError::server_error(ENDED));
                    continue;
                }
                frame = answer.frame() => frame,
            };
            let Some(Ok(frame)) = frame else { break };
            let Ok(events) = frame.into_data() else { continue };
            let Some(object) = answer.writer().object().map(<[u8]>::to_vec) else {
                live.add(&events);
                continue;
            };
            // Who sees the last event may go on from the response at once, at any gateway.
            self.settle(of, live, object).await;
            live.add(&events);
            live.close(self.clock.now());
        }
        live.close(self.clock.now());
    }

    /// The response has ended so; one that had ended before stays as it was.
    async fn settle(&self, of: &Identified, live: &Live, object: Vec<u8>) {
        if live.is_over() {
            return;
        }
        // The client that deleted it does not want to see it again.
        let is_wanted = self.find_live(of.tenant, &of.id).is_some();
        let entry = is_wanted.then(|| self.keep_background(of, &object)).flatten();
        live.set_object(object.into());
        if let Some(entry) = entry {
            self.kept.share(of.tenant, &of.id, &entry).await;
        }
    }

    fn live(&self) -> MutexGuard<'_, VecDeque<Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes room for the log of one more response of a tenant; false where there is none.
///
/// A tenant may have as many under way as are still free (dynamic thresholds, as for the memory of bodies). A fixed
/// part would have to be set for a number of tenants that nobody knows, and without any one tenant keeps out all others.
fn make_room(all: &mut VecDeque<Arc<Live>>, tenant: Realm) -> bool {
    let (mut total, mut own) = (1, 1);
    for live in all.iter().filter(|live| !live.is_over()) {
        total += 1;
        own += usize::from(live.is_of_tenant(tenant));
    }
    // Where nobody presents a key, there are no others to leave room for.
    if tenant != Realm::default() && LIVE_MAX.saturating_sub(total) < own {
        return false;
    }
    while LIVE_MAX <= all.len() {
        let Some(ended) = all.iter().position(|live| live.is_over()) else { return false };
        all.remove(ended);
    }
    true
}

#[cfg(test)]
mod tests {
    use overdraft_units::Instant;

    use super::*;

    /// Begins responses of a tenant until there is no room for another; how many.
    fn begin(all: &mut VecDeque<Arc<Live>>, tenant: Realm) -> usize {
        let mut begun = 0_usize;
        while make_room(all, tenant) {
            all.push_back(Arc::new(Live::new(tenant, begun.to_string(), Bytes::new())));
            begun += 1;
        }
        begun
    }

    #[test]
    fn a_tenant_leaves_room_for_the_responses_of_others() {
        let (one, other) = ([1; 32], [2; 32]);
        let mut all = VecDeque::new();
        assert_eq!(begin(&mut all, one), LIVE_MAX / 2);
        assert_eq!(begin(&mut all, other), LIVE_MAX / 4);
        assert_eq!(begin(&mut all, one), 0);
        for live in &all {
            live.close(Instant::ORIGIN);
        }
        assert_eq!(begin(&mut all, other), LIVE_MAX / 2, "what has ended counts for nobody");
        assert_eq!(all.len(), LIVE_MAX, "and makes room");
    }

    #[test]
    fn without_keys_all_places_are_everybodys() {
        let mut all = VecDeque::new();
        assert_eq!(begin(&mut all, Realm::default()), LIVE_MAX);
    }

    #[test]
    fn a_sweep_frees_the_logs_of_what_has_ended() {
        let settings = GatewaySettings::new(Vec::new());
        let clock = Clock::start();
        let mut responses = Responses::new(&settings, clock).unwrap();
        responses.log_life = Micros::ZERO;
        for id in ["ended", "under way"] {
            let live = Live::new([0; 32], id.to_owned(), Bytes::new());
            responses.live().push_back(Arc::new(live));
        }
        responses.find_live([0; 32], "ended").unwrap().close(clock.now());
        responses.sweep();
        assert!(responses.find_live([0; 32], "ended").is_none());
        assert!(responses.find_live([0; 32], "under way").is_some());
    }
}
