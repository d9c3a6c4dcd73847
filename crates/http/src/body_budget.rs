//! Body budget: a bound on the bytes of request bodies in memory, with a fair share for each client.
//!
//! A client that begins many large uploads must not take the memory of all others. The bytes that one client
//! may hold are at most those that are still free (dynamic thresholds, Choudhury and Hahne, 1998): alone it gets
//! half of the budget, beside others less, and some is always left for who comes next. Small bodies are not
//! counted: connections bound them.
//!
//! Invariant: what a lease holds is given back when it is dropped.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a body that are not counted.
pub(crate) const UNCOUNTED_BYTES: usize = 64 * 1024;

/// What all clients may hold, and what each does.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    total: usize,
    by_client: BTreeMap<IpAddr, usize>,
}

impl BodyBudget {
    /// A budget of so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, held: Mutex::default() }
    }

    /// A lease of nothing yet, for a request of `client`.
    pub(crate) fn lease(self: &Arc<Self>, client: IpAddr) -> BodyLease {
        BodyLease { budget: Arc::clone(self), client, seen: Mutex::new(0) }
    }

    /// Takes so many bytes more for a client; false where that is more than its share.
    fn take(&self, client: IpAddr, bytes: usize) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.by_client.get(&client).copied().unwrap_or_default();
        let free = self.bytes_max.saturating_sub(held.total).saturating_sub(bytes);
        let is_fair = own.saturating_add(bytes) <= free;
        if is_fair {
            held.total += bytes;
            *held.by_client.entry(client).or_default() += bytes;
        }
        is_fair
    }

    fn give_back(&self, client: IpAddr, bytes: usize) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.total = held.total.saturating_sub(bytes);
        if let Some(own) = held.by_client.get_mut(&client) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                held.by_client.remove(&client);
            }
        }
    }
}

/// What the body of one request holds.
#[derive(Debug)]
pub(crate) struct BodyLease {
    budget: Arc<BodyBudget>,
    client: IpAddr,
    /// Bytes that have come, counted or not.
    seen: Mutex<usize>,
}

impl BodyLease {
    /// So many bytes more have come; false where there is no room for them.
    pub(crate) fn grow(&self, bytes: usize) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, after) = (counted(*seen), counted(*seen + bytes));
        let has_room = before == after || self.budget.take(self.client, after - before);
        if has_room {
            *seen += bytes;
        }
        has_room
    }
}

impl Drop for BodyLease {
    fn drop(&mut self) {
        let bytes = counted(*self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        if 0 < bytes {
            self.budget.give_back(self.client, bytes);
        }
    }
}

const fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(UNCOUNTED_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENTS: [IpAddr; 3] = [client(1), client(2), client(3)];

    const fn client(last: u8) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, last))
    }

    /// How many bodies of `bytes` a client may hold at once.
    fn fill(budget: &Arc<BodyBudget>, client: IpAddr, bytes: usize) -> Vec<BodyLease> {
        let one = || {
            let lease = budget.lease(client);
            lease.grow(bytes).then_some(lease)
        };
        std::iter::from_fn(one).take(1_000).collect()
    }

    #[test]
    fn one_client_gets_half_and_leaves_room_for_the_next() {
        let budget = Arc::new(BodyBudget::new(1_200_000));
        let bytes = 100_000 + UNCOUNTED_BYTES;
        let first = fill(&budget, CLIENTS[0], bytes);
        let second = fill(&budget, CLIENTS[1], bytes);
        let third = fill(&budget, CLIENTS[2], bytes);
        assert_eq!([first.len(), second.len(), third.len()], [6, 3, 1]);
        drop((first, second, third));
        assert_eq!(fill(&budget, CLIENTS[2], bytes).len(), 6, "all was given back");
    }

    #[test]
    fn small_bodies_are_not_counted_and_growing_ones_from_where_they_are_large() {
        let budget = Arc::new(BodyBudget::new(1_000));
        assert_eq!(fill(&budget, CLIENTS[0], UNCOUNTED_BYTES).len(), 1_000);
        let growing = budget.lease(CLIENTS[0]);
        assert!(growing.grow(UNCOUNTED_BYTES) && growing.grow(500) && !growing.grow(1));
    }
}
