//! One board, several gateways.

use std::time::Duration;

use overdraft_store::{Store, Verdict};

use crate::server::Redis;
use crate::{OUT, WORKER, busy, in_time, open};

/// What the board says of the worker.
async fn seen(store: &mut Store) -> Option<Option<Duration>> {
    let records = store.board_read(&[WORKER]).await.unwrap();
    records[0].map(|record| record.open_for)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_gateway_opens_is_open_for_the_other() {
    let redis = Redis::start(&[]);
    let (mut one, mut other) = (open(&redis.url()), open(&redis.url()));
    let before = other.board_version().await.unwrap();
    assert_eq!(seen(&mut other).await, None);
    let stands = one.board_report(WORKER, OUT).await.unwrap().unwrap();
    let version = other.board_version().await.unwrap();
    assert!(before < version);
    assert_eq!(version, stands.version);
    let left = seen(&mut other).await.unwrap().unwrap();
    assert!(Duration::from_secs(30) < left && left <= Duration::from_mins(1), "{left:?}");
    // The first to open it said for how long.
    let longer = Verdict { open_for: Some(Duration::from_secs(90)), streak: 9 };
    let stands = other.board_report(WORKER, longer).await.unwrap().unwrap();
    assert_eq!((stands.streak, stands.version), (1, version));
    let closed = Verdict { open_for: None, streak: 1 };
    other.board_report(WORKER, closed).await.unwrap();
    assert_eq!(seen(&mut one).await, Some(None));
    assert!(version < one.board_version().await.unwrap());
}

/// Asks from before the window until it has been open for a while; how often it was granted.
async fn contend(store: &mut Store) -> usize {
    const ASKED_AFTER: usize = 20;
    let (mut granted, mut after) = (0, 0);
    while after < ASKED_AFTER {
        granted += usize::from(store.board_claim(WORKER).await.unwrap());
        after += usize::from(seen(store).await == Some(Some(Duration::ZERO)));
    }
    granted
}

#[tokio::test(flavor = "multi_thread")]
async fn of_eight_gateways_one_may_try_in_each_window() {
    const WINDOWS: usize = 20;
    const GATEWAYS: usize = 8;
    let redis = Redis::start(&[]);
    let mut stores: Vec<Store> = (0..GATEWAYS).map(|_| open(&redis.url())).collect();
    let soon = Duration::from_millis(20);
    let first = Verdict { open_for: Some(soon), streak: 1 };
    stores[0].board_report(WORKER, first).await.unwrap();
    for window in 0..WINDOWS {
        let mut contenders = tokio::task::JoinSet::new();
        for (index, mut store) in stores.drain(..).enumerate() {
            contenders.spawn(async move {
                let granted = contend(&mut store).await;
                (index, store, granted)
            });
        }
        let mut back = in_time(contenders.join_all()).await;
        back.sort_by_key(|(index, _, _)| *index);
        let granted: Vec<usize> = back.iter().map(|(_, _, granted)| *granted).collect();
        assert_eq!(granted.iter().sum::<usize>(), 1, "window {window}: {granted:?}");
        let owner = granted.iter().position(|granted| *granted == 1).unwrap();
        stores = back.into_iter().map(|(_, store, _)| store).collect();
        // Somebody else's word does not end the owner's trial; the owner's does.
        let again = Verdict { open_for: Some(soon), streak: 2 };
        let stands = stores[(owner + 1) % GATEWAYS].board_report(WORKER, again).await.unwrap();
        assert_eq!(stands.unwrap().open_for, Some(Duration::ZERO));
        let stands = stores[owner].board_report(WORKER, again).await.unwrap();
        assert!(stands.unwrap().open_for.is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_not_renewed_is_anothers() {
    let redis = Redis::start(&[]);
    let (mut one, mut other) = (open(&redis.url()), open(&redis.url()));
    let over = Verdict { open_for: Some(Duration::ZERO), streak: 1 };
    one.board_report(WORKER, over).await.unwrap();
    let claimed = async {
        while !one.board_claim(WORKER).await.unwrap() {
            tokio::task::yield_now().await;
        }
    };
    in_time(claimed).await;
    assert!(!other.board_renew(WORKER).await.unwrap(), "it is not its own");
    assert!(one.board_renew(WORKER).await.unwrap());
    assert!(!other.board_claim(WORKER).await.unwrap());
    let claimed = async {
        while !other.board_claim(WORKER).await.unwrap() {
            tokio::task::yield_now().await;
        }
    };
    in_time(claimed).await;
    assert!(!one.board_renew(WORKER).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_in_redis_ends_by_itself_and_under_one_prefix() {
    let redis = Redis::start(&[]);
    let mut store = open(&redis.url());
    store.board_report(WORKER, OUT).await.unwrap();
    store.exchange_shares(&busy(&[])).await.unwrap();
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
    assert_eq!(keys.len(), 3, "{keys:?}");
    for key in keys {
        assert!(key.starts_with("overdraft:{tests}:1:"), "{key}");
        let life: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut connection).await.unwrap();
        assert!(0 < life, "{key} stays for ever");
    }
}
