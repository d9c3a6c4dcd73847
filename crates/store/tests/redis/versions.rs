//! Gateways of different versions on one Redis: each reads what an older one wrote, and leaves what a newer one added.
//!
//! What the others write is written here as bytes, and never changes: a release that no longer reads it cannot be rolled out beside it.

use std::num::NonZeroU32;
use std::time::Duration;

use overdraft_store::{Extent, Limits, Need};
use overdraft_units::{Instant, Micros};
use redis::Value;

use crate::server::Redis;
use crate::{OUT, WORKER, busy, open, say};

const BOARD: &str = "overdraft:{tests}:1:board:0000000000c0ffee";
const SHARES: &str = "overdraft:{tests}:1:shares";

/// The clock of the server plus so many milliseconds, as records name times.
async fn later(redis: &Redis, milliseconds: i64) -> String {
    let Value::Array(parts) = say(redis, &["TIME"]).await else { panic!("two numbers") };
    let number = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).parse::<i64>().unwrap(),
        other => panic!("{other:?}"),
    };
    (number(&parts[0]) * 1_000 + number(&parts[1]) / 1_000 + milliseconds).to_string()
}

async fn field(redis: &Redis, key: &str, name: &str) -> Option<String> {
    match say(redis, &["HGET", key, name]).await {
        Value::BulkString(bytes) => Some(String::from_utf8(bytes).unwrap()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_that_another_version_opened_is_open_and_keeps_what_it_added() {
    let redis = Redis::start(&[]);
    let until = later(&redis, 60_000).await;
    // An older one knew of no trial's owner; a newer one adds a reason.
    for added in [None, Some(("reason", "stalled"))] {
        say(&redis, &["DEL", BOARD]).await;
        say(&redis, &["HSET", BOARD, "until", &until, "streak", "3", "version", "7"]).await;
        if let Some((name, value)) = added {
            say(&redis, &["HSET", BOARD, name, value]).await;
        }
        let mut store = open(&redis.url());
        let record = store.board_read(&[WORKER]).await.unwrap()[0].expect("it is there");
        assert_eq!((record.streak, record.version), (3, 7));
        assert!(Duration::from_secs(30) < record.open_for.expect("it is open"));
        let stands = store.board_report(WORKER, OUT).await.unwrap().unwrap();
        assert_eq!(stands.streak, 3, "who opened it first says for how long");
        let closed = overdraft_store::Verdict { open_for: None, streak: 3 };
        store.board_report(WORKER, closed).await.unwrap();
        assert_eq!(field(&redis, BOARD, "until").await.as_deref(), Some("0"));
        if let Some((name, value)) = added {
            assert_eq!(field(&redis, BOARD, name).await.as_deref(), Some(value), "it is kept");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn load_that_another_version_tells_of_is_counted() {
    let redis = Redis::start(&[]);
    let holds = later(&redis, 60_000).await;
    let tell = |who: &'static str, share: &'static str| {
        let words = format!("{holds}|{share}");
        async move { (who, words) }
    };
    // As version 0.1 writes it; and a newer one that adds a number to each worker.
    for (who, words) in
        [tell("older", "c0ffee 2 100 200;").await, tell("newer", "c0ffee 3 100 200 9;").await]
    {
        say(&redis, &["HSET", SHARES, who, &words]).await;
    }
    let mut store = open(&redis.url());
    let heard = store.exchange_shares(&busy(&[])).await.unwrap();
    assert_eq!(heard.gateways, 3);
    assert_eq!((heard.by_worker[&WORKER].requests, heard.by_worker[&WORKER].tokens), (5, 400));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_another_version_spent_is_spent_and_keeps_what_it_added() {
    let redis = Redis::start(&[]);
    let limits = Limits { requests_per_minute: NonZeroU32::new(100), tokens_per_minute: None };
    let need = Need { requests: 1, tokens: 1, extent: Extent::Limited };
    let now = Instant::ORIGIN + Micros::new(1);
    let bucket = "overdraft:{tests}:1:budget:0000000000000009:r";
    let at = later(&redis, 0).await;
    // In thousandths: all of it.
    say(&redis, &["HSET", bucket, "missing", "100000", "at", &at, "burst", "7"]).await;
    let mut store = open(&redis.url());
    store.exchange_shares(&busy(&[])).await.unwrap();
    assert!(store.budgets().try_spend(9, limits, need, now).is_ok(), "it has not heard of it yet");
    store.exchange_budgets(now).await.unwrap();
    let more = (0..100).filter(|_| store.budgets().try_spend(9, limits, need, now).is_ok()).count();
    assert!(more <= 1, "{more} were spent twice");
    assert_eq!(field(&redis, bucket, "burst").await.as_deref(), Some("7"), "it is kept");
}
