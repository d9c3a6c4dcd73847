//! What publishing promises where no engine is needed, one sentence per test.

use std::time::Duration;

use bytes::Bytes;
use overdraft_units::{BlockSize, CacheSalt};
use overdraft_wire::kv_events::{Source, write_sequence};
use overdraft_wire::zmtp::{SocketKind, opening, subscription, write_message};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connections::{CONNECTIONS_MAX, QUESTION_TIMEOUT};
use super::replay::Replay;
use super::salts::Salts;
use super::settings::{KvEventsError, KvEventsSettings};
use super::{KvEvents, KvPublisher};

/// Longer than any deadline here. Where time is paused, a wait for nothing is over at once.
const PATIENCE: Duration = Duration::from_mins(5);

#[test]
fn a_configuration_of_vllm_is_taken() {
    let text = r#"{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:1",
        "replay_endpoint":"tcp://*:2","buffer_steps":3,"hwm":4,"max_queue_size":5,"topic":"kv"}"#;
    let expected = KvEventsSettings {
        endpoint: "tcp://*:1".to_owned(),
        replay_endpoint: Some("tcp://*:2".to_owned()),
        buffer_steps: 3,
        topic: "kv".to_owned(),
    };
    assert_eq!(KvEventsSettings::from_json(text).unwrap(), Some(expected));
    let least = KvEventsSettings::from_json(r#"{"enable_kv_cache_events":true}"#).unwrap();
    assert_eq!(least, Some(KvEventsSettings::at("tcp://*:5557")));
    assert_eq!(least.unwrap().buffer_steps, 10_000);
    for off in [
        "{}",
        r#"{"enable_kv_cache_events":false,"publisher":"zmq"}"#,
        r#"{"enable_kv_cache_events":true,"publisher":"null"}"#,
    ] {
        assert_eq!(KvEventsSettings::from_json(off).unwrap(), None, "{off}");
    }
}

#[test]
fn workers_of_one_process_publish_on_ports_of_their_own() {
    let first = KvEventsSettings {
        replay_endpoint: Some("tcp://127.0.0.1:0".to_owned()),
        ..KvEventsSettings::at("tcp://*:5557")
    };
    let third = first.beside(2).unwrap();
    assert_eq!(third.endpoint, "tcp://*:5559");
    assert_eq!(third.replay_endpoint.as_deref(), Some("tcp://127.0.0.1:0"));
    let none = KvEventsSettings::at("tcp://*:65535").beside(1).unwrap_err().to_string();
    assert!(
        none.contains("`tcp://*:65535`") && none.contains("expected `tcp://host:port`"),
        "{none}"
    );
}

#[track_caller]
fn refuses(text: &str, parts: [&str; 2]) {
    let message = KvEventsSettings::from_json(text).unwrap_err().to_string();
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
}

