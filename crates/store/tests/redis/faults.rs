//! Whatever befalls Redis, the store says so, and finds back by itself.

use overdraft_core::fleet::Share;
use overdraft_store::{Fault, Store};

use crate::server::{Redis, free_port};
use crate::{OUT, WORKER, busy, in_time, open, say, say_to};

/// One round of what a gateway's task does.
async fn round(store: &mut Store) -> Result<(), Fault> {
    let share = Share { requests: 1, prompt_tokens: 1, tokens: 1 };
    let read = store.board_version().await.map(drop);
    let told = store.board_report(WORKER, OUT).await.map(drop);
    let shared = store.exchange_shares(&busy(&[(WORKER, share)])).await.map(drop);
    read.and(told).and(shared)
}

/// Goes on until the store is degraded for this reason.
async fn until_degraded(store: &mut Store, why: Fault) {
    let counted = |store: &Store| {
        let status = store.status();
        status.is_degraded() && status.faults().any(|(fault, count)| fault == why && 0 < count)
    };
    let waited = async {
        while !counted(store) {
            let _: Result<(), Fault> = round(store).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::PATIENCE, waited).await.unwrap_or_else(|_| {
        let seen: Vec<_> = store.status().faults().filter(|(_, count)| 0 < *count).collect();
        panic!("it never was {why:?}: {seen:?}")
    });
}

async fn until_back(store: &mut Store) {
    let waited = async {
        while round(store).await.is_err() || store.status().is_degraded() {
            tokio::task::yield_now().await;
        }
    };
    in_time(waited).await;
}

async fn well() -> (Redis, Store) {
    let redis = Redis::start(&[]);
    let mut store = open(&redis.url());
    round(&mut store).await.unwrap();
    assert!(!store.status().is_degraded());
    (redis, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn down_at_the_start_and_there_later() {
    let port = free_port();
    let mut store = open(&format!("redis://127.0.0.1:{port}"));
    until_degraded(&mut store, Fault::Unreachable).await;
    until_degraded(&mut store, Fault::Fused).await;
    let _redis = Redis::start_at(port, &[]).expect("the port is still free");
    until_back(&mut store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_started_again() {
    let (mut redis, mut store) = well().await;
    redis.kill();
    until_degraded(&mut store, Fault::Unreachable).await;
    let _redis = Redis::start_at(redis.port, &[]).expect("the port is still free");
    until_back(&mut store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_and_going_on() {
    let (redis, mut store) = well().await;
    redis.freeze();
    until_degraded(&mut store, Fault::Timeout).await;
    until_degraded(&mut store, Fault::Fused).await;
    // Nothing is sent now, so this costs nothing.
    let fused = |store: &Store| {
        let status = store.status();
        status.faults().find_map(|(fault, count)| (fault == Fault::Timeout).then_some(count))
    };
    let before = fused(&store);
    assert_eq!(store.board_version().await, Err(Fault::Fused));
    assert_eq!(fused(&store), before);
    redis.thaw();
    until_back(&mut store).await;
}

// Faults: 58
#[tokio::test(flavor = "multi_thread")]
async fn full_it_is_still_read() {
    let (redis, mut store) = well().await;
    say(&redis, &["CONFIG", "SET", "maxmemory", "1"]).await;
    until_degraded(&mut store, Fault::Full).await;
    assert!(store.board_version().await.is_ok());
    say(&redis, &["CONFIG", "SET", "maxmemory", "0"]).await;
    until_back(&mut store).await;
}

// Faults: 59
#[tokio::test(flavor = "multi_thread")]
async fn with_another_password() {
    let (redis, mut store) = well().await;
    say(&redis, &["CONFIG", "SET", "requirepass", "other"]).await;
    let url = format!("redis://:other@127.0.0.1:{}", redis.port);
    say_to(&url, &["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
    until_degraded(&mut store, Fault::Password).await;
    say_to(&url, &["CONFIG", "SET", "requirepass", ""]).await.unwrap();
    until_back(&mut store).await;
}

// Faults: 59
#[tokio::test(flavor = "multi_thread")]
async fn with_a_user_of_its_own_and_one_who_may_not() {
    let redis = Redis::start(&[]);
    say(&redis, &["ACL", "SETUSER", "gate", "on", ">s3cret", "~overdraft:*", "+@all"]).await;
    let url = format!("redis://gate:s3cret@127.0.0.1:{}", redis.port);
    let mut store = open(&url);
    round(&mut store).await.unwrap();
    say(&redis, &["ACL", "SETUSER", "gate", "-evalsha", "-eval"]).await;
    until_degraded(&mut store, Fault::Forbidden).await;
    say(&redis, &["ACL", "SETUSER", "gate", "+@all"]).await;
    until_back(&mut store).await;
    let mut stranger = open(&format!("redis://gate:wrong@127.0.0.1:{}", redis.port));
    assert_eq!(stranger.ping().await, Err(Fault::Password));
    assert!(!Fault::Password.to_string().contains("wrong"));
}

// Faults: 60
#[tokio::test(flavor = "multi_thread")]
async fn wiped_with_its_scripts() {
    let (redis, mut store) = well().await;
    say(&redis, &["FLUSHALL"]).await;
    say(&redis, &["SCRIPT", "FLUSH"]).await;
    round(&mut store).await.unwrap();
    assert!(!store.status().is_degraded());
    let records = store.board_read(&[WORKER]).await.unwrap();
    assert!(records[0].is_some_and(|record| record.open_for.is_some()));
}

// Faults: 60
#[tokio::test(flavor = "multi_thread")]
async fn read_only_and_a_primary_again() {
    let (redis, mut store) = well().await;
    say(&redis, &["REPLICAOF", "127.0.0.1", "1"]).await;
    until_degraded(&mut store, Fault::ReadOnly).await;
    say(&redis, &["REPLICAOF", "NO", "ONE"]).await;
    until_back(&mut store).await;
}

// Faults: 57
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_under_our_keys_is_thrown_away() {
    let (redis, mut store) = well().await;
    let record = format!("overdraft:{{tests}}:1:board:{WORKER:016x}");
    let (version, shares) = ("overdraft:{tests}:1:version", "overdraft:{tests}:1:shares");
    for key in [record.as_str(), version, shares] {
        say(&redis, &["DEL", key]).await;
        say(&redis, &["LPUSH", key, "x"]).await;
    }
    until_back(&mut store).await;
    assert!(3 <= store.status().mended());
    say(&redis, &["HSET", &record, "until", "soon", "version", "new"]).await;
    say(&redis, &["HSET", shares, "somebody", "anything"]).await;
    say(&redis, &["HSET", shares, "other", "99999999999999|zz 1"]).await;
    say(&redis, &["SET", version, "many"]).await;
    let before = store.status().mended();
    until_back(&mut store).await;
    assert!(before + 3 <= store.status().mended());
    let records = store.board_read(&[WORKER]).await.unwrap();
    assert!(records[0].is_some_and(|record| record.open_for.is_some()));
}
