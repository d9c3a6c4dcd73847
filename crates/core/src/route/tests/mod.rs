//! Where requests go: fleets of a few workers, decisions as text.

mod eligibility;
mod fit_score;
mod load;
mod peers;
mod prefixes;
mod reports;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use overdraft_units::{BlockSize, CacheSalt, Instant, Micros, TokenId, Tokens};

use super::*;
use crate::admit::{AdmitSettings, Portion, Priority, Prospect, Tenant};
use crate::estimate::{Kind, Lengths, Media};
use crate::fleet::{Attempt, Demand, Ending, Failure, FirstToken, Fleet, Probe, Scraped, Turn};
use crate::prefix::{Chunking, PrefixChain, PrefixLimits};

const MODEL: &str = "m";
const SECOND: Micros = Micros::new(1_000_000);

/// Late enough that nobody is warming up any more.
const LATER: Instant = Instant::ORIGIN;

/// `count` workers, all up and serving [`MODEL`].
fn fleet(count: u64) -> (Fleet, Vec<WorkerId>) {
    let mut fleet = Fleet::new();
    let ids: Vec<WorkerId> = (0..count).map(|tag| fleet.join(tag).unwrap()).collect();
    for &id in &ids {
        fleet.probed(id, Probe::Ready(&[MODEL.to_string()]), Instant::ORIGIN);
    }
    (fleet, ids)
}

fn ask(model: &str) -> Ask<'_> {
    Ask {
        model,
        prompt: Tokens::new(100),
        count: Count::Counted,
        completion: Tokens::ZERO,
        priority: Priority::Default,
        portion: Portion::Within,
        prospect: Prospect::default(),
        session: None,
        dice: 7,
    }
}

fn demand(tokens: u32) -> Demand {
    Demand { prompt: Tokens::new(tokens), ..Demand::default() }
}

fn told(choice: Choice) -> String {
    match choice {
        Choice::Send(id) => format!("send {}", id.index()),
        Choice::UnknownModel => "unknown model".to_string(),
        Choice::NoneUp => "none up".to_string(),
        Choice::NoneLeft => "none left".to_string(),
        Choice::NoRoom { asked, free, .. } => format!("no room for {asked} in {free}"),
        Choice::Saturated { asked, .. } => format!("saturated for {asked}"),
    }
}

fn by(policy: Policy) -> RouteSettings {
    RouteSettings { policy, admission: AdmitSettings::off(), ..RouteSettings::default() }
}

fn choose(fleet: &Fleet, ask: Ask<'_>, tried: &Tried, settings: &RouteSettings) -> Decision {
    let mut decision = Decision::default();
    decide(fleet, ask, tried, settings, LATER, &mut decision);
    decision
}

#[track_caller]
fn check(fleet: &Fleet, tried: &Tried, expected: &str) {
    for policy in [Policy::LeastLoad, Policy::Cost] {
        let decision = choose(fleet, ask(MODEL), tried, &by(policy));
        assert_eq!(told(decision.choice), expected, "{policy}: {decision:?}");
    }
}

/// Chooses, starts there, and hands the receipt back.
#[track_caller]
fn send(fleet: &mut Fleet, expected: &str) -> Attempt {
    check(fleet, &Tried::default(), expected);
    let decision = choose(fleet, ask(MODEL), &Tried::default(), &by(Policy::LeastLoad));
    let Choice::Send(id) = decision.choice else { panic!("nowhere to send") };
    fleet.start(id, demand(100), Turn::First, Instant::ORIGIN)
}

fn end(fleet: &mut Fleet, attempt: Attempt, ending: Ending) {
    fleet.end(attempt, ending, Instant::ORIGIN);
}

/// A router over `count` workers that have said nothing of their load.
fn router(count: u64) -> (Router, Vec<WorkerId>) {
    let mut router = Router::new(PrefixLimits::default());
    let ids: Vec<WorkerId> = (0..count).map(|tag| router.join(tag).unwrap()).collect();
    for &id in &ids {
        router.probed(id, Probe::Ready(&[MODEL.to_string()]), Instant::ORIGIN);
    }
    (router, ids)
}

fn block() -> BlockSize {
    BlockSize::new(16).unwrap()
}

fn chain(tenant: u32, blocks: u32) -> PrefixChain {
    let mut chain = PrefixChain::new(CacheSalt::default(), Chunking::Tokens(block()));
    let tokens: Vec<TokenId> = (0..blocks * 16).map(|place| TokenId(tenant * 7 + place)).collect();
    chain.push_tokens(&tokens);
    chain
}

fn request(chain: &PrefixChain) -> Request<'_> {
    let tokens = Tokens::new(u32::try_from(chain.keys().len()).unwrap() * 16);
    Request {
        model: MODEL,
        prompt: Prompt::Counted { tokens, chain: chain.keys(), block: block() },
        limit: Some(1),
        choices: 1,
        first_token: FirstToken::Seen,
        session: None,
        dice: 0,
        priority: Priority::Default,
        tenant: Tenant::default(),
        kind: Kind::default(),
    }
}

fn place(router: &mut Router, chain: &PrefixChain, policy: Policy, now: Instant) -> Placed {
    let tried = Attempted { tried: &Tried::default(), turn: Turn::First };
    let mut placed = router.place(request(chain), &by(policy), tried, now).unwrap();
    router.remember(&mut placed, request(chain).prompt, now);
    placed
}

fn answer(router: &mut Router, mut placed: Placed, now: Instant) {
    router.first_token(&mut placed, now);
    router.end(placed, Outcome::of(Ending::Answered), now);
}

fn scrape(kv_use_permille: u16, capacity: u32, at: Instant) -> Scraped {
    Scraped {
        at,
        running: 0,
        waiting: 0,
        kv_use_permille: Some(kv_use_permille),
        kv_capacity: Some(Tokens::new(capacity)),
        block_size: None,
        preemptions: None,
    }
}
