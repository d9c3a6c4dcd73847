//! KV event publisher: tells subscribers which blocks the engine's cache stores and evicts.
//!
//! It publishes as vLLM does: batches of events over `ZeroMQ`, numbered from zero, and a second
//! socket that replays the last ones. A gateway builds its prefix index from them. The engine's
//! thread hands changes over without waiting; when the queue is full, some are lost, and the lost
//! batch's number with them, so that subscribers see the gap.
//!
//! **Invariant:** the numbered batches of subscription and replay are exactly the changes of the
//! cache; a missing number stands for all lost changes.

mod connections;
mod observer;
mod publisher;
mod replay;
mod salts;
mod settings;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use overdraft_engine::{CacheChanges, Observer};
use overdraft_units::{BlockSize, CacheSalt};
use overdraft_wire::kv_events::Source;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use self::observer::CacheObserver;
pub use self::publisher::KvPublisher;
use self::salts::Salts;
pub use self::settings::{KvEventsError, KvEventsSettings};

/// Steps whose changes may wait to be published.
const QUEUE_MAX: usize = 1_024;

/// The events of one engine, as the rest of the worker sees them; clones are the same ones.
#[derive(Clone, Debug)]
pub struct KvEvents {
    source: Source,
    salts: Arc<Salts>,
    changes: mpsc::Sender<Vec<CacheChanges>>,
}

impl KvEvents {
    /// Takes the addresses; whoever starts the engine with [`Self::observer`] and runs the publisher
    /// publishes.
    ///
    /// # Errors
    /// [`KvEventsError`] where an address is none, or is taken.
    pub async fn bind(
        settings: &KvEventsSettings,
        block_size: BlockSize,
    ) -> Result<(Self, KvPublisher), KvEventsError> {
        let (subscribers, endpoint) = listen(&settings.endpoint).await?;
        let (replays, replay_endpoint) = match &settings.replay_endpoint {
            None => (None, None),
            Some(endpoint) => {
                let (listener, endpoint) = listen(endpoint).await?;
                (Some(listener), Some(endpoint))
            }
        };
        let (sender, changes) = mpsc::channel(QUEUE_MAX);
        let topic = settings.topic.clone();
        let source = Source { data_parallel_rank: 0, endpoint, replay_endpoint, topic };
        let salts = Arc::new(Salts::default());
        let events = Self { source, salts: Arc::clone(&salts), changes: sender };
        let publisher =
            KvPublisher::new(settings, block_size, subscribers, replays, changes, salts);
        Ok((events, publisher))
    }

    /// What the engine is to be started with: tells the publisher of the cache, and `inner` of
    /// everything else.
    pub fn observer(&self, inner: Box<dyn Observer>) -> Box<dyn Observer> {
        Box::new(CacheObserver::new(inner, self.changes.clone()))
    }

    /// Where the events come from, with the ports that were taken.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Remembers which text a salt stands for: the cache knows only the salt, and a gateway only the
    /// text.
    pub(crate) fn note_salt(&self, salt: CacheSalt, text: &str) {
        self.salts.note(salt, text);
    }
}

/// Listens on `tcp://host:port`; `*` is every address. The endpoint comes back with the port taken.
async fn listen(endpoint: &str) -> Result<(TcpListener, String), KvEventsError> {
    let malformed = || KvEventsError::Endpoint { endpoint: endpoint.to_owned() };
    let address = endpoint.strip_prefix("tcp://").ok_or_else(malformed)?;
    let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
    let port: u16 = port.parse().map_err(|_| malformed())?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let taken = |error| KvEventsError::Taken { endpoint: endpoint.to_owned(), error };
    let listener = match bare {
        "*" => TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], port))).await,
        "" => return Err(malformed()),
        host => TcpListener::bind((host, port)).await,
    };
    let listener = listener.map_err(taken)?;
    let port = listener.local_addr().map_err(taken)?.port();
    Ok((listener, format!("tcp://{host}:{port}")))
}
