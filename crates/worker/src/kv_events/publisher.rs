//! `ZeroMQ` publisher: sends batches to subscribers and serves replays.
//!
//! One task numbers the batches; each connection has a task of its own, which all end with it. A
//! slow subscriber loses batches instead of holding others up, and requests a replay. The two
//! sockets have places of their own: who asks for replays keeps nobody from subscribing.
//!
//! **Invariant:** the queue of each subscriber and its topics are bounded.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use overdraft_engine::CacheChanges;
use overdraft_scheduler::batch::{CacheChange, PageName, PageParent, StoredPages};
use overdraft_telemetry::unix_time;
use overdraft_units::{BlockSize, CacheSalt};
use overdraft_wire::kv_events::{
    Batch, EngineHash, ExtraKeys, KvEvent, REPLAY_END, Removed, Stored, encode, read_sequence,
    write_sequence,
};
use overdraft_wire::zmtp::{SocketKind, write_message};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc};

use super::connections::{ConnectionEnd, Connections, Peer, accept};
use super::replay::Replay;
use super::salts::Salts;
use super::settings::KvEventsSettings;

/// Maximum batches queued for a subscriber (high-water mark); it loses the oldest beyond that.
const BEHIND_MAX: usize = 1_024;

/// Maximum topics of one subscriber.
const TOPICS_MAX: usize = 64;

/// The medium of all our pages, in vLLM's word.
const MEDIUM: &str = "GPU";

/// Publishes the events of one engine.
#[derive(Debug)]
pub struct KvPublisher {
    subscribers: TcpListener,
    replays: Option<TcpListener>,
    changes: mpsc::Receiver<Vec<CacheChanges>>,
    subscribed: Connections,
    replaying: Connections,
    shared: Arc<Shared>,
    salts: Arc<Salts>,
    block_size: u32,
    next: u64,
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    topic: String,
    live: broadcast::Sender<Bytes>,
    replay: Mutex<Replay>,
}

impl KvPublisher {
    pub(super) fn new(
        settings: &KvEventsSettings,
        block_size: BlockSize,
        subscribers: TcpListener,
        replays: Option<TcpListener>,
        changes: mpsc::Receiver<Vec<CacheChanges>>,
        salts: Arc<Salts>,
    ) -> Self {
        let shared = Shared {
            topic: settings.topic.clone(),
            live: broadcast::Sender::new(BEHIND_MAX),
            replay: Mutex::new(Replay::new(settings.buffer_steps)),
        };
        Self {
            subscribers,
            replays,
            changes,
            subscribed: Connections::of("subscription"),
            replaying: Connections::of("replay"),
            shared: Arc::new(shared),
            salts,
            block_size: block_size.get(),
            next: 0,
        }
    }

    /// Publishes for as long as `serving` takes; all connections end with it.
    pub async fn beside<T>(self, serving: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            served = serving => served,
            never = self.run() => match never {},
        }
    }

    async fn run(mut self) -> Infallible {
        loop {
            let (subscribes, replays) = (self.subscribed.has_room(), self.replaying.has_room());
            tokio::select! {
                biased;
                Some(changes) = self.changes.recv() => self.publish(changes),
                peer = accept(Some(&self.subscribers)), if subscribes => {
                    let shared = Arc::clone(&self.shared);
                    // From here on it misses nothing, whenever its task gets its turn.
                    let live = shared.live.subscribe();
                    self.subscribed.add(serve_subscriber(peer, shared, live));
                }
                peer = accept(self.replays.as_ref()), if replays => {
                    self.replaying.add(serve_replays(peer, Arc::clone(&self.shared)));
                }
                Some(()) = self.subscribed.ended() => {}
                Some(()) = self.replaying.ended() => {}
                else => std::future::pending().await,
            }
        }
    }

    fn publish(&mut self, all: Vec<CacheChanges>) {
        let mut events = Vec::new();
        for changes in all {
            match changes {
                CacheChanges::Cleared => events.push(KvEvent::Cleared),
                CacheChanges::Pages(changes) => {
                    for change in changes {
                        match change {
                            CacheChange::Stored(stored) => events.push(self.stored(stored)),
                            CacheChange::Removed(names) => events.push(removed(&names)),
                            CacheChange::Lost => self.skip(&mut events),
                        }
                    }
                }
            }
        }
        self.send(events);
    }

    /// Uses up a number, so that a subscriber that counts knows that something is missing. What came before it
    /// in the same step is sent: it is true.
    fn skip(&mut self, events: &mut Vec<KvEvent>) {
        tracing::warn!("cache changes came faster than they could be published; some were lost");
        self.send(std::mem::take(events));
        self.next += 1;
    }

    fn send(&mut self, events: Vec<KvEvent>) {
        if events.is_empty() {
            return;
        }
        let batch = Batch { at_seconds: unix_time(), events, rank: Some(0) };
        let payload = Bytes::from(encode(&batch));
        let mut message = Vec::with_capacity(payload.len() + 32);
        let number = write_sequence(self.next);
        write_message(&mut message, &[self.shared.topic.as_bytes(), &number, &payload]);
        let mut replay = self.shared.replay.lock().unwrap_or_else(PoisonError::into_inner);
        replay.push(self.next, payload);
        drop(replay);
        self.next += 1;
        // Nobody may be there to hear it.
        let _ = self.shared.live.send(Bytes::from(message));
    }

    fn stored(&self, stored: StoredPages) -> KvEvent {
        let StoredPages { after, names, tokens } = stored;
        let (parent, extra) = match after {
            PageParent::Page(name) => (Some(hash(name)), Vec::new()),
            PageParent::Root(CacheSalt(0)) => (None, Vec::new()),
            PageParent::Root(salt) => (None, vec![ExtraKeys::Salt(self.salts.text(salt))]),
        };
        KvEvent::Stored(Stored {
            hashes: names.into_iter().map(hash).collect(),
            parent,
            tokens,
            block_size: self.block_size,
            medium: Some(MEDIUM.to_owned()),
            lora: None,
            extra,
            group: None,
        })
    }
}