#[test]
fn a_configuration_that_cannot_work_is_refused_by_name() {
    refuses("[]", ["not a configuration", "JSON object"]);
    refuses(r#"{"enable_kv_cache_events":1}"#, ["enable_kv_cache_events", "true or false"]);
    refuses(r#"{"publisher":"nats"}"#, ["`publisher`", "`zmq`"]);
    refuses(r#"{"endpoint":5557}"#, ["`endpoint`", "a string"]);
    refuses(r#"{"buffer_steps":-1}"#, ["`buffer_steps`", "a number"]);
    refuses(r#"{"bufer_steps":1}"#, ["`bufer_steps`", "no such field"]);
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_listened_on_is_named() {
    for endpoint in ["", "5557", "tcp://5557", "tcp://:1", "tcp://*:x", "ipc:///tmp/x"] {
        let error = super::listen(endpoint).await.unwrap_err();
        assert!(matches!(error, KvEventsError::Endpoint { .. }), "{endpoint}: {error}");
    }
    let (listener, endpoint) = super::listen("tcp://127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_eq!(endpoint, format!("tcp://127.0.0.1:{port}"));
    let error = super::listen(&endpoint).await.unwrap_err();
    assert!(matches!(error, KvEventsError::Taken { .. }), "{error}");
}

#[test]
fn replays_keep_the_newest_within_their_bounds() {
    let mut replay = Replay::new(3);
    for number in [0, 1, 2, 4, 5] {
        replay.push(number, Bytes::from_static(b"batch"));
    }
    let numbers = |from| replay.since(from).iter().map(|(number, _)| *number).collect::<Vec<_>>();
    assert_eq!((numbers(0), numbers(3), numbers(5)), (vec![2, 4, 5], vec![4, 5], vec![5]));
    assert!(numbers(6).is_empty());
    let mut large = Replay::new(1_000);
    for number in 0..5 {
        large.push(number, Bytes::from(vec![0; 30 << 20]));
    }
    assert_eq!(large.since(0).len(), 2);
}

#[test]
fn the_last_salts_are_known_and_the_others_are_no_clients() {
    let salts = Salts::default();
    for number in 0..5_000_u64 {
        salts.note(CacheSalt(number), &format!("salt {number}"));
    }
    assert_eq!(salts.text(CacheSalt(4_999)).as_str(), "salt 4999");
    assert_eq!(salts.text(CacheSalt(1)).as_str(), "\u{0}0000000000000001");
}

async fn publishing() -> (Source, KvPublisher) {
    let block_size = BlockSize::new(16).unwrap();
    let bound = KvEvents::bind(&KvEventsSettings::loopback(), block_size).await;
    let (events, publisher) = bound.unwrap();
    (events.source().clone(), publisher)
}

/// Connections that have said this and nothing else.
async fn connect(endpoint: &str, count: usize, said: &[u8]) -> Vec<TcpStream> {
    let address = endpoint.strip_prefix("tcp://").unwrap();
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said).await.unwrap();
        streams.push(stream);
    }
    streams
}

/// Whether one more connection is greeted.
async fn is_served(endpoint: &str) -> bool {
    is_served_within(PATIENCE, endpoint).await
}

async fn is_served_within(patience: Duration, endpoint: &str) -> bool {
    let mut streams = connect(endpoint, 1, b"").await;
    let greeting = streams[0].read_u8();
    timeout(patience, greeting).await.is_ok_and(|first| first.unwrap() == 0xff)
}

#[tokio::test(start_paused = true)]
async fn connections_that_say_nothing_make_room_for_others() {
    let (source, publisher) = publishing().await;
    let serving = async {
        let replays = source.replay_endpoint.as_ref().unwrap();
        for endpoint in [&source.endpoint, replays] {
            let silent = connect(endpoint, CONNECTIONS_MAX, b"").await;
            assert!(is_served(endpoint).await, "{endpoint}");
            drop(silent);
        }
    };
    publisher.beside(serving).await;
}

#[tokio::test(start_paused = true)]
async fn replays_take_no_place_from_subscribers() {
    let (source, publisher) = publishing().await;
    let serving = async {
        let replays = source.replay_endpoint.as_ref().unwrap();
        let asking = connect(replays, CONNECTIONS_MAX, &opening(SocketKind::Dealer)).await;
        let taken = !is_served_within(QUESTION_TIMEOUT / 2, replays).await;
        assert!(taken, "all of its places are taken");
        assert!(is_served(&source.endpoint).await);
        drop(asking);
    };
    publisher.beside(serving).await;
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_no_replay_makes_room_for_others() {
    let (source, publisher) = publishing().await;
    let serving = async {
        let replays = source.replay_endpoint.as_ref().unwrap();
        let silent = connect(replays, CONNECTIONS_MAX, &opening(SocketKind::Dealer)).await;
        assert!(is_served(replays).await);
        drop(silent);
    };
    publisher.beside(serving).await;
}

#[tokio::test(start_paused = true)]
async fn each_question_for_a_replay_has_a_deadline_of_its_own() {
    let (source, publisher) = publishing().await;
    let mut question = Vec::new();
    write_message(&mut question, &[b"", &write_sequence(0)]);
    let serving = async {
        let replays = source.replay_endpoint.as_ref().unwrap();
        let mut streams = connect(replays, 1, &opening(SocketKind::Dealer)).await;
        let mut heard = Vec::new();
        // Much longer together than the deadline, and each less.
        for asked in 0..4 {
            streams[0].write_all(&question).await.unwrap();
            let reading = streams[0].read_to_end(&mut heard);
            let ended = timeout(QUESTION_TIMEOUT / 2, reading).await;
            assert!(ended.is_err(), "it was closed after {asked} questions");
        }
        let ended = timeout(PATIENCE, streams[0].read_to_end(&mut heard)).await;
        assert!(ended.is_ok(), "it has asked for nothing more");
    };
    publisher.beside(serving).await;
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_may_be_silent_once_it_has_subscribed() {
    let (source, publisher) = publishing().await;
    let greeted = opening(SocketKind::Subscriber);
    let subscribed = [greeted.as_slice(), subscription("").as_slice()].concat();
    let serving = async {
        for (said, stays) in [(greeted, false), (subscribed, true)] {
            let mut streams = connect(&source.endpoint, 1, &said).await;
            let mut heard = Vec::new();
            let ended = timeout(PATIENCE, streams[0].read_to_end(&mut heard)).await;
            assert_eq!(ended.is_err(), stays);
        }
    };
    publisher.beside(serving).await;
}
