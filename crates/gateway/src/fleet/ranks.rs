//! Data-parallel ranks: which workers are several engines behind one address.
//!
//! vLLM with `--data-parallel-size` runs one engine per rank, each with a cache of its own, behind one API
//! server. Each rank is a member of the fleet: it has its own events, load and forecast, and a request that
//! is placed there names it in `X-data-parallel-rank`. How many there are, a worker tells with the sources
//! of its events; [`Membership`](super::membership::Membership) seats them.
//!
//! **Invariant:** what is known of an address goes with its last worker.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// Ranks by address.
#[derive(Debug)]
pub(crate) struct Ranks(watch::Sender<BTreeMap<String, u32>>);

impl Default for Ranks {
    fn default() -> Self {
        Self(watch::Sender::new(BTreeMap::new()))
    }
}

impl Ranks {
    /// Engines behind `url`; one unless it was told otherwise.
    pub(crate) fn of(&self, url: &str) -> u32 {
        self.0.borrow().get(url).copied().unwrap_or(1)
    }

    /// So many engines are behind `url`.
    pub(crate) fn learn(&self, url: &str, ranks: u32) {
        self.0.send_if_modified(|known| {
            let before = match ranks {
                0 | 1 => known.remove(url),
                _ => known.insert(url.to_owned(), ranks),
            };
            before.unwrap_or(1) != ranks.max(1)
        });
    }

    /// Forgets all addresses that are not kept.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.0.send_if_modified(|known| {
            known.retain(|url, _| keep(url));
            false
        });
    }

    /// Tells of every change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<BTreeMap<String, u32>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_told_and_what_is_known_is_not_told_again() {
        let ranks = Ranks::default();
        let mut changes = ranks.subscribe();
        for (count, changed) in
            [(1, false), (2, true), (2, false), (4, true), (0, true), (1, false)]
        {
            ranks.learn("http://w:1", count);
            assert_eq!(changes.has_changed().unwrap(), changed, "{count}");
            assert_eq!(ranks.of("http://w:1"), count.max(1));
            changes.mark_unchanged();
        }
    }
}
