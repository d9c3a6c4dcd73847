//! Power-of-two-choices policy: the lesser load of two random workers, which avoids herding
//! (Mitzenmacher 2001).

use crate::fleet::WorkerId;
use crate::hash_mix::mix;
use crate::route::candidate::Decision;
use crate::route::decision_scene::Scene;
use crate::route::least_load::rank;

/// Keeps the two draws apart.
const DRAWS: [u64; 2] = [0x7477_6f00, 0x6368_6f69];

pub(super) fn choose(scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
    for candidate in decision.open_mut() {
        candidate.score = u64::from(candidate.requests);
    }
    let count = decision.open().count();
    let nth = |draw: u64, of: usize| {
        let drawn = mix(scene.ask.dice, draw) % u64::try_from(of).unwrap_or(1).max(1);
        usize::try_from(drawn).unwrap_or(0)
    };
    let first = nth(DRAWS[0], count);
    // Another one than the first, if there is any.
    let step = 1 + nth(DRAWS[1], count.saturating_sub(1));
    let second = if count > 1 { (first + step) % count } else { first };
    let drawn = [first, second].into_iter().filter_map(|place| decision.open().nth(place));
    drawn.map(|one| one.worker).min_by_key(|&worker| rank(scene.fleet, worker))
}
