//! Live response: one that is made in the background, with a log of its last events.
//!
//! Clients follow the log from any number that it holds, and hear what is added. A log that is full lets its
//! oldest events go: who follows live misses nothing, and only who asks for what is gone is refused.
//!
//! **Invariant:** a log holds at most [`LOG_BYTES_MAX`] bytes, or one event that is larger.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use overdraft_http::{Body, BoxError, BrokenOff};
use overdraft_units::{Instant, Micros};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::paced::PIECE_BYTES_MAX;
use super::stream::PING;
use crate::pipeline::keys::Realm;

/// Bytes of one response's events at most; of a longer response only the last events can be followed.
const LOG_BYTES_MAX: usize = 8 * 1024 * 1024;

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
    /// The last events, as many as there is room for.
    events: VecDeque<Bytes>,
    /// The number of the first of them.
    first: usize,
    bytes: usize,
    /// The object as it stands.
    object: Bytes,
    ended: Option<Instant>,
}

impl Live {
    /// A response that has just begun, with its object.
    pub(super) fn new(tenant: Realm, id: String, object: Bytes) -> Self {
        let log = Log { events: VecDeque::new(), first: 0, bytes: 0, object, ended: None };
        Self {
            tenant,
            id,
            cancel: CancellationToken::new(),
            log: Mutex::new(log),
            grown: watch::Sender::new(0),
        }
    }

    /// Whether it is the tenant's.
    pub(super) fn is_of_tenant(&self, tenant: Realm) -> bool {
        self.tenant == tenant
    }

    /// Whether it has that id and is the tenant's.
    pub(super) fn is_of(&self, tenant: Realm, id: &str) -> bool {
        self.is_of_tenant(tenant) && self.id == id
    }

    /// The object as it stands.
    pub(super) fn object(&self) -> Bytes {
        self.log().object.clone()
    }

    /// The object as it stands from now on.
    pub(super) fn set_object(&self, object: Bytes) {
        self.log().object = object;
    }

    /// Whether nothing will be added.
    pub(super) fn is_over(&self) -> bool {
        self.log().ended.is_some()
    }

    /// Whether it ended longer than `life` ago.
    pub(super) fn is_stale(&self, life: Micros, now: Instant) -> bool {
        self.log().ended.is_some_and(|ended| life <= now.since(ended))
    }

    /// Has the response given up by the task that makes it.
    pub(super) fn give_up(&self) {
        self.cancel.cancel();
    }

    /// Resolves once it is to be given up.
    pub(super) async fn given_up(&self) {
        self.cancel.cancelled().await;
    }

