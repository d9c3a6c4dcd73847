//! Peer sync: how several gateways before the same workers act as one.
//!
//! One task owns the store. It publishes this gateway's breaker decisions and its load in flight,
//! takes in those of the others and the revoked keys, and asks for the trial of ejected workers. Requests use the core's
//! state and never wait for any of this. Without the store the gateway decides alone.

use std::sync::Arc;
use std::time::Duration;

use overdraft_core::breaker::{Grants, Seen};
use overdraft_store::{
    Budgets, Record, Revocations, SHARE_LIFE, Shared, Status, Store, StoreSettings, Verdict,
};
use overdraft_telemetry::calendar_time;
use overdraft_units::{Instant, Micros};
use tokio::time::{Instant as Moment, MissedTickBehavior};

use crate::dispatch::Dispatcher;

/// For how long the store may be away before trials are no longer asked for there; a command that
/// comes late now and then is none.
const ALONE_AFTER: Duration = Duration::from_secs(2);

/// For how long after its last request a gateway asks for trials.
const BUSY: Duration = Duration::from_secs(2);

/// How often it is looked whether a store has been configured, where there is none.
const IDLE: Duration = Duration::from_secs(1);

/// How often revoked keys are read: a key is refused everywhere well within two seconds.
const REVOKED_EVERY: Duration = Duration::from_millis(500);

/// What gateways share, and where it comes from.
#[derive(Debug)]
pub(crate) struct PeerSync {
    pub(crate) dispatcher: Arc<Dispatcher>,
    /// What keys have spent, over all gateways that share.
    pub(crate) budgets: Arc<Budgets>,
    /// The keys that all of them refuse.
    pub(crate) revocations: Arc<Revocations>,
    /// How the store is.
    pub(crate) status: Arc<Status>,
}

impl PeerSync {
    /// Keeps the dispatcher in step with other gateways.
    pub(crate) async fn run(self) {
        let mut settings = None;
        loop {
            let wanted = self.dispatcher.settings().store.clone();
            if settings.as_ref() != Some(&wanted) {
                settings = Some(wanted.clone());
                let (status, budgets) = (Arc::clone(&self.status), Arc::clone(&self.budgets));
                match Store::open_with(&wanted, status, budgets) {
                    Ok(store) if store.is_shared() => {
                        tracing::info!(store = %wanted.place, namespace = %wanted.namespace,
                            "gateways share what they know");
                        self.bridge(store, wanted).run().await;
                        continue;
                    }
                    Ok(_) => self.dispatcher.set_grants(Grants::Own),
                    Err(error) => {
                        self.dispatcher.set_grants(Grants::Own);
                        tracing::error!(%error, "the store cannot be used; this gateway continues alone");
                    }
                }
            }
            tokio::time::sleep(IDLE).await;
        }
    }

    fn bridge(&self, store: Store, settings: StoreSettings) -> Bridge {
        let now = Moment::now();
        Bridge {
            dispatcher: Arc::clone(&self.dispatcher),
            revocations: Arc::clone(&self.revocations),
            store,
            settings,
            read: None,
            revoked: None,
            heard: now,
            degraded: None,
            started: (0, now),
        }
    }
}

/// Between the core and a store that others share.
struct Bridge {
    dispatcher: Arc<Dispatcher>,
    revocations: Arc<Revocations>,
    store: Store,
    settings: StoreSettings,
    /// The board as it was last read: its version, and whose records were asked for.
    read: Option<(u64, Vec<u64>)>,
    /// The version of the revocations that were last read.
    revoked: Option<u64>,
    /// When the others were last heard.
    heard: Moment,
    /// Since when the store has been degraded.
    degraded: Option<Moment>,
    /// The newest attempt that was seen, and when that was.
    started: (u64, Moment),
}

