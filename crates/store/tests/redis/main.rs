//! The store against real servers: what gateways see of each other, and what each fault of Redis does.
//!
//! Every wait is for something that happens, under one bound that only a hang reaches.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![expect(clippy::disallowed_methods, reason = "a test ends what it spawns with its runtime")]

#[path = "../../../../tests/redis/server.rs"]
mod server;

mod board;
mod faults;
mod keeping;
mod revoking;
mod sharing;
mod topology;
mod versions;

use std::future::Future;
use std::time::Duration;

use overdraft_core::fleet::Share;
use overdraft_store::{Namespace, OwnShare, Place, Store, StoreSettings, Verdict};
use redis::Value;

use crate::server::Redis;

/// Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A worker's name as a number.
const WORKER: u64 = 0x00c0_ffee;

/// What one gateway decided that has had enough.
const OUT: Verdict = Verdict { open_for: Some(Duration::from_mins(1)), streak: 1 };

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("nothing takes this long but a hang")
}

/// What a gateway tells that has so much in flight, and in which nobody waits.
fn busy(by_worker: &[(u64, Share)]) -> OwnShare {
    OwnShare { by_worker: by_worker.to_vec(), ..OwnShare::default() }
}

fn settings(url: &str) -> StoreSettings {
    StoreSettings {
        place: Place::parse(url).unwrap(),
        namespace: Namespace::parse("tests").unwrap(),
        // The machines of tests are busy; what times out here is frozen.
        timeout: Duration::from_millis(500),
        ..StoreSettings::default()
    }
}

fn open(url: &str) -> Store {
    Store::open(&settings(url)).unwrap()
}

/// Says something to a server, as its operator.
async fn say(redis: &Redis, words: &[&str]) -> Value {
    say_to(&redis.url(), words).await.unwrap()
}

async fn say_to(url: &str, words: &[&str]) -> redis::RedisResult<Value> {
    let client = redis::Client::open(url)?;
    let mut connection = in_time(client.get_multiplexed_async_connection()).await?;
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    in_time(command.query_async(&mut connection)).await
}
