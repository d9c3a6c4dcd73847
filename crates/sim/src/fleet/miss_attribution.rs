//! Cache miss attribution: why a prefix was not in the worker's KV cache when it was computed.
//!
//! When a request is sent, the ledger records what every worker holds of its prompt; when its first
//! token comes, the ledger compares the hit with that record and with everything that was ever
//! computed.
//!
//! **Invariant:** it only observes: histories are equal with and without it.

use std::collections::BTreeMap;

use crate::report::Missed;
use crate::workload::{Piece, named};

/// Maximum pieces of prompts that are remembered; later ones count as never seen.
const PIECES_MAX: usize = 1 << 22;

/// What workers held of a prompt when it was sent, in tokens of whole pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// The one that it was sent to.
    pub(super) own: u32,
    /// The one that held most, if another.
    pub(super) elsewhere: u32,
    /// Whether that one had no room for it.
    pub(super) is_full: bool,
    /// How much had ever been computed, and whether the last worker to do so had crashed since.
    pub(super) known: u32,
    pub(super) has_crashed: bool,
}

/// A piece of a prompt as a worker computed it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Computed {
    tokens: u32,
    pub(super) worker: usize,
    /// How often that one had crashed by then.
    pub(super) crashes: u64,
}

/// What was ever computed, and why it was computed again.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// By the name of a piece after all before it.
    computed: BTreeMap<u64, Computed>,
    pub(super) missed: Missed,
}

impl Ledger {
    /// A prompt was computed by a worker.
    pub(super) fn remember(&mut self, prompt: &[Piece], worker: usize, crashes: u64) {
        let mut before = 0;
        for piece in prompt {
            let tokens = piece.tokens.get();
            let name = named(&[before, piece.content]);
            let is_known = self.computed.contains_key(&name);
            if is_known || self.computed.len() < PIECES_MAX {
                let one = self.computed.entry(name).or_insert(Computed { tokens, worker, crashes });
                *one = Computed { tokens: one.tokens.max(tokens), worker, crashes };
            }
            before = named(&[before, piece.content, u64::from(tokens)]);
        }
    }

    /// How much of a prompt had been computed, and by whom its end had been last.
    pub(super) fn known(&self, prompt: &[Piece]) -> Option<(u32, Computed)> {
        let (mut before, mut all, mut last) = (0, 0, None);
        for piece in prompt {
            let Some(one) = self.computed.get(&named(&[before, piece.content])) else { break };
            let tokens = piece.tokens.get();
            all += one.tokens.min(tokens);
            last = Some(*one);
            if one.tokens < tokens {
                break;
            }
            before = named(&[before, piece.content, u64::from(tokens)]);
        }
        last.map(|one| (all, one))
    }
}

#[cfg(test)]
mod tests {
    use overdraft_core::route::{Policy, RouteSettings};
    use overdraft_gpu_model::Catalogue;
    use overdraft_units::{Micros, Tokens};

    use super::*;
    use crate::fleet::{CacheKnowledge, Overdraft, Scenario, Simulated, simulate};
    use crate::report::Fate;
    use crate::workload::{Pacing, Source};

    fn scenario(policy: Policy, workers: u32, kv_tokens: u32) -> Scenario {
        let profile = Catalogue::builtin().find("h100-tp1/llama-3-8b-bf16").unwrap();
        let routing = RouteSettings { policy, ..RouteSettings::default() };
        Scenario {
            kv_tokens: Some(Tokens::new(kv_tokens)),
            knowledge: CacheKnowledge::Reported,
            tells_missed: true,
            ..Scenario::new(profile, workers, routing)
        }
    }

    fn run(scenario: &Scenario, workload: &str, requests: u64) -> Simulated {
        let sessions = Source::parse(workload).unwrap().open(3).unwrap().sessions;
        let pacing = Pacing { requests_max: Some(requests), ..Pacing::default() };
        simulate(scenario, pacing.apply(sessions, 3), 3, &mut |_| {}).unwrap()
    }

    /// Tokens that were missed, after a check that each token is either found or missed for one cause.
    #[track_caller]
    fn missed(simulated: &Simulated) -> Missed {
        let samples = simulated.recorder.samples();
        assert!(samples.iter().all(|sample| sample.fate == Fate::Completed));
        let prompt: u64 = samples.iter().map(|one| u64::from(one.prompt.get())).sum();
        let found: u64 = samples.iter().map(|one| u64::from(one.cached.unwrap().get())).sum();
        let Missed {
            never_seen,
            evicted,
            crashed,
            displaced_on_the_way,
            holder_full,
            sent_elsewhere,
        } = simulated.missed;
        let all =
            never_seen + evicted + crashed + displaced_on_the_way + holder_full + sent_elsewhere;
        assert_eq!(found + all, prompt);
        simulated.missed
    }

    const TENANTS: &str = "tenants:groups=8,prefix=4000,question=100,output=50,rate=8";

    #[test]
    fn with_room_for_all_only_what_is_new_is_missed() {
        let missed = missed(&run(&scenario(Policy::Cost, 1, 400_000), TENANTS, 200));
        // Eight prefixes once and two hundred questions; a page at the end of each is computed again.
        assert!((50_000..60_000).contains(&missed.never_seen), "{missed:?}");
        assert_eq!(Missed { never_seen: 0, ..missed }, Missed::default());
    }

    #[test]
    fn a_cache_that_is_too_small_evicts() {
        let missed = missed(&run(&scenario(Policy::Cost, 1, 20_000), TENANTS, 200));
        assert!(100_000 < missed.evicted, "{missed:?}");
        assert_eq!((missed.crashed, missed.sent_elsewhere), (0, 0));
    }

    #[test]
    fn who_does_not_look_for_prefixes_sends_elsewhere() {
        let missed = missed(&run(&scenario(Policy::RoundRobin, 4, 400_000), TENANTS, 200));
        // Eight prefixes at three more workers, less those that were computed at one time.
        assert!((60_000..=96_000).contains(&missed.sent_elsewhere), "{missed:?}");
        assert_eq!((missed.evicted, missed.holder_full), (0, 0));
    }

    #[test]
    fn a_holder_without_room_is_told_apart() {
        let load = "tenants:groups=4,prefix=4000,question=500,output=400,rate=40";
        let missed = missed(&run(&scenario(Policy::LeastLoad, 2, 12_000), load, 200));
        assert!(0 < missed.holder_full, "{missed:?}");
    }

    #[test]
    fn what_a_crash_takes_is_told_apart() {
        let overdraft = Overdraft::Crash(Micros::new(1_000_000));
        let scenario = Scenario { overdraft, ..scenario(Policy::Cost, 1, 12_000) };
        let load = "tenants:groups=1,prefix=4000,question=500,output=600,rate=4,spread=0";
        let simulated = run(&scenario, load, 100);
        assert!(0 < simulated.crashes && 0 < simulated.missed.crashed, "{:?}", simulated.missed);
    }

    #[test]
    fn looking_changes_no_history() {
        for kv_tokens in [20_000, 400_000] {
            let looks = scenario(Policy::Cost, 3, kv_tokens);
            let blind = Scenario { tells_missed: false, ..looks.clone() };
            let digests = [&looks, &blind].map(|one| run(one, TENANTS, 200).recorder.digest());
            assert_eq!(digests[0], digests[1]);
        }
    }
}