    /// Gives the response up; what it then is. One that has ended stays as it is.
    pub(super) async fn cancel(&self) -> Bytes {
        self.give_up();
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
    pub(super) fn follow(self: &Arc<Self>, from: usize) -> Option<Following> {
        if from < self.log().first {
            return None;
        }
        let grown = self.grown.subscribe();
        let next = Spot { event: from, byte: 0 };
        Some(Following { live: Arc::clone(self), grown, next })
    }

    /// Adds events to the log; comments are for the one who listens now.
    pub(super) fn add(&self, events: &[u8]) {
        let mut log = self.log();
        let mut rest = events;
        while let Some(end) = memchr::memmem::find(rest, b"\n\n") {
            let (event, behind) = rest.split_at(end + 2);
            rest = behind;
            if !event.starts_with(b":") {
                log.push(event);
            }
        }
        let end = log.end();
        drop(log);
        self.grown.send_replace(end);
    }

    /// Nothing more will be added.
    pub(super) fn close(&self, now: Instant) {
        self.log().ended.get_or_insert(now);
        self.grown.send_replace(usize::MAX);
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// The number that the next event will have.
    fn end(&self) -> usize {
        self.first + self.events.len()
    }

    fn push(&mut self, event: &[u8]) {
        self.bytes += event.len();
        self.events.push_back(Bytes::copy_from_slice(event));
        // The last event stays however large it is: without it nobody would hear of the end.
        while LOG_BYTES_MAX < self.bytes && 1 < self.events.len() {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.len();
            self.first += 1;
        }
    }

    /// One piece from `spot` on, which it must still hold, and the spot behind it.
    fn since(&self, mut spot: Spot) -> (Bytes, Spot) {
        let mut piece = Vec::new();
        for event in self.events.iter().skip(spot.event.saturating_sub(self.first)) {
            let left = event.get(spot.byte..).unwrap_or_default();
            let (now, later) = left.split_at(left.len().min(PIECE_BYTES_MAX - piece.len()));
            piece.extend_from_slice(now);
            if !later.is_empty() {
                spot.byte += now.len();
                break;
            }
            spot = Spot { event: spot.event + 1, byte: 0 };
        }
        (piece.into(), spot)
    }
}

/// How far a client has come in a log.
#[derive(Clone, Copy, Debug)]
struct Spot {
    /// The number of the event that is next.
    event: usize,
    /// How much of it has been handed over.
    byte: usize,
}

/// One client that follows a response.
pub(super) struct Following {
    live: Arc<Live>,
    grown: watch::Receiver<usize>,
    next: Spot,
}

impl Following {
    /// What it hears as a body, with which `place` goes.
    pub(super) fn into_body<P: Send + 'static>(self, place: P) -> Body {
        Body::unfold((self, place), |(following, place)| async move {
            let next = following.step().await;
            next.map(|next| next.map(|(piece, following)| (piece, (following, place))))
        })
    }

    /// Pieces are small: a client that does not read must not get a log of its own.
    async fn step(mut self) -> Result<Option<(Bytes, Self)>, BoxError> {
        loop {
            self.grown.borrow_and_update();
            {
                let log = self.live.log();
                if self.next.event < log.first {
                    return Err(BrokenOff.into());
                }
                if self.next.event < log.end() {
                    let (piece, next) = log.since(self.next);
                    drop(log);
                    self.next = next;
                    return Ok(Some((piece, self)));
                }
                if log.ended.is_some() {
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// More events than a log holds, each of this many bytes.
    const EVENTS: usize = 20;
    const EVENT_BYTES: usize = LOG_BYTES_MAX / 10;

    fn live() -> Arc<Live> {
        Arc::new(Live::new([0; 32], "resp_1".to_owned(), Bytes::new()))
    }

    fn event(number: usize) -> Vec<u8> {
        let mut event = format!("event: {number}\ndata: ").into_bytes();
        event.resize(EVENT_BYTES - 2, b'x');
        event.extend_from_slice(b"\n\n");
        event
    }

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Micros::new(seconds * 1_000_000)
    }

    fn follow(live: &Arc<Live>, from: usize) -> Option<Body> {
        Some(live.follow(from)?.into_body(()))
    }

    async fn next(body: &mut Body) -> Bytes {
        let frame = body.frame().await.expect("it goes on").expect("it is whole");
        let piece = frame.into_data().expect("it is data");
        assert!(piece.len() <= PIECE_BYTES_MAX, "{} bytes", piece.len());
        piece
    }

    /// So many bytes, in as many pieces as it takes.
    async fn bytes(body: &mut Body, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < count {
            all.extend_from_slice(&next(body).await);
        }
        all
    }

    #[tokio::test]
    async fn who_follows_a_long_response_live_misses_nothing() {
        let live = live();
        let mut follower = follow(&live, 0).unwrap();
        for number in 0..EVENTS {
            live.add(&event(number));
            assert!(bytes(&mut follower, EVENT_BYTES).await == event(number), "event {number}");
        }
        live.close(at(1));
        assert!(follower.frame().await.is_none());
    }

    #[tokio::test]
    async fn of_a_long_response_the_last_events_can_be_followed() {
        let live = live();
        let mut late = follow(&live, 0).unwrap();
        for number in 0..EVENTS {
            live.add(&event(number));
        }
        assert!(late.frame().await.unwrap().is_err(), "what it wants is gone");
        live.close(at(1));
        assert!(follow(&live, 0).is_none());
        assert!(follow(&live, EVENTS - 11).is_none());
        let mut follower = follow(&live, EVENTS - 1).unwrap();
        assert!(bytes(&mut follower, EVENT_BYTES).await == event(EVENTS - 1));
        assert!(follower.frame().await.is_none());
        assert!(follow(&live, EVENTS - 10).is_some());
    }

    #[tokio::test]
    async fn an_event_larger_than_a_log_is_heard() {
        let live = live();
        live.add(&event(0));
        let mut follower = follow(&live, 1).unwrap();
        let mut large = b"data: ".to_vec();
        large.resize(LOG_BYTES_MAX, b'x');
        large.extend_from_slice(b"\n\n");
        live.add(&large);
        assert!(bytes(&mut follower, large.len()).await == large);
    }

    #[tokio::test]
    async fn who_follows_late_gets_small_pieces_and_gives_its_place_back() {
        const SHORT: &[u8] = b"event: short\ndata: x\n\n";
        let live = live();
        let place = Arc::new(());
        let mut follower = live.follow(0).unwrap().into_body(Arc::clone(&place));
        let all = [SHORT, &event(1), SHORT, SHORT, &event(4)].concat();
        live.add(&all);
        live.close(at(1));
        assert_eq!(next(&mut follower).await.len(), PIECE_BYTES_MAX, "events share a piece");
        assert!(bytes(&mut follower, all.len() - PIECE_BYTES_MAX).await == all[PIECE_BYTES_MAX..]);
        assert_eq!(Arc::strong_count(&place), 2);
        assert!(follower.frame().await.is_none());
        assert_eq!(Arc::strong_count(&place), 1);
    }

    #[test]
    fn a_log_is_stale_a_while_after_its_end() {
        let live = live();
        let life = Micros::new(10_000_000);
        assert!(!live.is_stale(life, at(1_000)), "it is under way");
        live.close(at(5));
        live.close(at(9));
        assert!(!live.is_stale(life, at(14)));
        assert!(live.is_stale(life, at(15)));
    }
}
