//! Answers at the store: what is found, what is as good as absent, and what a broken Redis costs.

use std::time::Duration;

use overdraft_store::{
    Fault, LOOKUP_MAX, Looked, Name, Place, ResponseStore, Scope, Secret, StoreSettings, Ticket,
    Unusable,
};
use redis::Value;
use tokio::io::AsyncWriteExt;

use crate::server::{Redis, free_port};
use crate::{in_time, say, settings};

const NAME: Name = Name { key: [1; 32], tenant: [2; 32], model: [3; 32] };
const LIFE: Duration = Duration::from_mins(1);

fn response_store(url: &str) -> ResponseStore {
    sealed(url, None)
}

fn sealed(url: &str, secret: Option<&str>) -> ResponseStore {
    ResponseStore::open(&settings(url), secret.map(Secret::new), 1_000).unwrap().unwrap()
}

fn entry_key() -> String {
    format!("overdraft:cache:1:tests:{}", "01".repeat(32))
}

async fn look(response_store: &ResponseStore, name: &Name) -> (Option<String>, Ticket) {
    match in_time(response_store.get(name)).await.unwrap() {
        Looked::Found(entry, ticket) => (Some(String::from_utf8(entry).unwrap()), ticket),
        Looked::Missing(ticket) => (None, ticket),
    }
}

async fn found(response_store: &ResponseStore, name: &Name) -> Option<String> {
    look(response_store, name).await.0
}

async fn put(response_store: &ResponseStore, name: &Name, entry: &str) {
    let (_, ticket) = look(response_store, name).await;
    in_time(response_store.put(name, ticket, entry.as_bytes(), LIFE)).await.unwrap();
}

