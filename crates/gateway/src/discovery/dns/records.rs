//! DNS record state: the last good answer for one record type of a name, and until when it holds.
//!
//! No I/O and no clock: the caller passes answers and the time. A failure changes nothing. A name
//! that does not exist (`NXDOMAIN`) keeps its last records for a while, and then loses them.

use std::collections::BTreeSet;
use std::time::Duration;

use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::time::Instant;

/// A host, which is a name or an address, and a port.
pub(super) type Place = (String, u16);

/// What a server said.
#[derive(Debug)]
pub(super) enum Answer {
    FoundWorker {
        /// The fully qualified name, after applying search domains.
        name: Name,
        places: BTreeSet<Place>,
        ttl: Duration,
    },
    /// There is no such name, or it has no such records.
    Absent,
    /// A timeout or a server failure.
    Failed(String),
}

/// How it went the last time.
#[derive(Debug)]
enum Last {
    Never,
    FoundWorker(Duration),
    /// Since when this has been so.
    Absent(Instant),
    /// Since when the name had been absent before, if it had.
    Failed(String, Option<Instant>),
}

/// One kind of record of a name.
#[derive(Debug)]
pub(super) struct Records {
    kind: RecordType,
    /// Creates the state of a record type that has not been queried yet.
    places: Option<BTreeSet<Place>>,
    resolved: Option<Name>,
    last: Last,
}

impl Records {
    pub(super) const fn new(kind: RecordType) -> Self {
        Self { kind, places: None, resolved: None, last: Last::Never }
    }

    pub(super) const fn kind(&self) -> RecordType {
        self.kind
    }

    /// The name in full under which records were found.
    pub(super) const fn resolved(&self) -> Option<&Name> {
        self.resolved.as_ref()
    }

    /// Learns an answer; records are kept for `grace` after they ceased to exist.
    pub(super) fn take(&mut self, answer: Answer, now: Instant, grace: Duration) {
        match answer {
            Answer::FoundWorker { name, places, ttl } => {
                self.places = Some(places);
                self.resolved = Some(name);
                self.last = Last::FoundWorker(ttl);
            }
            Answer::Absent => {
                let since = self.absent_since().unwrap_or(now);
                if grace <= now.saturating_duration_since(since) {
                    self.places = Some(BTreeSet::new());
                    self.resolved = None;
                }
                self.last = Last::Absent(since);
            }
            Answer::Failed(error) => self.last = Last::Failed(error, self.absent_since()),
        }
    }

    /// When records that ceased to exist are to be forgotten.
    pub(super) fn expiry(&self, grace: Duration) -> Option<Instant> {
        let Last::Absent(since) = self.last else { return None };
        self.held().then(|| since + grace)
    }

    const fn absent_since(&self) -> Option<Instant> {
        match self.last {
            Last::Absent(since) | Last::Failed(_, Some(since)) => Some(since),
            Last::Never | Last::FoundWorker(_) | Last::Failed(_, None) => None,
        }
    }

    /// Whether it has workers that the name no longer stands for.
    fn lost(&self) -> bool {
        matches!(self.last, Last::Absent(_)) && self.held()
    }

    /// Whether workers are known by it.
    fn held(&self) -> bool {
        self.places.as_ref().is_some_and(|places| !places.is_empty())
    }
}

/// Where workers are, by all kinds together; `None` as long as that is not known.
pub(super) fn places(kinds: &[Records]) -> Option<BTreeSet<Place>> {
    let known = kinds.iter().all(|records| records.places.is_some());
    let places: BTreeSet<Place> =
        kinds.iter().filter_map(|records| records.places.as_ref()).flatten().cloned().collect();
    (known || !places.is_empty()).then_some(places)
}

/// What is wrong. That a name has addresses of one kind only is not.
pub(super) fn trouble(kinds: &[Records]) -> Option<String> {
    let failed = kinds.iter().find_map(|records| match &records.last {
        Last::Failed(error, _) => Some(format!("{} records: {error}", records.kind)),
        Last::Never | Last::FoundWorker(_) | Last::Absent(_) => None,
    });
    failed.or_else(|| {
        let lost = kinds.iter().find(|records| records.lost());
        let nowhere = kinds.iter().all(|records| matches!(records.last, Last::Absent(_)));
        let kind = lost.or_else(|| kinds.first().filter(|_| nowhere))?.kind;
        Some(format!("the name has no {kind} records"))
    })
}

/// For how long what is known holds; `None` if that is past.
pub(super) fn ttl(kinds: &[Records]) -> Option<Duration> {
    let overdue =
        |records: &Records| records.held() && !matches!(records.last, Last::FoundWorker(_));
    if kinds.iter().any(overdue) {
        return None;
    }
    let ttls = kinds.iter().filter_map(|records| match records.last {
        Last::FoundWorker(ttl) => Some(ttl),
        Last::Never | Last::Absent(_) | Last::Failed(..) => None,
    });
    ttls.min()
}

/// The places in an answer. Of SRV records those of the best priority count; their weights do not,
/// for how much a worker is given follows from what it can take.
pub(super) fn read(answers: &[Record], port: u16) -> BTreeSet<Place> {
    let best = answers.iter().filter_map(|record| match &record.data {
        RData::SRV(srv) => Some(srv.priority),
        _ => None,
    });
    let best = best.min();
    let places = answers.iter().filter_map(|record| match &record.data {
        RData::A(address) => Some((address.0.to_string(), port)),
        RData::AAAA(address) => Some((address.0.to_string(), port)),
        // The root as a target says that the service is not offered here.
        RData::SRV(srv) if Some(srv.priority) == best && !srv.target.is_root() => {
            let target = srv.target.to_utf8();
            Some((target.trim_end_matches('.').to_owned(), srv.port))
        }
        _ => None,
    });
    places.collect()
}
