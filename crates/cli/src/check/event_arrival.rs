//! KV event arrival check: whether a worker's events come while it computes, not only whether something listens.
//!
//! A publisher with another topic, or one whose engine has its prefix cache off, accepts every subscriber and says nothing. Only a
//! request that fills a block tells, so this is part of `--measure`.

use overdraft_config::{KvEvents, Worker};
use overdraft_wire::kv_events::read_sources;
use overdraft_wire::zmtp::{Reader, SocketKind, opening, subscription};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::finding::{Finding, Verdict};
use super::preflight::{Answer, place};
use crate::ask::{self, Address, AskError, PATIENCE};

const SUBJECT: &str = "event arrival";

/// A subscriber to one worker's events.
#[derive(Debug)]
pub(super) struct Subscriber {
    endpoint: String,
    topic: String,
    stream: TcpStream,
    reader: Reader,
}

impl Subscriber {
    /// Subscribes where the worker says or the file says; nothing where no single publisher is known, which is told elsewhere. A
    /// publisher that takes no subscriber is a finding.
    pub(super) async fn of(
        worker: &Worker,
        sources: &Answer,
        host: &str,
    ) -> Option<Result<Self, Finding>> {
        let (endpoint, topic) = match &worker.kv_events {
            KvEvents::Off => return None,
            KvEvents::At(source) => (source.endpoint.clone(), source.topic.clone()),
            KvEvents::Auto => {
                let (_, page) = sources.as_ref().ok()?;
                let sources = read_sources(page).ok()?;
                // Of several ranks any may answer the request.
                let [source] = sources.as_slice() else { return None };
                let source = source.reached_by(host);
                (source.endpoint, Some(source.topic))
            }
        };
        let address = place(&endpoint)?;
        let topic = topic.unwrap_or_default();
        let opened = timeout(PATIENCE, Self::open(&address, endpoint.clone(), topic)).await;
        let opened = opened.unwrap_or(Err(AskError::Silent(PATIENCE)));
        Some(opened.map_err(|error| {
            Finding::new(SUBJECT, Verdict::Warn, format!("{endpoint} takes no subscriber: {error}"))
                .hint(
                    "name the `endpoint` of vLLM's `--kv-events-config`, not its `replay_endpoint`",
                )
        }))
    }

    async fn open(address: &Address, endpoint: String, topic: String) -> Result<Self, AskError> {
        let mut stream = ask::connect(address).await?;
        let broken = |error: std::io::Error| AskError::Broken(error.to_string());
        stream.write_all(&opening(SocketKind::Subscriber)).await.map_err(broken)?;
        let mut reader = Reader::new(SocketKind::Subscriber);
        while !reader.is_open() {
            let read = stream.read_buf(reader.buffer()).await.map_err(broken)?;
            let next = reader.next_message();
            if read == 0 || next.is_err() {
                return Err(AskError::Broken("the publisher hangs up".to_owned()));
            }
        }
        // A publisher hangs up on whoever subscribes before it has said what it is.
        stream.write_all(&subscription(&topic)).await.map_err(broken)?;
        Ok(Self { endpoint, topic, stream, reader })
    }

    /// Whether a message came since, or comes soon.
    pub(super) async fn finding(mut self) -> Finding {
        let arriving = async {
            loop {
                if self.reader.next_message().ok()?.is_some() {
                    return Some(());
                }
                let read = self.stream.read_buf(self.reader.buffer()).await;
                if read.unwrap_or(0) == 0 {
                    return None;
                }
            }
        };
        let came = timeout(PATIENCE, arriving).await.ok().flatten();
        if came.is_some() {
            return Finding::new(SUBJECT, Verdict::Ok, "events arrive");
        }
        let Self { endpoint, topic, .. } = self;
        let message =
            format!("{endpoint} sends no events under topic `{topic}` of what was computed");
        Finding::new(SUBJECT, Verdict::Warn, message).hint(
            "compare `kv_events.topic` with the publisher's; vLLM needs `enable_kv_cache_events: true` and its prefix cache on",
        )
    }
}