impl Bridge {
    /// Goes on until another store is configured.
    async fn run(mut self) {
        let mut board = tokio::time::interval(self.settings.board_interval);
        board.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut shares_due, mut revoked_due) = (Moment::now(), Moment::now());
        while self.dispatcher.settings().store == self.settings {
            board.tick().await;
            self.tell_verdicts().await;
            self.read_board().await;
            if shares_due <= Moment::now() {
                shares_due = Moment::now() + self.settings.share_interval;
                self.keep_trials().await;
                self.claim_trials().await;
                self.exchange().await;
            }
            if revoked_due <= Moment::now() {
                revoked_due = Moment::now() + REVOKED_EVERY;
                self.read_revocations().await;
            }
            self.note_degraded();
        }
        self.forget_others();
    }

    /// Tells the others what breakers decided here.
    async fn tell_verdicts(&mut self) {
        for (worker, news) in self.dispatcher.breaker_news() {
            let open_for = news.open_for.map(Duration::from);
            let verdict = Verdict { open_for, streak: news.streak };
            let Ok(record) = self.store.board_report(worker.number, verdict).await else { return };
            // Nothing stands there: nobody had said anything, and that it is closed goes without.
            let none = Record { version: 0, open_for: None, streak: news.streak };
            let record = record.unwrap_or(none);
            self.dispatcher.breaker_told(worker, news.sequence, |now| seen(record, now));
        }
    }

    /// Takes in what others decided, where anything has changed.
    async fn read_board(&mut self) {
        let Ok(version) = self.store.board_version().await else { return };
        let workers = self.dispatcher.peer_workers();
        let numbers: Vec<u64> = workers.iter().map(|worker| worker.number).collect();
        if self.read.as_ref().is_some_and(|(read, known)| *read == version && *known == numbers) {
            return;
        }
        let Ok(records) = self.store.board_read(&numbers).await else { return };
        for (worker, record) in workers.into_iter().zip(records) {
            let Some(record) = record else { continue };
            self.dispatcher.breaker_seen(worker, |now| seen(record, now));
        }
        self.read = Some((version, numbers));
    }

    /// Keeps what was claimed, for as long as it is waited for.
    async fn keep_trials(&mut self) {
        for worker in self.dispatcher.probing() {
            // One that could not be kept is another's to try as well, once; that does no harm.
            if self.store.board_renew(worker.number).await.is_err() {
                return;
            }
        }
    }

    /// Asks to try the workers whose time out is over. A gateway without requests would sit on what it
    /// was granted, so it leaves that to the others.
    async fn claim_trials(&mut self) {
        if !self.is_busy() {
            return;
        }
        for worker in self.dispatcher.probes_due() {
            let Ok(granted) = self.store.board_claim(worker.number).await else { return };
            if granted {
                self.dispatcher.grant_probe(worker);
            }
        }
    }

    /// Whether requests came a moment ago.
    fn is_busy(&mut self) -> bool {
        let newest = {
            let view = self.dispatcher.view();
            view.fleet().workers().map(|(_, worker)| worker.started_last()).max().unwrap_or(0)
        };
        if self.started.0 < newest {
            self.started = (newest, Moment::now());
        }
        self.started.1.elapsed() < BUSY
    }

    /// Tells what is in flight and waits here and what was spent, and takes in the others'.
    async fn exchange(&mut self) {
        let ours = self.dispatcher.own_share();
        match self.store.exchange_shares(&ours).await {
            Ok(others) => {
                self.heard = Moment::now();
                self.dispatcher.note_others(others);
            }
            Err(_) if SHARE_LIFE < self.heard.elapsed() => self.forget_others(),
            Err(_) => {}
        }
        // What was spent and not told is told the next time.
        let _: Result<(), _> = self.store.exchange_budgets(self.dispatcher.clock.now()).await;
    }

    /// Takes in which keys are refused, and writes back what the store has lost of them.
    async fn read_revocations(&mut self) {
        let Ok(Some(told)) = self.store.revoked(self.revoked).await else { return };
        let now = u64::try_from(calendar_time().as_millisecond()).unwrap_or_default();
        let learnt = self.revocations.learn(&told.keys, now);
        if 0 < learnt.new {
            tracing::info!(keys = learnt.new, "keys were revoked over the store");
        }
        let kept = learnt.lost.is_empty() || self.store.revoke(&learnt.lost).await.is_ok();
        // What could not be written back is tried the next time.
        self.revoked = kept.then_some(told.version);
    }

    /// What they said is too old to go by.
    fn forget_others(&self) {
        self.dispatcher.note_others(Shared::default());
    }

    /// Decides alone once the store has been away for long enough.
    fn note_degraded(&mut self) {
        let now = Moment::now();
        self.degraded = self.store.status().is_degraded().then(|| self.degraded.unwrap_or(now));
        let alone = self.degraded.is_some_and(|since| ALONE_AFTER <= now - since);
        let grants = if alone { Grants::Own } else { Grants::Shared };
        self.dispatcher.set_grants(grants);
    }
}

/// A record in this gateway's time.
fn seen(record: Record, now: Instant) -> Seen {
    let Record { version, open_for, streak } = record;
    Seen { version, until: open_for.map(|left| now + Micros::from(left)), streak }
}
