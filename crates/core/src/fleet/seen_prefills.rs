//! Seen prefills: prompts whose first token will be seen, and what a worker has yet to compute of them.
//!
//! What the gateway sees is old: a first token was on the way for half a round trip, and a request takes the other half.
//! So a worker far away is always further than the last word of it says, by a whole round trip. Without this, workers
//! 60 ms away looked busy that were idle, and first tokens came 15 % later than by turns.

use overdraft_units::{Instant, Micros};

use crate::estimate::Pace;

/// The prompts of a worker that have yet to see their first token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeenPrefills {
    /// Tokens that have to be computed before the last of them sees it.
    pub(super) tokens: u64,
    /// The part of one prompt.
    pub(super) one: u64,
    /// Since when the worker has been computing the first of them.
    pub(super) since: Instant,
    pub(super) round_trip: Micros,
}

impl SeenPrefills {
    /// Tokens that stand before a request that is sent `now`, when it comes there. Of what was begun counts what is left
    /// at `pace`, and of one prompt at most, and of what follows it while its first token is on the way: the end of each
    /// is seen.
    #[inline]
    pub(super) fn left(&self, pace: Pace, now: Instant) -> u64 {
        if self.tokens == 0 {
            return 0;
        }
        let there = now + half(self.round_trip);
        let unseen = self.one.saturating_add(pace.tokens_in(self.round_trip));
        self.tokens.saturating_sub(pace.tokens_in(there.since(self.since)).min(unseen))
    }
}

/// One way of two.
pub(super) const fn half(round_trip: Micros) -> Micros {
    Micros::new(round_trip.get() / 2)
}

/// The time so long before `now`, and never before the origin.
pub(super) fn before(now: Instant, span: Micros) -> Instant {
    let since_origin = now.since(Instant::ORIGIN);
    Instant::ORIGIN + since_origin.checked_sub(span).unwrap_or(Micros::ZERO)
}

#[cfg(test)]
mod tests {
    use overdraft_units::Tokens;

    use super::*;
    use crate::fleet::{Attempt, Demand, Fleet, Turn, WorkerId};

    /// The round trip of the worker far away.
    const FAR_MS: u64 = 100;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Micros::new(ms * 1_000)
    }

    fn fleet() -> (Fleet, WorkerId) {
        let mut fleet = Fleet::new();
        let far = fleet.join(1).unwrap();
        fleet.round_trip(far, Micros::new(FAR_MS * 1_000));
        (fleet, far)
    }

    fn start(fleet: &mut Fleet, worker: WorkerId, prompt: u32, ms: u64) -> Attempt {
        let demand = Demand { prompt: Tokens::new(prompt), ..Demand::default() };
        fleet.start(worker, demand, Turn::First, at(ms))
    }

    /// As the worker tells it and as decisions read it: 4,000 tokens a second before anything was seen.
    #[track_caller]
    fn check(fleet: &Fleet, worker: WorkerId, ms: u64, left: u64) {
        let pace = Pace::per_second(4_000);
        assert_eq!(fleet.worker(worker).queued(pace, at(ms)), left);
        assert_eq!(fleet.glance(worker).queued(pace, at(ms)), Some(left));
    }

    #[test]
    fn a_request_finds_what_is_left_when_it_comes_there() {
        let (mut fleet, far) = fleet();
        let _first = start(&mut fleet, far, 400, 0);
        // The first one is there after 50 ms, as the second one would be.
        check(&fleet, far, 0, 400);
        check(&fleet, far, 60, 160);
        check(&fleet, far, 100, 0);
    }

    #[test]
    fn what_is_computed_while_a_first_token_is_on_the_way_does_not_stand_before_others() {
        let (mut fleet, far) = fleet();
        let mut first = start(&mut fleet, far, 400, 0);
        let _second = start(&mut fleet, far, 2_000, 0);
        // There from 50 ms on, computed at 150, seen at 200: the second was begun at 150, not at 200.
        fleet.first_token(&mut first, at(200));
        check(&fleet, far, 200, 2_000 - 400);
        check(&fleet, far, 300, 2_000 - 800);
    }

    #[test]
    fn no_more_than_one_prompt_and_a_round_trip_is_taken_to_be_done_unseen() {
        let (mut fleet, far) = fleet();
        let _all = [0, 0, 0, 0].map(|ms| start(&mut fleet, far, 400, ms));
        check(&fleet, far, 10_000, 4 * 400 - 400 - 400);
    }
}