fn unusable(response_store: &ResponseStore, why: Unusable) -> u64 {
    response_store.status().unusable().find(|(known, _)| *known == why).unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_there_is_found_by_its_name_alone_until_its_time_is_over() {
    let redis = Redis::start(&[]);
    let (one, other) = (response_store(&redis.url()), response_store(&redis.url()));
    assert_eq!(found(&one, &NAME).await, None);
    put(&one, &NAME, "an answer").await;
    assert_eq!(found(&other, &NAME).await.as_deref(), Some("an answer"));
    assert_eq!(found(&other, &Name { key: [9; 32], ..NAME }).await, None);
    let Value::Int(left) = say(&redis, &["PTTL", &entry_key()]).await else { panic!("a number") };
    assert!(0 < left && left <= 60_000, "{left}");
    say(&redis, &["DEL", &entry_key()]).await;
    assert_eq!(found(&one, &NAME).await, None);
    assert!(
        ResponseStore::open(&StoreSettings::default(), None, 9).unwrap().is_none(),
        "in memory"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenant_s_entry_under_the_same_key_is_not_found() {
    let redis = Redis::start(&[]);
    let response_store = response_store(&redis.url());
    put(&response_store, &NAME, "an answer").await;
    let other = Name { tenant: [7; 32], ..NAME };
    assert_eq!(found(&response_store, &other).await, None);
    assert_eq!(unusable(&response_store, Unusable::Misplaced), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_takes_what_it_names_for_everybody() {
    let redis = Redis::start(&[]);
    let (one, other) = (response_store(&redis.url()), response_store(&redis.url()));
    let foreign = Name { key: [4; 32], tenant: [5; 32], model: [3; 32] };
    let scopes = [
        (Scope::Tenant([2; 32]), true),
        (Scope::Both([2; 32], [3; 32]), true),
        (Scope::Both([2; 32], [9; 32]), false),
        (Scope::Tenant([9; 32]), false),
    ];
    for (scope, takes) in scopes {
        put(&one, &NAME, "an answer").await;
        put(&one, &foreign, "a foreign one").await;
        let before = in_time(other.purged()).await.unwrap();
        in_time(one.purge(scope)).await.unwrap();
        assert_ne!(in_time(other.purged()).await.unwrap(), before);
        assert_eq!(found(&other, &NAME).await.is_none(), takes, "{scope:?}");
        assert!(found(&other, &foreign).await.is_some(), "{scope:?}");
    }
    for scope in [Scope::Model([3; 32]), Scope::All] {
        put(&one, &NAME, "an answer").await;
        put(&one, &foreign, "a foreign one").await;
        in_time(one.purge(scope)).await.unwrap();
        assert_eq!((found(&other, &NAME).await, found(&other, &foreign).await), (None, None));
    }
    // Whoever began before the purge does not put it back.
    let (_, ticket) = look(&one, &NAME).await;
    in_time(other.purge(Scope::All)).await.unwrap();
    in_time(one.put(&NAME, ticket, b"old", LIFE)).await.unwrap();
    assert_eq!(found(&one, &NAME).await, None);
    // Stamps that were lost take all entries with them.
    put(&one, &NAME, "an answer").await;
    say(&redis, &["DEL", "overdraft:{tests}:1:cache:stamps"]).await;
    assert_eq!(found(&one, &NAME).await, None);
}

// Faults: 57
#[tokio::test(flavor = "multi_thread")]
async fn whatever_else_lies_there_is_as_good_as_absent_and_counted() {
    let redis = Redis::start(&[]);
    let response_store = response_store(&redis.url());
    put(&response_store, &NAME, "an answer").await;
    let key = entry_key();
    say(&redis, &["COPY", &key, "good"]).await;
    let restore = async || {
        say(&redis, &["COPY", "good", &key, "REPLACE"]).await;
    };
    // Garbage, nothing of use, something too long, another version, a cut, a flipped byte.
    let long = "x".repeat(100_000);
    for (words, why) in [
        (
            vec![
                "SET",
                &key,
                "garbage that is long enough to be looked at, and no entry all the same, for it does not begin as entries do",
            ],
            Unusable::Foreign,
        ),
        (vec!["SET", &key, "OD"], Unusable::Short),
        (vec!["SET", &key, &long], Unusable::Foreign),
        (vec!["SETRANGE", &key, "4", "\x07"], Unusable::Foreign),
        (vec!["SETRANGE", &key, "110", "X"], Unusable::Damaged),
        (vec!["APPEND", &key, "more"], Unusable::Damaged),
    ] {
        restore().await;
        say(&redis, &words).await;
        let before = unusable(&response_store, why);
        assert_eq!(found(&response_store, &NAME).await, None, "{why:?}");
        assert_eq!(unusable(&response_store, why), before + 1, "{words:?}");
    }
    // A list.
    say(&redis, &["DEL", &key]).await;
    say(&redis, &["LPUSH", &key, "a"]).await;
    assert_eq!(found(&response_store, &NAME).await, None);
    // And it can be put right again.
    put(&response_store, &NAME, "an answer").await;
    assert_eq!(found(&response_store, &NAME).await.as_deref(), Some("an answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_nobody_reads_it_and_another_secret_finds_nothing() {
    let redis = Redis::start(&[]);
    let (old, new) = (sealed(&redis.url(), Some("old")), sealed(&redis.url(), Some("new")));
    put(&old, &NAME, "an answer").await;
    let Value::BulkString(bytes) = say(&redis, &["GET", &entry_key()]).await else {
        panic!("it is there")
    };
    assert!(!bytes.windows(6).any(|window| window == b"answer"));
    assert_eq!(found(&old, &NAME).await.as_deref(), Some("an answer"));
    assert_eq!(found(&new, &NAME).await, None);
    put(&new, &NAME, "anew").await;
    assert_eq!(found(&new, &NAME).await.as_deref(), Some("anew"));
}

/// Look-ups until the breaker is open; each has its time, and no more.
async fn until_fused(response_store: &ResponseStore) {
    let fused = async {
        loop {
            match response_store.get(&NAME).await {
                Err(Fault::Fused) => return,
                Err(_) => {}
                Ok(looked) => panic!("{looked:?}"),
            }
        }
    };
    in_time(fused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_is_let_be_and_found_again() {
    let port = free_port();
    let response_store = response_store(&format!("redis://127.0.0.1:{port}"));
    until_fused(&response_store).await;
    let _redis = Redis::start_at(port, &[]).expect("the port is free");
    let back = async {
        while response_store.get(&NAME).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    in_time(back).await;
    put(&response_store, &NAME, "an answer").await;
    assert_eq!(found(&response_store, &NAME).await.as_deref(), Some("an answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_store_is_waited_for_five_times_and_goes_on_where_it_was() {
    let redis = Redis::start(&[]);
    let response_store = response_store(&redis.url());
    put(&response_store, &NAME, "an answer").await;
    redis.freeze();
    until_fused(&response_store).await;
    let timeouts =
        response_store.status().faults.faults().find(|(fault, _)| *fault == Fault::Timeout);
    assert_eq!(timeouts.unwrap().1, 5);
    redis.thaw();
    let back = async {
        while response_store.get(&NAME).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    in_time(back).await;
    assert_eq!(found(&response_store, &NAME).await.as_deref(), Some("an answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_who_speaks_no_redis_is_let_be() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let talking = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Whoever asked may have hung up already.
            let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    until_fused(&response_store(&url)).await;
    talking.abort();
}

// Faults: 56
#[tokio::test(start_paused = true)]
async fn a_look_up_takes_a_tenth_of_a_second_at_most() {
    // Somebody who accepts and never answers; time is the test's own.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let mut settings = settings(&url);
    settings.place = Place::parse(&url).unwrap();
    settings.timeout = Duration::from_secs(5);
    let response_store = ResponseStore::open(&settings, None, 1_000).unwrap().unwrap();
    let begun = tokio::time::Instant::now();
    assert!(matches!(response_store.get(&NAME).await, Err(Fault::Timeout)));
    assert_eq!(begun.elapsed(), LOOKUP_MAX);
}
