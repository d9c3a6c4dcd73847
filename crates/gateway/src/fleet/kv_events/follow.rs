//! KV event subscription: gets every batch in order, through gaps, reconnects and restarts.
//!
//! Each run of a publisher numbers its batches from zero. On a new connection, and on a gap in the
//! sequence numbers, the subscriber asks the replay socket for the missing batches. The replay
//! begins with the last batch that we have: if the publisher returns it unchanged, it is the same
//! run; if not, the publisher restarted, however high its numbers are by now.
//!
//! A topic that was typed in may be wrong, and a subscription to a wrong one is silent for ever. Until a
//! message has come under it, nothing is taken from the replay socket, so that nobody believes in a cache
//! of which no change would be heard.
//!
//! **Invariant:** a replay is bounded in time and number; after one that does not close the gap,
//! the worker's entries are forgotten and the subscription goes on.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use bytes::Bytes;
use overdraft_wire::kv_events::{
    REPLAY_END, Sequence, Source, decode, read_sequence, write_sequence,
};
use overdraft_wire::zmtp::{SocketKind, cancellation, subscription, write_message};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::link::{Link, LinkError};
use super::{Note, Sink};

/// The first pause before reconnecting; it doubles each time, ...
pub const RETRY_FIRST: Duration = Duration::from_millis(100);
/// ... up to this.
pub const RETRY_MAX: Duration = Duration::from_secs(10);

/// How long one replay may take, from connecting to its end.
pub const REPLAY_TIMEOUT: Duration = Duration::from_secs(10);

/// Most batches taken from one replay; vLLM keeps 10,000.
pub const REPLAY_BATCHES_MAX: usize = 100_000;

/// Bytes of a topic that is not ours that a complaint shows.
const TOPIC_SHOWN_MAX: usize = 128;

/// Time after which a new subscription has certainly reached the publisher; batches published
/// before that are then replayed once more, because no later batch may reveal the gap.
const SETTLE: Duration = Duration::from_secs(1);

/// Whose word the topic of a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The publisher's own.
    Told,
    /// That of whoever configured it.
    Configured,
}

