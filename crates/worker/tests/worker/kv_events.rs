//! What a worker publishes of its cache, read with sockets of our own.

use std::time::Duration;

use bytes::Bytes;
use overdraft_engine::EchoSettings;
use overdraft_units::{Blocks, TokenId};
use overdraft_wire::kv_events::{
    Batch, ExtraKeys, KvEvent, REPLAY_END, SaltText, Source, Stored, decode, read_sequence,
    read_sources, write_sequence,
};
use overdraft_wire::zmtp::{Reader, SocketKind, opening, subscription, write_message};
use overdraft_worker::KvEventsSettings;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{Running, small_echo};

/// A wait that ends with a failure rather than never.
const PATIENCE: Duration = Duration::from_mins(1);

/// One side of a `ZeroMQ` connection.
struct Socket {
    stream: TcpStream,
    reader: Reader,
}

impl Socket {
    async fn connect(endpoint: &str, kind: SocketKind) -> Self {
        let address = endpoint.strip_prefix("tcp://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&opening(kind)).await.unwrap();
        Self { stream, reader: Reader::new(kind) }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn receive(&mut self) -> Vec<Bytes> {
        loop {
            if let Some(message) = self.reader.next_message().unwrap() {
                return message;
            }
            let reading = self.stream.read_buf(self.reader.buffer());
            let read = timeout(PATIENCE, reading).await.expect("a message comes").unwrap();
            assert_ne!(read, 0, "the worker closed the connection");
        }
    }
}

/// All batches from `first` on that the worker still has.
async fn replay(source: &Source, first: u64) -> Vec<(u64, Batch)> {
    let mut socket =
        Socket::connect(source.replay_endpoint.as_ref().unwrap(), SocketKind::Dealer).await;
    let mut request = Vec::new();
    write_message(&mut request, &[b"", &write_sequence(first)]);
    socket.send(&request).await;
    let mut batches = Vec::new();
    loop {
        let message = socket.receive().await;
        let [empty, topic, number, payload] = &*message else { panic!("{message:?}") };
        assert!(empty.is_empty());
        match read_sequence(number).unwrap() {
            REPLAY_END => return batches,
            number => {
                assert_eq!(topic, source.topic.as_bytes());
                batches.push((number, decode(payload).unwrap()));
            }
        }
    }
}

async fn publishing(echo: EchoSettings, settings: KvEventsSettings) -> (Running, Source) {
    let worker = Running::start_publishing(echo, |_| {}, |_| {}, Some(settings)).await;
    let answer = worker.get("/kv_event_sources").await;
    assert_eq!(answer.status, 200);
    let mut sources = read_sources(answer.body.as_bytes()).unwrap();
    (worker, sources.remove(0))
}

fn stored(batches: &[(u64, Batch)]) -> Vec<&Stored> {
    let events = batches.iter().flat_map(|(_, batch)| &batch.events);
    events
        .filter_map(|event| match event {
            KvEvent::Stored(stored) => Some(stored),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_worker_that_publishes_nothing_says_so() {
    let worker = Running::echo().await;
    let answer = worker.get("/kv_event_sources").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "[]"));
}

#[tokio::test]
async fn subscribers_and_replays_are_told_what_the_cache_holds() {
    let settings = KvEventsSettings { topic: "kv@echo".to_owned(), ..KvEventsSettings::loopback() };
    let (worker, source) = publishing(small_echo(), settings).await;
    assert_eq!((source.topic.as_str(), source.data_parallel_rank), ("kv@echo", 0));
    assert!(source.endpoint.starts_with("tcp://127.0.0.1:") && !source.endpoint.ends_with(":0"));
    let mut subscriber = Socket::connect(&source.endpoint, SocketKind::Subscriber).await;
    subscriber.send(&subscription("kv@")).await;

    let prompt = "forty letters of a prompt, more or less.";
    let tokens = worker.post("/tokenize", &json!({ "prompt": prompt })).await.json();
    let tokens: Vec<TokenId> = serde_json::from_value::<Vec<u32>>(tokens["tokens"].clone())
        .unwrap()
        .into_iter()
        .map(TokenId)
        .collect();
    let body = json!({ "prompt": prompt, "max_tokens": 1, "cache_salt": "mine" });
    assert_eq!(worker.complete(&body).await.status, 200);
    // The answer may be here before its batch is.
    let mut batches = replay(&source, 0).await;
    while batches.is_empty() {
        batches = replay(&source, 0).await;
    }
    assert!(batches.iter().map(|(number, _)| *number).eq(0..batches.len() as u64));
    let all = stored(&batches);
    let size = all[0].block_size as usize;
    assert_eq!(all[0].tokens[..], tokens[..tokens.len() / size * size][..all[0].tokens.len()]);
    assert_eq!(all[0].parent, None);
    assert_eq!(all[0].extra, [ExtraKeys::Salt(SaltText::new("mine"))]);
    assert_eq!(all[0].medium.as_deref(), Some("GPU"));
    let last = batches.last().unwrap().0;
    assert!(replay(&source, last + 1).await.is_empty());

    // The subscription may have come after the first batches; it has come once one is heard.
    let heard = async {
        for attempt in 0_u32.. {
            let body = json!({ "prompt": format!("{attempt} {prompt}"), "max_tokens": 1 });
            assert_eq!(worker.complete(&body).await.status, 200);
            let receiving = timeout(Duration::from_millis(200), subscriber.receive()).await;
            if let Ok(message) = receiving {
                return message;
            }
        }
        unreachable!("somebody always has patience")
    };
    let message = timeout(PATIENCE, heard).await.expect("a batch is heard");
    let [topic, number, payload] = &*message else { panic!("{message:?}") };
    assert_eq!(topic, b"kv@echo".as_slice());
    let number = read_sequence(number).unwrap();
    let again = replay(&source, number).await;
    assert_eq!(again[0], (number, decode(payload).unwrap()));
}

#[tokio::test]
async fn what_is_evicted_is_told_and_only_the_last_batches_are_kept() {
    let settings = KvEventsSettings { buffer_steps: 4, ..KvEventsSettings::loopback() };
    let echo = EchoSettings { blocks: Blocks::new(34), ..small_echo() };
    let (worker, source) = publishing(echo, settings).await;
    for number in 0..12 {
        let prompt = format!("{number} {}", "x".repeat(300));
        let body = json!({ "prompt": prompt, "max_tokens": 1 });
        assert_eq!(worker.complete(&body).await.status, 200);
    }
    let batches = replay(&source, 0).await;
    assert_eq!(batches.len(), 4);
    let removed = |event: &KvEvent| matches!(event, KvEvent::Removed(_));
    assert!(batches.iter().any(|(_, batch)| batch.events.iter().any(removed)));
}

#[tokio::test]
async fn peers_that_talk_nonsense_are_left_alone() {
    let (worker, source) = publishing(small_echo(), KvEventsSettings::loopback()).await;
    for endpoint in [&source.endpoint, source.replay_endpoint.as_ref().unwrap()] {
        let mut stream =
            TcpStream::connect(endpoint.strip_prefix("tcp://").unwrap()).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut rest = Vec::new();
        let closed = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        // It may be closed with some of our bytes unread, which resets it.
        let _ends = closed.expect("the worker closes it");
    }
    assert_eq!(worker.get("/health").await.status, 200);
    assert!(replay(&source, 0).await.is_empty());
}
