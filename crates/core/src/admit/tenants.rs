//! Does a tenant have more in flight than its share, while others want theirs?
//!
//! The queue shares out what comes free, but a tenant that asks for little should not have to wait
//! for anything to come free. So whoever holds more than an equal part leaves some room for those
//! that do not (`judge.rs`). A tenant counts from its first request until it has had nothing in
//! flight for a minute; while there is only one, it has everything.
//!
//! Invariant: what is counted for a tenant is what it has in flight.

use alloc::collections::BTreeMap;

use overdraft_units::{Instant, Micros};

use super::Tenant;

/// Tenants that are told apart at most; what others have in flight is nobody's.
const TENANTS_MAX: usize = 4_096;

/// How long a tenant without anything in flight still counts.
const LINGER: Micros = Micros::new(60_000_000);

/// Where a tenant stands among those who ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Portion {
    /// It has its share, or less, or nobody else asks.
    #[default]
    Within,
    /// It has more.
    Beyond,
}

/// What each tenant has in flight.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    known: BTreeMap<Tenant, Holding>,
    /// Tokens of all of them.
    tokens: u64,
}

#[derive(Clone, Copy, Debug)]
struct Holding {
    requests: u32,
    tokens: u64,
    /// When it last had anything in flight.
    last: Instant,
}

impl Tenants {
    pub(crate) const fn new() -> Self {
        Self { known: BTreeMap::new(), tokens: 0 }
    }

    /// A request with so many tokens is on its way; whether it is counted, and so to be ended.
    pub(crate) fn start(&mut self, tenant: Tenant, tokens: u64, now: Instant) -> bool {
        if self.known.len() == TENANTS_MAX && !self.known.contains_key(&tenant) {
            return false;
        }
        let new = Holding { requests: 0, tokens: 0, last: now };
        let holding = self.known.entry(tenant).or_insert(new);
        holding.requests += 1;
        holding.tokens += tokens;
        holding.last = now;
        self.tokens += tokens;
        true
    }

    /// It has ended.
    pub(crate) fn end(&mut self, tenant: Tenant, tokens: u64, now: Instant) {
        if let Some(holding) = self.known.get_mut(&tenant) {
            holding.requests -= 1;
            holding.tokens -= tokens;
            holding.last = now;
            self.tokens -= tokens;
        }
    }

    /// Forgets those who have not asked for long.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.known.retain(|_, one| one.requests > 0 || now.since(one.last) < LINGER);
    }

    /// Where a tenant stands.
    pub(crate) fn portion(&self, tenant: Tenant) -> Portion {
        let own = self.known.get(&tenant).map_or(0, |holding| holding.tokens);
        let count = self.known.len() as u128;
        let is_more = u128::from(self.tokens) < u128::from(own) * count;
        if 1 < count && is_more { Portion::Beyond } else { Portion::Within }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Tenant = Tenant(1);
    const OTHER: Tenant = Tenant(2);

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Micros::new(seconds * 1_000_000)
    }

    #[test]
    fn who_is_alone_may_have_all() {
        let mut tenants = Tenants::new();
        tenants.start(ONE, 1_000, at(0));
        assert_eq!(tenants.portion(ONE), Portion::Within);
    }

    #[test]
    fn who_has_more_than_an_equal_part_is_beyond_it() {
        let mut tenants = Tenants::new();
        tenants.start(OTHER, 400, at(0));
        tenants.start(ONE, 400, at(0));
        assert_eq!(tenants.portion(ONE), Portion::Within);
        tenants.start(ONE, 200, at(0));
        assert_eq!(tenants.portion(ONE), Portion::Beyond);
        assert_eq!(tenants.portion(OTHER), Portion::Within);
        tenants.end(ONE, 200, at(1));
        assert_eq!(tenants.portion(ONE), Portion::Within);
    }

    #[test]
    fn who_asked_a_moment_ago_still_has_a_share() {
        let mut tenants = Tenants::new();
        tenants.start(OTHER, 400, at(0));
        tenants.start(ONE, 600, at(0));
        tenants.end(OTHER, 400, at(1));
        tenants.tick(at(60));
        assert_eq!(tenants.portion(ONE), Portion::Beyond);
        tenants.tick(at(61));
        assert_eq!(tenants.portion(ONE), Portion::Within);
    }

    #[test]
    fn tenants_are_bounded() {
        let mut tenants = Tenants::new();
        for tenant in 0..5_000 {
            assert_eq!(tenants.start(Tenant(tenant), 1, at(0)), tenant < 4_096);
        }
        assert!(tenants.start(Tenant(1), 1, at(0)), "one that is known may always");
    }
}
