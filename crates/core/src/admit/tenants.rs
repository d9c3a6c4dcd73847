//! Tenant shares (fairness): which tenants have more in flight than an equal part while others
//! wait.
//!
//! The queue distributes room that comes free, but a tenant with little load should not have to
//! wait for that. So a tenant above its equal share, or with a lower priority than another's,
//! leaves room for the active tenants with a greater claim: as much as they ask for, and none where
//! there are none (`judge.rs`). A tenant that is alone may use everything.
//!
//! Invariant: a tenant's count equals its requests in flight.

use alloc::collections::BTreeMap;

use overdraft_units::{Instant, Micros};

use super::{Priority, Tenant};

/// Tenants that are told apart at most; what others have in flight is nobody's.
const TENANTS_MAX: usize = 4_096;

/// How long one that has nothing in flight is still there: its next request may come any moment.
const LINGER: Micros = Micros::new(10_000_000);

/// Requests of a greater priority that the workers of a model have room for at any moment, all together: another comes
/// free before more of them have come, and the more workers there are, the sooner.
const KEPT_REQUESTS: u64 = 2;

/// Requests of tenants within their share that each worker has room for, as far as `fair_reserve` goes: they come while
/// those who have more are answered, and that takes long.
const KEPT_REQUESTS_FAIR: u64 = 16;

/// So much of an equal part is clearly more: what a tenant has in flight goes up and down by itself.
const BEYOND_PERCENT: u128 = 150;

/// Each request takes a sixteenth of what was there from a tenant's usual size.
const USUAL_FADE: u64 = 16;

/// What a request leaves to others who are there and have a greater claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Portion {
    /// Its tenant has its share, or less, or nobody else asks.
    #[default]
    Within,
    /// Its tenant has more.
    Beyond {
        /// Tokens of each cache that are left to the others.
        kept: u64,
    },
    /// Another tenant asks at a greater priority.
    Outranked {
        /// Tokens of each cache that are left to him.
        kept: u64,
    },
}

/// What each tenant has in flight.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    known: BTreeMap<Tenant, Holding>,
    /// Tokens of all of them.
    tokens: u64,
    /// Tokens that [`KEPT_REQUESTS_FAIR`] usual requests of those within their share have.
    modest: u64,
    /// By [`Priority::index`]: when a tenant last asked, and what a usual request has, in tokens.
    asked: [Option<(Instant, u64)>; 3],
}

#[derive(Clone, Copy, Debug)]
struct Holding {
    requests: u32,
    tokens: u64,
    /// Tokens that a request of it usually has.
    usual: u64,
    /// When it last had anything in flight.
    last: Instant,
}

impl Tenants {
    pub(crate) const fn new() -> Self {
        Self { known: BTreeMap::new(), tokens: 0, modest: 0, asked: [None; 3] }
    }

    /// A request with so many tokens is on its way; whether it is counted, and so to be ended.
    pub(crate) fn start(
        &mut self,
        tenant: Tenant,
        priority: Priority,
        tokens: u64,
        now: Instant,
    ) -> bool {
        let asked = &mut self.asked[priority.index()];
        *asked = Some((now, asked.map_or(tokens, |(_, usual)| faded(usual, tokens))));
        if self.known.len() == TENANTS_MAX && !self.known.contains_key(&tenant) {
            return false;
        }
        let new = Holding { requests: 0, tokens: 0, usual: tokens, last: now };
        let holding = self.known.entry(tenant).or_insert(new);
        holding.requests += 1;
        holding.tokens += tokens;
        holding.usual = faded(holding.usual, tokens);
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

    /// Forgets those who have not asked for long, and looks at what the others ask for.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.known.retain(|_, one| one.requests > 0 || now.since(one.last) < LINGER);
        for asked in &mut self.asked {
            asked.take_if(|(last, _)| LINGER <= now.since(*last));
        }
        let modest = self.known.values().filter(|one| !self.is_beyond(one.tokens));
        let (sum, count) =
            modest.fold((0_u64, 0), |(sum, count), one| (sum + one.usual, count + 1));
        self.modest = sum.saturating_mul(KEPT_REQUESTS_FAIR).checked_div(count).unwrap_or(0);
    }

