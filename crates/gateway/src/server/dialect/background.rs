//! Background responses: answers that nobody waits for, and the owner of all that Responses leave behind.
//!
//! A response in the background is made by a task of this owner. Its events are logged, so that a client can
//! follow them from any number on; the log outlives the response for as long as there is room.
//!
//! **Invariant:** at most [`LIVE_MAX`] responses are logged, with at most [`LOG_BYTES_MAX`] bytes each.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use overdraft_http::{Body, BoxError, BrokenOff};
use overdraft_store::OpenError;
use overdraft_telemetry::Clock;
use overdraft_wire::dialect::responses::Writer;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::kept::{Kept, KeptResponses};
use super::seal::Seals;
use super::stream::{PING, Translated};
use crate::pipeline::keys::Realm;
use crate::settings::GatewaySettings;

/// Responses whose events are logged at most.
const LIVE_MAX: usize = 256;

/// Bytes of one response's events at most; of a longer one they cannot be followed from the beginning.
const LOG_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long responses under way may take to end once the gateway does.
const PATIENCE: Duration = Duration::from_secs(2);

/// What Responses leave behind.
#[derive(Debug)]
pub(crate) struct Responses {
    pub(super) kept: KeptResponses,
    pub(super) seals: Arc<Seals>,
    live: Mutex<VecDeque<Arc<Live>>>,
    tasks: TaskTracker,
}

/// A response in the background, under way or ended.
#[derive(Debug)]
pub(super) struct Live {
    tenant: Realm,
    id: String,
    cancel: CancellationToken,
    log: Mutex<Log>,
    /// Grows with the log, and is closed with it.
    grown: watch::Sender<usize>,
}

#[derive(Debug)]
struct Log {
    events: Vec<Bytes>,
    bytes: usize,
    /// The object as it stands.
    object: Bytes,
    is_over: bool,
    is_cut: bool,
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
            live: Mutex::default(),
            tasks: TaskTracker::new(),
        })
    }

    /// Gives up what is under way, and waits until it has ended.
    pub(crate) async fn end(&self) {
        for live in self.live().iter() {
            live.cancel.cancel();
        }
        self.tasks.close();
        if timeout(PATIENCE, self.tasks.wait()).await.is_err() {
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

    /// Makes a response that nobody waits for; none where there are too many.
    pub(super) fn start(
        self: &Arc<Self>,
        of: Identified,
        answer: Translated<Writer>,
    ) -> Option<Arc<Live>> {
        let object: Bytes = answer.writer().under_way().into();
        let live = Arc::new(Live {
            tenant: of.tenant,
            id: of.id.clone(),
            cancel: CancellationToken::new(),
            log: Mutex::new(Log {
                events: Vec::new(),
                bytes: 0,
                object,
                is_over: false,
                is_cut: false,
            }),
            grown: watch::Sender::new(0),
        });
        {
            let mut all = self.live();
            while LIVE_MAX <= all.len() {
                let ended = all.iter().position(|live| live.log().is_over)?;
                all.remove(ended);
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

    /// The response of that id, where it is the tenant's and its events are logged.
    pub(super) fn find_live(&self, tenant: Realm, id: &str) -> Option<Arc<Live>> {
        let all = self.live();
        let found = all.iter().find(|live| live.tenant == tenant && live.id == id);
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
            let is_it = live.tenant == tenant && live.id == id;
            if is_it {
                live.cancel.cancel();
            }
            !is_it
        });
    }

    async fn make(&self, of: &Identified, live: &Live, mut answer: Translated<Writer>) {
        let mut cancel_asked = pin!(self.kept.cancel_asked(of.tenant, &of.id));
        loop {
            let frame = tokio::select! {
                biased;
                () = live.cancel.cancelled() => {
                    let object = answer.writer().cancelled();
                    self.settle(of, live, object).await;
                    break;
                }
                () = &mut cancel_asked => {
                    live.cancel.cancel();
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
            live.close();
        }
        live.close();
    }

    /// The response has ended so; one that had ended before stays as it was.
    async fn settle(&self, of: &Identified, live: &Live, object: Vec<u8>) {
        if live.is_over() {
            return;
        }
        // Whoever deleted it does not want to see it again.
        let is_wanted = self.find_live(of.tenant, &of.id).is_some();
        let entry = is_wanted.then(|| self.keep_background(of, &object)).flatten();
        live.log().object = object.into();
        if let Some(entry) = entry {
            self.kept.share(of.tenant, &of.id, &entry).await;
        }
    }

    fn live(&self) -> MutexGuard<'_, VecDeque<Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    /// The object as it stands.
    pub(super) fn object(&self) -> Bytes {
        self.log().object.clone()
    }

    /// Gives the response up; what it then is. One that has ended stays as it is.
    pub(super) async fn cancel(&self) -> Bytes {
        self.cancel.cancel();
        let mut grown = self.grown.subscribe();
        let over = async {
            while !self.is_over() {
                if grown.changed().await.is_err() {
                    return;
                }
            }
        };
        over.await;
        self.object()
    }

    /// Its events from number `from` on, as they come; none where they are not there any more.
    pub(super) fn follow(self: &Arc<Self>, from: usize) -> Option<Body> {
        if self.log().is_cut {
            return None;
        }
        let grown = self.grown.subscribe();
        let state = Following { live: Arc::clone(self), grown, next: from };
        Some(Body::unfold(state, Following::step))
    }

    /// Adds events to the log; comments are for the one who listens now.
    fn add(&self, events: &[u8]) {
        let mut log = self.log();
        let mut rest = events;
        while let Some(end) = memchr::memmem::find(rest, b"\n\n") {
            let (event, behind) = rest.split_at(end + 2);
            rest = behind;
            if event.starts_with(b":") {
                continue;
            }
            log.bytes += event.len();
            log.events.push(Bytes::copy_from_slice(event));
        }
        if LOG_BYTES_MAX < log.bytes {
            log.is_cut = true;
            log.events.clear();
        }
        let count = log.events.len();
        drop(log);
        self.grown.send_replace(count);
    }

    fn is_over(&self) -> bool {
        self.log().is_over
    }

    fn close(&self) {
        self.log().is_over = true;
        self.grown.send_replace(usize::MAX);
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One client that follows a response.
struct Following {
    live: Arc<Live>,
    grown: watch::Receiver<usize>,
    next: usize,
}

impl Following {
    async fn step(mut self) -> Result<Option<(Bytes, Self)>, BoxError> {
        loop {
            self.grown.borrow_and_update();
            {
                let log = self.live.log();
                if log.is_cut {
                    return Err(BrokenOff.into());
                }
                if let Some(new) = log.events.get(self.next..).filter(|new| !new.is_empty()) {
                    let (frame, next) = (new.concat().into(), log.events.len());
                    drop(log);
                    self.next = next;
                    return Ok(Some((frame, self)));
                }
                if log.is_over {
                    return Ok(None);
                }
            }
            if timeout(PING, self.grown.changed()).await.is_err() {
                let comment = overdraft_wire::sse::comment("keep-alive");
                return Ok(Some((comment.into(), self)));
            }
        }
    }
}
