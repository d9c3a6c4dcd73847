//! Revoked keys: every gateway hears of them, until they would have ended by themselves.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use overdraft_store::{Fault, REVOCATIONS_MAX, Revocation, Revoked, Store};
use redis::Value;

use crate::server::Redis;
use crate::{in_time, open, say};

const REVOKED: &str = "overdraft:{tests}:1:revoked";

/// So many milliseconds from now.
fn ends_in(milliseconds: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap() + milliseconds
}

fn key(number: u32, milliseconds: u64) -> Revocation {
    let mut digest = [7; 32];
    digest[..4].copy_from_slice(&number.to_be_bytes());
    Revocation { digest, until: ends_in(milliseconds) }
}

/// What a store says to who knows nothing.
async fn told(store: &mut Store) -> Revoked {
    let mut told = in_time(store.revoked(None)).await.unwrap().expect("nothing has been seen");
    told.keys.sort_by_key(|key| key.digest);
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_revokes_the_others_hear_and_once() {
    let redis = Redis::start(&[]);
    let (mut one, mut other) = (open(&redis.url()), open(&redis.url()));
    assert_eq!(told(&mut other).await, Revoked { version: 0, keys: Vec::new() });
    assert_eq!(other.revoked(Some(0)).await, Ok(None));
    let (first, second) = (key(1, 60_000), key(2, 90_000));
    assert_eq!(one.revoke(&[first]).await, Ok(0));
    let heard = other.revoked(Some(0)).await.unwrap().expect("it is another version");
    assert_eq!(heard.keys, [first]);
    assert_eq!(other.revoked(Some(heard.version)).await, Ok(None), "nothing is new");
    // What is known already changes nothing, and an earlier end does not count.
    let earlier = Revocation { until: first.until - 1_000, ..first };
    assert_eq!(one.revoke(&[first, earlier]).await, Ok(0));
    assert_eq!(other.revoked(Some(heard.version)).await, Ok(None));
    assert_eq!(one.revoke(&[second]).await, Ok(0));
    let more = other.revoked(Some(heard.version)).await.unwrap().expect("there is one more");
    assert!(heard.version < more.version);
    assert_eq!(told(&mut one).await.keys, [first, second]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_ends_with_its_key_and_the_last_takes_all_along() {
    let redis = Redis::start(&[]);
    let mut store = open(&redis.url());
    let long = key(1, 60_000);
    assert_eq!(store.revoke(&[long, key(2, 1)]).await, Ok(0));
    let ended = async {
        while told(&mut store).await.keys != [long] {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    in_time(Box::pin(ended)).await;
    let Value::Int(left) = say(&redis, &["PTTL", REVOKED]).await else { panic!("a number") };
    assert!((1..=60_000).contains(&left), "{left}");
    // The next one clears away what is over.
    assert_eq!(store.revoke(&[key(3, 60_000)]).await, Ok(0));
    assert_eq!(say(&redis, &["HLEN", REVOKED]).await, Value::Int(3), "two, and the version");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_are_held_than_fit_and_none_makes_room() {
    let redis = Redis::start(&[]);
    let mut store = open(&redis.url());
    let count = u32::try_from(REVOCATIONS_MAX).unwrap();
    let many: Vec<Revocation> = (0..count).map(|number| key(number, 60_000)).collect();
    assert_eq!(in_time(store.revoke(&many)).await, Ok(0));
    assert_eq!(store.revoke(&[key(count, 60_000), many[0]]).await, Ok(1));
    let told = told(&mut store).await;
    assert_eq!(told.keys.len(), REVOCATIONS_MAX);
    assert_eq!(told.keys[0].digest, many[0].digest);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_revocation_is_thrown_away_and_a_wiped_store_says_so() {
    let redis = Redis::start(&[]);
    let mut store = open(&redis.url());
    say(&redis, &["SET", REVOKED, "odd"]).await;
    assert_eq!(told(&mut store).await.keys, []);
    assert_eq!(store.status().mended(), 1);
    let one = key(1, 60_000);
    assert_eq!(store.revoke(&[one]).await, Ok(0));
    say(&redis, &["HSET", REVOKED, "x", "9999999999999", &"é".repeat(32), "1"]).await;
    let heard = told(&mut store).await;
    assert_eq!(heard.keys, [one]);
    say(&redis, &["FLUSHALL"]).await;
    let wiped = store.revoked(Some(heard.version)).await.unwrap().expect("it is another version");
    assert_eq!(wiped, Revoked::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_hears_of_what_could_not_be_told() {
    let mut redis = Redis::start(&[]);
    let mut store = open(&redis.url());
    redis.kill();
    assert_eq!(in_time(store.revoke(&[key(1, 60_000)])).await, Err(Fault::Unreachable));
    assert!(in_time(store.revoked(None)).await.is_err());
    // Who is alone shares nothing.
    let mut alone = open("memory");
    assert_eq!(alone.revoke(&[key(1, 60_000)]).await, Ok(0));
    assert_eq!(alone.revoked(None).await, Ok(None));
}
