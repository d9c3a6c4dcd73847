//! Keys that are revoked over the store: refused by every gateway, and for as long as they would be good.

use std::time::Duration;

use overdraft_gateway::{KeyDigest, KeySettings};
use overdraft_store::{Place, Revocation, Store, StoreSettings};
use overdraft_telemetry::calendar_time;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::harness::{Gateway, MODEL, in_time};
use crate::keys::Streaming;
use crate::mock::Mock;
use crate::redis::Redis;
use crate::sharing::place;

const ACME: &str = "sk-acme-0123456789";
const BOLT: &str = "sk-bolt-0123456789";

/// What is promised: refused by all by then.
const REFUSED_WITHIN: Duration = Duration::from_secs(2);

async fn gateway(mock: &Mock, redis: &Redis) -> Gateway {
    Gateway::start_with(&[mock], |settings| {
        let key = |key, tenant| KeySettings::new(KeyDigest::of(key), tenant);
        settings.keys = vec![key(ACME, "acme"), key(BOLT, "bolt")];
        place(settings, &redis.url());
    })
    .await
}

fn store(redis: &Redis) -> Store {
    let place = Place::parse(&redis.url()).unwrap();
    let timeout = Duration::from_millis(500);
    Store::open(&StoreSettings { place, timeout, ..StoreSettings::default() }).unwrap()
}

fn revocation(key: &str) -> Revocation {
    let until = calendar_time().as_millisecond() + 60_000;
    Revocation { digest: *KeyDigest::of(key).bytes(), until: u64::try_from(until).unwrap() }
}

/// Status and body of a request with this key that no worker sees.
async fn asked(gateway: &Gateway, key: &str) -> (u16, String) {
    let mut client = gateway.client().await;
    let line = format!("x-api-key: {key}\r\n");
    client.send(format!("GET /v1/models HTTP/1.1\r\nhost: localhost\r\n{line}\r\n")).await;
    let (head, body) = client.whole().await;
    (head.status, body)
}

async fn until_refused(gateway: &Gateway, key: &str) {
    let refused = async {
        while asked(gateway, key).await.0 == 200 {
            // What is waited for needs the processors as well.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(refused).await;
}

// Faults: 75
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_revoked_over_the_store_is_refused_by_all_within_two_seconds() {
    let mut redis = Redis::start(&[]);
    let mut mock = Mock::start(&[MODEL]).await;
    let gateways = [gateway(&mock, &redis).await, gateway(&mock, &redis).await];
    gateways[0].until_line("overdraft_store_gateways 2").await;
    let streaming = Streaming::begin(&gateways[1], &mut mock, ACME).await;
    assert_eq!(store(&redis).revoke(&[revocation(ACME)]).await, Ok(0));
    let begun = Instant::now();
    for gateway in &gateways {
        until_refused(gateway, ACME).await;
    }
    assert!(begun.elapsed() < REFUSED_WITHIN, "{:?}", begun.elapsed());
    let (status, body) = asked(&gateways[0], ACME).await;
    assert_eq!(status, 401);
    assert!(body.contains("was revoked") && body.contains("invalid_api_key"), "{body}");
    assert_eq!(asked(&gateways[1], BOLT).await.0, 200, "another key is not touched");
    // What it began goes on.
    streaming.goes_on().await;
    // Without the store it is refused as before.
    redis.kill();
    gateways[0].until_line("overdraft_store_degraded 1").await;
    assert_eq!(asked(&gateways[0], ACME).await.0, 401);
    assert_eq!(asked(&gateways[0], BOLT).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_starts_later_refuses_it_also_after_the_store_was_wiped() {
    let redis = Redis::start(&[]);
    let mock = Mock::start(&[MODEL]).await;
    let mut store = store(&redis);
    assert_eq!(store.revoke(&[revocation(ACME)]).await, Ok(0));
    let first = gateway(&mock, &redis).await;
    until_refused(&first, ACME).await;
    let mut operator = TcpStream::connect(("127.0.0.1", redis.port)).await.unwrap();
    operator.write_all(b"FLUSHALL\r\n").await.unwrap();
    let mut said = [0; 5];
    in_time(operator.read_exact(&mut said)).await.unwrap();
    assert_eq!(&said, b"+OK\r\n");
    let written_back = async {
        loop {
            let told = store.revoked(None).await.unwrap().expect("nothing has been seen");
            if told.keys.iter().any(|key| key.digest == *KeyDigest::of(ACME).bytes()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    in_time(written_back).await;
    assert_eq!(asked(&first, ACME).await.0, 401, "it was refused all the time");
    let second = gateway(&mock, &redis).await;
    until_refused(&second, ACME).await;
    assert_eq!(asked(&second, BOLT).await.0, 200);
}
