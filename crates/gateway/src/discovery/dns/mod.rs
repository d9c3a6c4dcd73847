//! DNS service discovery: resolves a name to workers and asks again when the TTL has passed.
//!
//! The records are A and AAAA, or SRV where the name begins with `_`. The resolver's own cache is
//! off: this is the one place that knows how old an answer may be. Name servers and search domains
//! are read from the system each time, so a change there needs no restart.
//!
//! **Invariant.** Each kind of record keeps its last good answer by itself: a server that fails for
//! AAAA costs no IPv4 worker. See docs/design/discovery.md#r4.

mod records;

use std::net::SocketAddr;
use std::time::Duration;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{ResolverBuilder, TokioResolver};
use tokio::time::{Instant, sleep};

use self::records::{Answer, Records};
use super::backoff::Backoff;
use super::found::FoundWorker;
use super::report::Reporter;
use crate::settings::DnsPatience;
use crate::settings::DnsSettings;

type Builder = ResolverBuilder<TokioRuntimeProvider>;

/// Attempts at one name server before a query fails.
const ATTEMPTS: usize = 2;

/// Queries for ever.
pub(super) async fn follow(settings: DnsSettings, mut reporter: Reporter) {
    let mut kinds: Vec<Records> = settings.kinds().iter().copied().map(Records::new).collect();
    let mut backoff = Backoff::new(settings.patience.retry_min, settings.patience.retry_max);
    loop {
        let pause = match resolver(&settings) {
            Ok(resolver) => look(&settings, &resolver, &mut kinds, &mut reporter).await,
            Err(error) => {
                reporter.failed(&error);
                None
            }
        };
        let pause = match pause {
            Some(pause) => {
                backoff.answered();
                pause
            }
            None => backoff.failed(),
        };
        sleep(pause.min(expiry(&kinds, &settings))).await;
    }
}

/// Queries each kind of record once and reports the workers. Returns the time for which the answers
/// hold; `None` if the next query is to follow as after a failure.
async fn look(
    settings: &DnsSettings,
    resolver: &TokioResolver,
    kinds: &mut [Records],
    reporter: &mut Reporter,
) -> Option<Duration> {
    for records in kinds.iter_mut() {
        let answer = ask(settings, resolver, records).await;
        records.take(answer, Instant::now(), settings.patience.absent);
    }
    let trouble = records::trouble(kinds).map(|trouble| format!("`{}`: {trouble}", settings.name));
    match (records::places(kinds), trouble) {
        (Some(places), trouble) => {
            let workers = places.into_iter().map(|place| worker(settings, &place)).collect();
            reporter.heard(workers, trouble).await;
        }
        (None, Some(trouble)) => reporter.failed(&trouble),
        (None, None) => {}
    }
    let DnsPatience { ttl_min, ttl_max, .. } = settings.patience;
    records::ttl(kinds).map(|ttl| ttl.min(ttl_max).max(ttl_min))
}

fn worker(settings: &DnsSettings, place: &records::Place) -> FoundWorker {
    let (host, port) = place;
    let found = FoundWorker::at(host, *port);
    FoundWorker { pool: settings.pool, model: settings.model.clone(), ..found }
}

/// How long until workers of a name that is gone are to leave.
fn expiry(kinds: &[Records], settings: &DnsSettings) -> Duration {
    let now = Instant::now();
    let left = kinds.iter().filter_map(|records| records.expiry(settings.patience.absent));
    left.map(|at| at.saturating_duration_since(now)).min().unwrap_or(Duration::MAX)
}

async fn ask(settings: &DnsSettings, resolver: &TokioResolver, records: &Records) -> Answer {
    let looked = match records.resolved() {
        // What a search found is not searched for again: a search goes on after a failure, and its
        // last answer may be that the name does not exist somewhere else.
        Some(name) => resolver.lookup(name.clone(), records.kind()).await,
        None => resolver.lookup(settings.name.as_str(), records.kind()).await,
    };
    match looked {
        Ok(lookup) => answer(&lookup, settings.port),
        Err(error) if error.is_no_records_found() => Answer::Absent,
        Err(error) => Answer::Failed(error.to_string()),
    }
}

fn answer(lookup: &Lookup, port: u16) -> Answer {
    let places = records::read(lookup.answers(), port);
    if places.is_empty() {
        return Answer::Absent;
    }
    let seconds = lookup.answers().iter().map(|record| record.ttl).min().unwrap_or(0);
    Answer::FoundWorker {
        name: lookup.query().name().clone(),
        places,
        ttl: Duration::from_secs(u64::from(seconds)),
    }
}

fn resolver(settings: &DnsSettings) -> Result<TokioResolver, NetError> {
    let builder = match settings.server {
        None => TokioResolver::builder_tokio()?,
        Some(server) => {
            TokioResolver::builder_with_config(config(server), TokioRuntimeProvider::default())
        }
    };
    tuned(builder, settings.patience).build()
}

/// To ask one server, over UDP, and over TCP where an answer does not fit.
fn config(server: SocketAddr) -> ResolverConfig {
    let (mut udp, mut tcp) = (ConnectionConfig::udp(), ConnectionConfig::tcp());
    (udp.port, tcp.port) = (server.port(), server.port());
    let server = NameServerConfig::new(server.ip(), true, vec![udp, tcp]);
    ResolverConfig::from_name_servers(vec![server])
}

fn tuned(mut builder: Builder, patience: DnsPatience) -> Builder {
    let options = builder.options_mut();
    options.cache_size = 0;
    options.attempts = ATTEMPTS;
    options.timeout = patience.answer;
    // A fleet's addresses are more than a plain datagram holds.
    options.edns0 = true;
    builder
}

#[cfg(test)]
mod tests;