/// Follows a publisher for ever: until dropped.
pub async fn follow(source: Source, topic: Topic, sink: impl Sink) -> Infallible {
    let mut follower = Follower {
        is_proven: topic == Topic::Told || source.topic.is_empty(),
        source,
        sink,
        sequence: Sequence::new(),
        last: None,
        heard: None,
        place: Place::Fresh,
        complaint: String::new(),
    };
    let mut pause = RETRY_FIRST;
    loop {
        let (met, error) = follower.session().await;
        follower.sink.note(Note::Disconnected);
        if met {
            pause = RETRY_FIRST;
        }
        follower.complain(&error.to_string());
        sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

struct Follower<S> {
    source: Source,
    /// Whether messages are known to come under the topic.
    is_proven: bool,
    sink: S,
    sequence: Sequence,
    /// Number and hash of the last batch: a publisher that still has it has not restarted.
    last: Option<(u64, u64)>,
    /// The highest number heard from the subscription; in one life they only rise.
    heard: Option<u64>,
    place: Place,
    /// What was logged last; it is logged again only when it changes.
    complaint: String,
}

/// Whether we know where in a publisher's life we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nothing was heard yet.
    Fresh,
    /// We lost it, and the sink knows.
    Lost,
    /// We do.
    Joined,
}

impl<S: Sink> Follower<S> {
    /// One connection; whether it came about, and why it ended.
    async fn session(&mut self) -> (bool, LinkError) {
        let mut link = match Link::open(&self.source.endpoint, SocketKind::Subscriber).await {
            Ok(link) => link,
            Err(error) => return (false, error),
        };
        self.sink.note(Note::Connected);
        self.complaint.clear();
        // Everything, to see under which topic it publishes.
        let mut hears_all = !self.is_proven;
        if let Err(error) = self.subscribe(&mut link).await {
            return (true, error);
        }
        self.resume().await;
        let settled = Instant::now() + SETTLE;
        let mut settling = true;
        loop {
            if hears_all && self.is_proven {
                hears_all = false;
                if let Err(error) = link.send(&cancellation("")).await {
                    return (true, error);
                }
            }
            let received = tokio::select! {
                received = link.receive() => Some(received),
                () = sleep_until(settled), if settling => None,
            };
            match received {
                None => {
                    settling = false;
                    self.catch_up().await;
                }
                Some(Ok(message)) => self.hear(&message).await,
                Some(Err(error)) => return (true, error),
            }
        }
    }

    async fn subscribe(&self, link: &mut Link) -> Result<(), LinkError> {
        link.send(&subscription(&self.source.topic)).await?;
        if self.is_proven { Ok(()) } else { link.send(&subscription("")).await }
    }

    /// After a connection came about: is it who we knew, and what did we miss?
    async fn resume(&mut self) {
        self.heard = None;
        if !self.catch_up().await && self.place == Place::Joined {
            // Nobody can say what happened meanwhile.
            self.lose();
        }
    }

    /// Takes in a message of the subscription.
    async fn hear(&mut self, message: &[Bytes]) {
        let Some((number, payload)) = parts(message) else {
            self.sink.note(Note::Undecodable);
            return self.complain("a message without number and batch");
        };
        let was_proven = self.is_proven;
        if !self.is_ours(message) {
            return;
        }
        if !was_proven {
            self.catch_up().await;
        }
        if self.heard.is_some_and(|heard| number <= heard) {
            // Numbers rise within a life: this is another.
            self.lose();
        }
        self.heard = Some(number);
        if number > self.sequence.next() {
            self.sink.note(Note::Gap);
            self.catch_up().await;
        }
        self.take(number, payload);
    }

    /// Asks for what was published since the last batch we have; whether there was an answer.
    async fn catch_up(&mut self) -> bool {
        if self.source.replay_endpoint.is_none() {
            return false;
        }
        if let Some((last, hash)) = self.last {
            match self.replay(last, Some(hash)).await {
                Ok(true) => return true,
                // It does not have what we have: another life.
                Ok(false) => self.lose(),
                Err(error) => {
                    self.complain(&error.to_string());
                    return false;
                }
            }
        }
        if let Err(error) = self.replay(0, None).await {
            self.complain(&error.to_string());
            return false;
        }
        if self.place != Place::Joined && self.is_proven {
            // Nothing was published yet: it holds nothing.
            self.begin();
        }
        true
    }

    /// Whether a message is of the publisher that we follow; the first one that is proves the topic.
    fn is_ours(&mut self, message: &[Bytes]) -> bool {
        // Replays of older releases have none.
        let [.., topic, _, _] = message else { return self.is_proven };
        if topic.starts_with(self.source.topic.as_bytes()) {
            self.is_proven = true;
            return true;
        }
        if !self.is_proven && !topic.is_empty() {
            let topic = String::from_utf8_lossy(&topic[..topic.len().min(TOPIC_SHOWN_MAX)]);
            self.complain(&format!(
                "it publishes under the topic `{topic}`; expected `{}`",
                self.source.topic
            ));
        }
        self.is_proven && topic.is_empty()
    }

    /// Takes in all batches from `first` on. With the hash of that one, whether it came back as it
    /// was; if it did not, nothing is taken.
    async fn replay(&mut self, first: u64, known: Option<u64>) -> Result<bool, LinkError> {
        let replaying = self.replay_all(first, known);
        // An end in the middle leaves a gap, which the next batch shows.
        timeout(REPLAY_TIMEOUT, replaying).await.map_err(|_| LinkError::Slow(REPLAY_TIMEOUT))?
    }

    async fn replay_all(&mut self, first: u64, known: Option<u64>) -> Result<bool, LinkError> {
        let Some(endpoint) = &self.source.replay_endpoint else { return Ok(false) };
        let mut link = Link::open(endpoint, SocketKind::Dealer).await?;
        let mut request = Vec::new();
        write_message(&mut request, &[b"", &write_sequence(first)]);
        link.send(&request).await?;
        let mut is_known = known.is_none();
        for _ in 0..REPLAY_BATCHES_MAX {
            let message = link.receive().await?;
            match parts(&message) {
                None | Some((REPLAY_END, _)) => break,
                Some(_) if !self.is_ours(&message) => {}
                Some((number, payload)) if !is_known => {
                    is_known = number == first && known == Some(hash(payload));
                    if !is_known {
                        break;
                    }
                }
                Some((number, payload)) => self.take(number, payload),
            }
        }
        Ok(is_known)
    }

    /// Takes in a batch, whatever may be missing before it.
    fn take(&mut self, number: u64, payload: &[u8]) {
        match self.place {
            // A replay brought it already.
            Place::Joined if number < self.sequence.next() => return,
            Place::Joined if number > self.sequence.next() => self.sink.forgotten(),
            Place::Joined => {}
            _ if number == 0 => self.begin(),
            Place::Fresh => self.sink.forgotten(),
            Place::Lost => {}
        }
        self.place = Place::Joined;
        self.sequence.skip(number + 1);
        self.last = Some((number, hash(payload)));
        match decode(payload) {
            Ok(batch) => self.sink.batch(batch),
            Err(error) => {
                // The same bytes would come again: it is missing for good.
                self.sink.note(Note::Undecodable);
                self.sink.forgotten();
                self.complain(&error.to_string());
            }
        }
    }

    /// A life begins.
    fn begin(&mut self) {
        self.sequence = Sequence::new();
        self.last = None;
        self.place = Place::Joined;
        self.sink.restarted();
    }

    /// We do not know where in whose life we are.
    fn lose(&mut self) {
        self.sequence = Sequence::new();
        self.last = None;
        self.place = Place::Lost;
        self.sink.forgotten();
    }

    fn complain(&mut self, complaint: &str) {
        if self.complaint != complaint {
            tracing::warn!(
                endpoint = self.source.endpoint,
                complaint,
                "KV events are not followed"
            );
            complaint.clone_into(&mut self.complaint);
        }
    }
}

/// Number and batch of a message; before them stand a topic and, in replays, an empty frame.
fn parts(message: &[Bytes]) -> Option<(u64, &[u8])> {
    let [.., number, payload] = message else { return None };
    Some((read_sequence(number)?, payload))
}

fn hash(payload: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    payload.hash(&mut hasher);
    hasher.finish()
}