fn removed(names: &[PageName]) -> KvEvent {
    let hashes = names.iter().copied().map(hash).collect();
    KvEvent::Removed(Removed { hashes, medium: Some(MEDIUM.to_owned()), group: None })
}

const fn hash(name: PageName) -> EngineHash {
    EngineHash::Number(name.0)
}

async fn serve_subscriber(
    stream: TcpStream,
    shared: Arc<Shared>,
    mut live: broadcast::Receiver<Bytes>,
) -> ConnectionEnd {
    let mut peer = match Peer::open(stream, SocketKind::Publisher).await {
        Ok(peer) => peer,
        Err(end) => return end,
    };
    let mut topics: Vec<Bytes> = Vec::new();
    loop {
        let done = tokio::select! {
            message = peer.receive() => message.map(|message| subscribe(&mut topics, &message)),
            batch = live.recv() => match batch {
                Ok(batch) if wants(&topics, &shared.topic) => peer.write(&batch).await,
                // It was too slow, and will see by the numbers what it missed.
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => Ok(()),
                Err(broadcast::error::RecvError::Closed) => Err(ConnectionEnd::Gone),
            },
        };
        if let Err(end) = done {
            return end;
        }
        if !topics.is_empty() {
            peer.settle();
        }
    }
}

/// Takes in a subscription (1 and a topic) or its end (0 and the topic).
fn subscribe(topics: &mut Vec<Bytes>, message: &[Bytes]) {
    let Some(frame) = message.first() else { return };
    match frame.first() {
        Some(1) if topics.len() < TOPICS_MAX => topics.push(frame.slice(1..)),
        Some(0) => {
            if let Some(place) = topics.iter().position(|topic| topic[..] == frame[1..]) {
                topics.swap_remove(place);
            }
        }
        _ => {}
    }
}

fn wants(topics: &[Bytes], topic: &str) -> bool {
    topics.iter().any(|wanted| topic.as_bytes().starts_with(wanted))
}

async fn serve_replays(stream: TcpStream, shared: Arc<Shared>) -> ConnectionEnd {
    let mut peer = match Peer::open(stream, SocketKind::Router).await {
        Ok(peer) => peer,
        Err(end) => return end,
    };
    loop {
        let done = match peer.receive().await {
            Ok(message) => replay(&mut peer, &shared, &message).await,
            Err(end) => Err(end),
        };
        if let Err(end) = done {
            return end;
        }
        peer.await_question();
    }
}

/// Answers `["", first]` with `["", topic, number, batch]` each, and `["", "", -1, ""]`.
async fn replay(peer: &mut Peer, shared: &Shared, message: &[Bytes]) -> Result<(), ConnectionEnd> {
    let Some(first) = message.last().and_then(|frame| read_sequence(frame)) else { return Ok(()) };
    let batches = {
        let replay = shared.replay.lock().unwrap_or_else(PoisonError::into_inner);
        replay.since(first)
    };
    let mut bytes = Vec::new();
    for (number, batch) in batches {
        bytes.clear();
        let number = write_sequence(number);
        write_message(&mut bytes, &[b"", shared.topic.as_bytes(), &number, &batch]);
        peer.write(&bytes).await?;
    }
    bytes.clear();
    write_message(&mut bytes, &[b"", b"", &write_sequence(REPLAY_END), b""]);
    peer.write(&bytes).await
}
