//! Body budget: a bound on the bytes of request bodies in memory, with a fair share for each client.
//!
//! A client that begins many large uploads must not take the memory of all others. The bytes that one client
//! may hold are at most those that are still free (dynamic thresholds, Choudhury and Hahne, 1998): alone it gets
//! half of the budget, beside others less, and some is always left for who comes next. Small bodies are not
//! counted: connections bound them.
//!
//! A client is an address until the handler knows the tenant: all clients behind one proxy have its address.
//!
//! Invariant: what a lease holds is given back when it is dropped.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a body that are not counted.
pub(crate) const UNCOUNTED_BYTES: usize = 64 * 1024;

/// Whose bodies have a share of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BodyOwner {
    /// All who come from one address, of whom nothing else is known.
    Peer(IpAddr),
    /// A tenant, by a digest of its name.
    Tenant([u8; 32]),
}

/// What all clients may hold, and what each does.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    total: usize,
    by_owner: BTreeMap<BodyOwner, usize>,
}

impl Held {
    /// An owner holds so many bytes less.
    fn leave(&mut self, owner: BodyOwner, bytes: usize) {
        if let Some(own) = self.by_owner.get_mut(&owner) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                self.by_owner.remove(&owner);
            }
        }
    }
}

impl BodyBudget {
    /// A budget of so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, held: Mutex::default() }
    }

    /// A lease of nothing yet, for a request of `owner`.
    pub(crate) fn lease(self: &Arc<Self>, owner: BodyOwner) -> BodyLease {
        BodyLease { budget: Arc::clone(self), body: Mutex::new(LeasedBody { owner, seen: 0 }) }
    }

    /// Takes so many bytes more for an owner; false where that is more than its share.
    fn take(&self, owner: BodyOwner, bytes: usize) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.by_owner.get(&owner).copied().unwrap_or_default();
        let free = self.bytes_max.saturating_sub(held.total).saturating_sub(bytes);
        let is_fair = own.saturating_add(bytes) <= free;
        if is_fair {
            held.total += bytes;
            *held.by_owner.entry(owner).or_default() += bytes;
        }
        is_fair
    }

    fn give_back(&self, owner: BodyOwner, bytes: usize) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.total = held.total.saturating_sub(bytes);
        held.leave(owner, bytes);
    }

    /// Counts so many bytes as another owner's. They are there already, so nobody is refused.
    fn hand_over(&self, from: BodyOwner, to: BodyOwner, bytes: usize) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.leave(from, bytes);
        *held.by_owner.entry(to).or_default() += bytes;
    }
}

/// What the body of one request holds.
#[derive(Debug)]
pub(crate) struct BodyLease {
    budget: Arc<BodyBudget>,
    body: Mutex<LeasedBody>,
}

#[derive(Debug)]
struct LeasedBody {
    owner: BodyOwner,
    /// Bytes that have come, counted or not.
    seen: usize,
}

impl BodyLease {
    /// So many bytes more have come; false where there is no room for them.
    pub(crate) fn grow(&self, bytes: usize) -> bool {
        let mut body = self.body.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, after) = (counted(body.seen), counted(body.seen + bytes));
        let has_room = before == after || self.budget.take(body.owner, after - before);
        if has_room {
            body.seen += bytes;
        }
        has_room
    }

    /// It is this owner's from now on, with all that has come.
    pub(crate) fn belongs_to(&self, owner: BodyOwner) {
        let mut body = self.body.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = counted(body.seen);
        if 0 < bytes {
            self.budget.hand_over(body.owner, owner, bytes);
        }
        body.owner = owner;
    }
}

impl Drop for BodyLease {
    fn drop(&mut self) {
        let body = self.body.get_mut().unwrap_or_else(PoisonError::into_inner);
        let bytes = counted(body.seen);
        if 0 < bytes {
            self.budget.give_back(body.owner, bytes);
        }
    }
}

const fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(UNCOUNTED_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENTS: [BodyOwner; 3] = [client(1), client(2), client(3)];

    const fn client(last: u8) -> BodyOwner {
        BodyOwner::Peer(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, last)))
    }

    /// How many bodies of `bytes` a client may hold at once.
    fn fill(budget: &Arc<BodyBudget>, client: BodyOwner, bytes: usize) -> Vec<BodyLease> {
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
    fn tenants_behind_one_address_have_shares_of_their_own() {
        let budget = Arc::new(BodyBudget::new(1_200_000));
        let bytes = 100_000 + UNCOUNTED_BYTES;
        let of_tenant = |tenant: u8| {
            let one = || {
                let lease = budget.lease(CLIENTS[0]);
                lease.belongs_to(BodyOwner::Tenant([tenant; 32]));
                lease.grow(bytes).then_some(lease)
            };
            std::iter::from_fn(one).take(1_000).collect::<Vec<BodyLease>>()
        };
        let (first, second) = (of_tenant(1), of_tenant(2));
        assert_eq!([first.len(), second.len()], [6, 3]);
        drop((first, second));
        // What came before its tenant was known goes along, and is given back for the tenant.
        let held = fill(&budget, CLIENTS[0], bytes);
        assert_eq!(held.len(), 6);
        for lease in &held {
            lease.belongs_to(BodyOwner::Tenant([1; 32]));
        }
        let of_address = fill(&budget, CLIENTS[0], bytes);
        assert_eq!([of_address.len(), of_tenant(1).len()], [3, 0]);
        drop((held, of_address));
        assert_eq!(of_tenant(1).len(), 6, "all was given back");
    }

    #[test]
    fn small_bodies_are_not_counted_and_growing_ones_from_where_they_are_large() {
        let budget = Arc::new(BodyBudget::new(1_000));
        assert_eq!(fill(&budget, CLIENTS[0], UNCOUNTED_BYTES).len(), 1_000);
        let growing = budget.lease(CLIENTS[0]);
        assert!(growing.grow(UNCOUNTED_BYTES) && growing.grow(500) && !growing.grow(1));
    }
}
