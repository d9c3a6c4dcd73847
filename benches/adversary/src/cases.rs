//! Known loads on which the default decisions have lost: a full fleet, and six more mechanisms.
//!
//! `full_fleet` a fleet whose caches hold just what it is asked must stay warm with admission.
//! `crowd` 2,000 requests at once before 64 workers that were not seen yet.
//! `big` one prompt in a hundred has 90,000 tokens and finds room nowhere at once.
//! `shared` requests in flight share one long prefix, which takes room once.
//! `far` 100 ms to the workers and a second, small tenant.
//! `lengths` prompts of different lengths, machines all alike, workers to spare.
//! `common` two system prompts before 16 workers, a twelfth of what they can do.

use std::path::Path;

use anyhow::Result;
use overdraft_core::route::Policy;
use overdraft_sim::fleet::CacheKnowledge::Reported;
use overdraft_sim::workload::Arrivals;

use crate::book::{Book, Entrant};
use crate::figures::Figures;
use crate::rules::Rules;
use crate::table::Rows;
use crate::world::{Arm, Asked, World};

/// All of them, in the order in which they are told.
pub(crate) const NAMES: [&str; 7] =
    ["full_fleet", "crowd", "big", "shared", "far", "lengths", "common"];

/// The fleet of `full_fleet` and its load: the shape of llm-d's published prefix benchmark.
pub(crate) const FULL_PROFILE: &str = "h100-tp2/qwen-3-32b-bf16";
pub(crate) const FULL_WORKERS: u32 = 8;
pub(crate) const FULL_KV_TOKENS: u32 = 307_328;
pub(crate) const FULL_REQUESTS: u64 = 4_000;

/// Rates that it is asked at, in requests a second.
const FULL_RATES: [u32; 4] = [10, 12, 14, 16];

/// What draws the rows of `big`: the large ones come close together now and then.
const BIG_DICE: u64 = 9;

/// Two runs, and what the second may be beside the first.
pub(crate) struct Duel {
    pub(crate) what: String,
    pub(crate) base: Entrant,
    pub(crate) ours: Entrant,
    pub(crate) rules: Rules,
}

/// What came of it.
pub(crate) struct Judged {
    pub(crate) base: Figures,
    pub(crate) ours: Figures,
    pub(crate) faults: Vec<&'static str>,
}

impl Duel {
    /// The default decisions beside something else in the same world.
    fn defaults(what: &str, world: &World, base: Arm, rules: Rules, seed: u64) -> Self {
        let entrant = |arm| Entrant { world: world.clone(), arm, seed };
        let what = format!("{what}, seed {seed}");
        Self { what, base: entrant(base), ours: entrant(Arm::DEFAULT), rules }
    }

    /// # Errors
    /// Where one of them could not be run.
    pub(crate) fn judge(&self, book: &Book) -> Result<Judged> {
        let (base, ours) = (book.figures(&self.base)?, book.figures(&self.ours)?);
        Ok(Judged { base, ours, faults: self.rules.faults(&base, &ours) })
    }
}

/// The duels of a case; none where what it needs is not there.
pub(crate) fn duels(name: &str, seeds: &[u64], traces: &Path) -> Vec<Duel> {
    let all = |of: &dyn Fn(u64) -> Vec<Duel>| seeds.iter().flat_map(|&seed| of(seed)).collect();
    match name {
        "full_fleet" => all(&full_fleet),
        "crowd" => all(&crowd),
        "big" => all(&big),
        "shared" => all(&shared),
        "far" => all(&far),
        "lengths" => all(&|seed| lengths(seed, traces)),
        "common" => all(&common),
        _ => Vec::new(),
    }
}

/// The full fleet, asked so many times a second.
pub(crate) fn full(rate: f64, requests: u64) -> World {
    let load = format!("tenants:rate={rate},groups=150,prefix=6000,question=1200,output=1000");
    World {
        kv_tokens: Some(FULL_KV_TOKENS),
        knowledge: Reported,
        ..World::new(FULL_WORKERS, FULL_PROFILE, &load, requests)
    }
}

fn full_fleet(seed: u64) -> Vec<Duel> {
    let mut duels = Vec::new();
    for rate in FULL_RATES {
        let world = full(f64::from(rate), FULL_REQUESTS);
        let entrant = |arm| Entrant { world: world.clone(), arm, seed };
        for policy in [Policy::Cost, Policy::PrefixAffinity] {
            duels.push(Duel {
                what: format!("full_fleet {policy} {rate}/s, seed {seed}"),
                base: entrant(Arm::off(policy)),
                ours: entrant(Arm { policy, ..Arm::DEFAULT }),
                rules: Rules::FULL_FLEET,
            });
        }
        duels.push(Duel {
            what: format!("full_fleet cost beside prefix-affinity {rate}/s, seed {seed}"),
            base: entrant(Arm { policy: Policy::PrefixAffinity, ..Arm::DEFAULT }),
            ours: entrant(Arm::DEFAULT),
            rules: Rules { tokens: Some(0.99), found: Some(0.99), ..Rules::NONE },
        });
    }
    duels
}

