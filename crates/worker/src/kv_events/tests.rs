//! What publishing promises where no socket is needed, one sentence per test.

use bytes::Bytes;
use overdraft_units::CacheSalt;

use super::replay::Replay;
use super::salts::Salts;
use super::settings::{KvEventsError, KvEventsSettings};

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