    /// What a request of a tenant leaves to others in the cache of each of so many workers of its model.
    pub(crate) fn portion(&self, tenant: Tenant, priority: Priority, workers: u64) -> Portion {
        let greater = self.asked[priority.index() + 1..].iter().flatten();
        let greater = greater.map(|(_, usual)| usual * KEPT_REQUESTS / workers.max(1)).max();
        let own = self.known.get(&tenant).map_or(0, |holding| holding.tokens);
        let modest = self.is_beyond(own).then_some(self.modest);
        match (greater, modest) {
            (Some(greater), modest) => {
                Portion::Outranked { kept: greater.max(modest.unwrap_or(0)) }
            }
            (None, Some(kept)) => Portion::Beyond { kept },
            (None, None) => Portion::Within,
        }
    }

    /// Whether so many tokens are clearly more than an equal part of all.
    fn is_beyond(&self, tokens: u64) -> bool {
        let count = self.known.len() as u128;
        let most = u128::from(self.tokens) * BEYOND_PERCENT;
        1 < count && most < u128::from(tokens) * count * 100
    }
}

const fn faded(usual: u64, tokens: u64) -> u64 {
    usual - usual / USUAL_FADE + tokens / USUAL_FADE
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Tenant = Tenant(1);
    const OTHER: Tenant = Tenant(2);

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Micros::new(seconds * 1_000_000)
    }

    fn start(tenants: &mut Tenants, tenant: Tenant, tokens: u64, now: Instant) -> bool {
        tenants.start(tenant, Priority::Default, tokens, now)
    }

    fn portion(tenants: &Tenants, tenant: Tenant) -> Portion {
        tenants.portion(tenant, Priority::Default, 1)
    }

    #[test]
    fn who_is_alone_may_have_all() {
        let mut tenants = Tenants::new();
        start(&mut tenants, ONE, 1_000, at(0));
        assert_eq!(portion(&tenants, ONE), Portion::Within);
    }

    #[test]
    fn who_has_clearly_more_than_an_equal_part_leaves_what_others_ask_for() {
        let mut tenants = Tenants::new();
        start(&mut tenants, OTHER, 400, at(0));
        start(&mut tenants, ONE, 1_200, at(0));
        assert_eq!(portion(&tenants, ONE), Portion::Within, "half more is chance");
        start(&mut tenants, ONE, 10, at(0));
        tenants.tick(at(0));
        assert_eq!(
            portion(&tenants, ONE),
            Portion::Beyond { kept: 6_400 },
            "sixteen of the others"
        );
        assert_eq!(portion(&tenants, OTHER), Portion::Within);
        tenants.end(ONE, 1_200, at(1));
        assert_eq!(portion(&tenants, ONE), Portion::Within);
    }

    #[test]
    fn who_asked_a_moment_ago_still_has_a_share() {
        let mut tenants = Tenants::new();
        start(&mut tenants, OTHER, 400, at(0));
        start(&mut tenants, ONE, 1_600, at(0));
        tenants.end(OTHER, 400, at(1));
        tenants.tick(at(10));
        assert_ne!(portion(&tenants, ONE), Portion::Within);
        tenants.tick(at(11));
        assert_eq!(portion(&tenants, ONE), Portion::Within);
    }

    #[test]
    fn who_asks_at_a_lesser_priority_leaves_room_for_a_greater_one_that_is_there() {
        let mut tenants = Tenants::new();
        tenants.start(ONE, Priority::Priority, 300, at(0));
        assert_eq!(portion(&tenants, ONE), Portion::Outranked { kept: 600 });
        assert_eq!(tenants.portion(ONE, Priority::Priority, 1), Portion::Within);
        let beside_three = tenants.portion(ONE, Priority::Default, 4);
        assert_eq!(beside_three, Portion::Outranked { kept: 150 }, "a part at each of four");
        tenants.tick(at(10));
        assert_eq!(portion(&tenants, ONE), Portion::Within, "nobody is there any more");
    }

    #[test]
    fn tenants_are_bounded() {
        let mut tenants = Tenants::new();
        for tenant in 0..5_000 {
            assert_eq!(start(&mut tenants, Tenant(tenant), 1, at(0)), tenant < 4_096);
        }
        assert!(start(&mut tenants, Tenant(1), 1, at(0)), "one that is known may always");
    }
}