fn crowd(seed: u64) -> Vec<Duel> {
    let world = World {
        arrivals: Arrivals::AtOnce,
        ..World::new(64, "h100-tp1/llama-3-8b-bf16", "unique:question=1000,output=200", 2_000)
    };
    let rules = Rules { refused: Some(0.01), tokens: Some(0.97), ..Rules::NONE };
    let what = "crowd: 2,000 at once, 64 workers";
    vec![Duel::defaults(what, &world, Arm::off(Policy::Cost), rules, seed)]
}

fn big(seed: u64) -> Vec<Duel> {
    let rows = Rows {
        count: 3_000,
        rate: 20.0,
        short: 500.0,
        long: 90_000.0,
        share: 0.01,
        output: 200.0,
        groups: 0,
        prefix: 0,
        crowd: 0,
        when: 0.0,
        dice: BIG_DICE,
    };
    let world = World {
        asked: Asked::Rows(rows),
        arrivals: Arrivals::Rate { per_second: 20.0, burstiness: 1.0 },
        ..World::new(8, "h100-tp1/qwen-3-32b-fp8", "", 3_000)
    };
    let rules = Rules { p95: Some(3.0), refused: Some(0.01), ..Rules::NONE };
    let what = "big: 1 % of prompts have 90,000 tokens";
    vec![Duel::defaults(what, &world, Arm::off(Policy::Cost), rules, seed)]
}

fn shared(seed: u64) -> Vec<Duel> {
    let off = Arm::off(Policy::Cost);
    let waves = "tenants:groups=1,prefix=14000,question=300,output=150,swing=4,period=60,rate=8";
    let waves =
        World { knowledge: Reported, ..World::new(4, "h100-tp1/qwen-3-32b-fp8", waves, 2_000) };
    let small = World {
        knowledge: Reported,
        kv_tokens: Some(40_000),
        arrivals: Arrivals::Rate { per_second: 8.0, burstiness: 1.0 },
        ..World::new(
            2,
            "h100-tp1/llama-3-8b-bf16",
            "tenants:groups=1,prefix=14000,question=100,output=300",
            1_500,
        )
    };
    let what_waves = "shared: waves of agents with one tool list";
    let what_small = "shared: 8/s with one prefix of 14,000, small cache";
    let rules = Rules { refused: Some(0.01), ttft: Some(2.0), ..Rules::NONE };
    let patient = Rules { refused: Some(0.01), tokens: Some(0.97), ttft: Some(4.0), ..Rules::NONE };
    vec![
        Duel::defaults(what_waves, &waves, off, rules, seed),
        Duel::defaults(what_small, &small, off, patient, seed),
    ]
}

fn far(seed: u64) -> Vec<Duel> {
    let alone = World {
        network_ms: 100.0,
        arrivals: Arrivals::Rate { per_second: 60.0, burstiness: 1.0 },
        ..World::new(
            4,
            "h100-tp1/llama-3-8b-bf16",
            "unique:question=500,output=100,spread=0.3",
            3_000,
        )
    };
    let both = World { tenants: vec![20.0, 1.0], ..alone.clone() };
    vec![Duel {
        what: format!("far: a second tenant with a twentieth, seed {seed}"),
        base: Entrant { world: alone, arm: Arm::DEFAULT, seed },
        ours: Entrant { world: both, arm: Arm::DEFAULT, seed },
        rules: Rules { refused: Some(0.005), ttft: Some(1.2), ..Rules::NONE },
    }]
}

fn lengths(seed: u64, traces: &Path) -> Vec<Duel> {
    let profile = "h100-tp1/qwen-3-32b-fp8";
    let load = "unique:question=3000,output=50,spread=1";
    let users = World { users: Some(8), ..World::new(8, profile, load, 1_000) };
    let rules = Rules { tokens: Some(0.97), tpot_p99: Some(1.5), ttft: Some(1.05), ..Rules::NONE };
    let base = Arm::off(Policy::LeastLoad);
    let what = "lengths: 8 users on 8 workers";
    let mut duels = vec![Duel::defaults(what, &users, base, rules, seed)];
    let trace = traces.join("mooncake_conversation.jsonl");
    if trace.exists() {
        let load = format!("mooncake:{}", trace.display());
        let world = World { knowledge: Reported, ..World::new(32, profile, &load, 3_000) };
        let rules = Rules { ttft: Some(1.05), tpot_p99: Some(1.5), end: Some(1.1), ..Rules::NONE };
        let what = "lengths: Mooncake at its own times, 32 workers";
        let base = Arm::off(Policy::PrefixAffinity);
        duels.push(Duel::defaults(what, &world, base, rules, seed));
    }
    duels
}

fn common(seed: u64) -> Vec<Duel> {
    let load = "tenants:groups=2,prefix=3000,question=500,output=200";
    let world = World {
        knowledge: Reported,
        arrivals: Arrivals::Rate { per_second: 10.0, burstiness: 1.0 },
        ..World::new(16, "h100-tp1/qwen-3-32b-fp8", load, 3_000)
    };
    let rules = Rules { end: Some(1.05), tpot_p99: Some(1.15), ..Rules::NONE };
    let what = "common: two system prompts, 16 workers";
    vec![Duel::defaults(what, &world, Arm::off(Policy::LeastLoad), rules, seed)]
}
