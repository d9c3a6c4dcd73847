//! What gateways have in flight, and what keys have spent.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use overdraft_core::fleet::Share;
use overdraft_store::{Extent, Fault, Limits, Need, OwnShare, Store};
use overdraft_units::{Instant, Micros};
use redis::Value;

use crate::server::Redis;
use crate::{WORKER, busy, in_time, open};

fn share(requests: u32) -> Share {
    Share { requests, prompt_tokens: 100, tokens: 200 }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_gateway_hears_what_the_others_have_in_flight_until_they_are_gone() {
    let redis = Redis::start(&[]);
    let (mut one, mut two, mut three) =
        (open(&redis.url()), open(&redis.url()), open(&redis.url()));
    one.exchange_shares(&busy(&[(WORKER, share(1))])).await.unwrap();
    two.exchange_shares(&busy(&[(WORKER, share(2)), (7, share(4))])).await.unwrap();
    let heard = three.exchange_shares(&busy(&[(WORKER, share(50))])).await.unwrap();
    assert_eq!(heard.gateways, 3);
    assert_eq!((heard.by_worker[&WORKER].requests, heard.by_worker[&WORKER].tokens), (3, 400));
    assert_eq!(heard.by_worker[&7].requests, 4);
    assert_eq!(three.status().gateways(), 3);
    drop((one, two));
    let gone = async {
        while !three.exchange_shares(&busy(&[])).await.unwrap().by_worker.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    in_time(gone).await;
    assert_eq!(three.status().gateways(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_gateway_hears_what_waits_in_the_others() {
    let redis = Redis::start(&[]);
    let (mut one, mut two, mut three) =
        (open(&redis.url()), open(&redis.url()), open(&redis.url()));
    for (store, count) in [(&mut one, 25), (&mut two, 5)] {
        let own = OwnShare { waiting: BTreeMap::from([(5, count)]), ..busy(&[(WORKER, share(1))]) };
        store.exchange_shares(&own).await.unwrap();
    }
    let heard = three.exchange_shares(&busy(&[])).await.unwrap();
    assert_eq!(heard.waiting, BTreeMap::from([(5, 30)]));
    assert_eq!(heard.by_worker.len(), 1, "{heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_gateway_hears_what_the_others_learnt_last_and_nothing_of_its_own() {
    let redis = Redis::start(&[]);
    let (mut one, mut two) = (open(&redis.url()), open(&redis.url()));
    assert_eq!(one.exchange_journals(5, 1, "1 2 3").await.unwrap(), [""; 0]);
    assert_eq!(two.exchange_journals(5, 2, "4 5").await.unwrap(), ["1 2 3"]);
    assert_eq!(one.exchange_journals(5, 1, "2 3 4").await.unwrap(), ["4 5"]);
    assert_eq!(two.exchange_journals(5, 2, "4 5").await.unwrap(), ["2 3 4"]);
    // Of another number nothing was told, and what is no journal is thrown away.
    assert_eq!(two.exchange_journals(6, 2, "").await.unwrap(), [""; 0]);
    crate::say(&redis, &["HSET", "overdraft:{tests}:1:journals:0000000000000005", "x", "odd"])
        .await;
    assert_eq!(one.exchange_journals(5, 1, "").await.unwrap(), ["4 5"]);
    let Value::Int(left) =
        crate::say(&redis, &["PTTL", "overdraft:{tests}:1:journals:0000000000000005"]).await
    else {
        panic!("a number")
    };
    assert!(0 < left, "it ends by itself");
}

const ONE: Need = Need { requests: 1, tokens: 1, extent: Extent::Limited };

/// Spends as long as it may.
fn spend(store: &Store, limits: Limits, now: Instant) -> u32 {
    let budgets = store.budgets();
    (0..1_000).map(|_| u32::from(budgets.try_spend(9, limits, ONE, now).is_ok())).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_gateway_spent_another_cannot_spend_again() {
    let redis = Redis::start(&[]);
    let (mut one, mut other) = (open(&redis.url()), open(&redis.url()));
    let limits = Limits { requests_per_minute: NonZeroU32::new(100), tokens_per_minute: None };
    let now = Instant::ORIGIN + Micros::new(1);
    for store in [&mut one, &mut other] {
        store.exchange_shares(&busy(&[])).await.unwrap();
        store.exchange_budgets(now).await.unwrap();
    }
    one.exchange_shares(&busy(&[])).await.unwrap();
    assert_eq!(spend(&one, limits, now), 100);
    one.exchange_budgets(now).await.unwrap();
    // It has not heard of the key yet: one request makes it ask.
    assert!(other.budgets().try_spend(9, limits, ONE, now).is_ok());
    other.exchange_budgets(now).await.unwrap();
    let more = spend(&other, limits, now);
    assert!(more <= 1, "{more} were spent twice");
}

/// A gateway that tells nothing, for no key spends, finds out by what else it tells that Redis is away.
#[tokio::test(flavor = "multi_thread")]
async fn who_spends_nothing_while_redis_is_away_is_cut_off_as_well() {
    let mut redis = Redis::start(&[]);
    let (mut store, mut other) = (open(&redis.url()), open(&redis.url()));
    let limits = Limits { requests_per_minute: NonZeroU32::new(60), tokens_per_minute: None };
    let left = |store: &Store, now: Instant| {
        store.budgets().standing(9, limits, now).requests.unwrap().remaining
    };
    other.exchange_shares(&busy(&[])).await.unwrap();
    assert_eq!(store.exchange_shares(&busy(&[])).await.unwrap().gateways, 2);
    let mut now = Instant::ORIGIN + Micros::new(1);
    store.exchange_budgets(now).await.unwrap();
    assert_eq!(left(&store, now), 60);
    redis.kill();
    for _ in 0..2 {
        assert!(store.exchange_shares(&busy(&[])).await.is_err());
        now = now + Micros::new(2_000_000);
        store.exchange_budgets(now).await.unwrap();
    }
    assert_eq!(left(&store, now), 30, "each of two has half");
}

/// A debit whose answer is late is carried out all the same: told again, it counts once.
#[tokio::test(flavor = "multi_thread")]
async fn a_debit_that_redis_carries_out_after_its_time_counts_once() {
    let redis = Redis::start(&[]);
    let mut store = open(&redis.url());
    let limits = Limits { requests_per_minute: NonZeroU32::new(60), tokens_per_minute: None };
    let now = Instant::ORIGIN + Micros::new(1);
    // Another key's exchange makes the connection and has Redis know the script.
    store.budgets().try_spend(8, limits, ONE, now).unwrap();
    store.exchange_budgets(now).await.unwrap();
    for _ in 0..50 {
        store.budgets().try_spend(9, limits, ONE, now).unwrap();
    }
    redis.freeze();
    assert_eq!(store.exchange_budgets(now).await, Err(Fault::Timeout));
    redis.thaw();
    let bucket = "overdraft:{tests}:1:budget:0000000000000009:r";
    let carried_out = async {
        while crate::say(&redis, &["EXISTS", bucket]).await != Value::Int(1) {
            tokio::task::yield_now().await;
        }
    };
    in_time(carried_out).await;
    store.exchange_budgets(now).await.unwrap();
    let left = store.budgets().standing(9, limits, now).requests.unwrap().remaining;
    assert!(10 <= left, "{left} of 60 are left: 50 were taken twice");
    // What is spent from there on counts as ever.
    store.budgets().try_spend(9, limits, ONE, now).unwrap();
    store.exchange_budgets(now).await.unwrap();
    let then = store.budgets().standing(9, limits, now).requests.unwrap().remaining;
    assert!(10 <= then + 1, "{then} of 60 are left");
}
