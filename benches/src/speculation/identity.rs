//! Lossless speculation: answers equal those without drafts, token for token (S1).
//!
//! Held-out questions of every family of the model card, greedily, under every rule with each drafter
//! and with both; what is compared is the answers of an engine that has nobody to guess.

use std::collections::BTreeSet;

use crate::questions::{Question, questions};
use anyhow::{Result, ensure};
use overdraft_claims::{Aim, Claim, as_float};
use overdraft_engine::{Engine, EngineSettings, Policy, Request, Unobserved};
use overdraft_telemetry::Clock;
use overdraft_units::CacheSalt;

use super::load::Loader;
use super::pair::{Drafters, Opened, Pair, greedy, shipped_tokenizer};

/// Every rule; the table changes its depth within a batch.
const POLICIES: [&str; 7] = [
    "off",
    "fixed:1",
    "fixed:5",
    "threshold",
    "threshold-per-token",
    "batch-table:1-8=6,9-64=2",
    "goodput",
];
/// Tokens of an answer at most.
const ANSWER: u32 = 96;
/// Questions asked together: each rule sees batches of many sizes, as they end one by one.
const AT_ONCE: usize = 24;

/// What was compared.
pub(crate) struct Identity {
    prompts: usize,
    families: usize,
    tokens: usize,
    /// Rules with drafters, answers that are the same, and guesses that were right.
    setups: Vec<(String, usize, u64)>,
}

pub(crate) fn measure(prompts: usize, loader: &Loader, clock: Clock) -> Result<Identity> {
    let tokenizer = shipped_tokenizer()?;
    let all = questions()?;
    let some: Vec<_> = all.iter().step_by((all.len() / prompts).max(1)).take(prompts).collect();
    let families: BTreeSet<&str> = some.iter().map(|question| question.family.as_str()).collect();
    let ask = |question: &&Question| -> Request {
        greedy(tokenizer.encode_prompt(&question.prompt), ANSWER, CacheSalt(0))
    };
    let requests: Vec<Request> = some.iter().map(ask).collect();
    let Opened { target, codec, .. } = Pair::Shipped.open()?;
    let settings = EngineSettings { entropy: 1, ..EngineSettings::new(clock) };
    let plain = Engine::start(target, codec, settings, Box::new(Unobserved))?;
    let expected = loader.answers(&plain.handle(), &requests, AT_ONCE)?;
    drop(plain);
    let tokens = expected.iter().map(Vec::len).sum();
    ensure!(4 * requests.len() < tokens, "`{tokens}` tokens are too few to compare");
    let mut setups = Vec::new();
    for policy in POLICIES {
        let policy: Policy = policy.parse()?;
        for drafters in [Drafters::Lookup, Drafters::Model, Drafters::Both] {
            let engine = Pair::Shipped.start(&policy, drafters, Box::new(Unobserved), clock)?;
            let answers = loader.answers(&engine.handle(), &requests, AT_ONCE)?;
            let same = answers.iter().zip(&expected).filter(|(one, other)| one == other).count();
            let right = engine.handle().stats().speculation.accepted_tokens;
            setups.push((format!("{policy} {drafters:?}").to_lowercase(), same, right));
        }
    }
    Ok(Identity { prompts: requests.len(), families: families.len(), tokens, setups })
}

impl Identity {
    pub(crate) fn print(&self) {
        let Self { prompts, families, tokens, setups } = self;
        println!(
            "{prompts} questions of {families} families, {tokens} tokens, greedily; the same as without guesses:"
        );
        for (setup, same, right) in setups {
            println!("  {setup:<34} {same:>4}   guesses that were right: {right}");
        }
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        let claim = |figure: &str, measured: f64| Claim {
            demonstration: "S1",
            figure: figure.to_owned(),
            measured: Ok(measured),
            aim: Aim::AtLeast(1.0),
        };
        let same: usize = self.setups.iter().map(|(_, same, _)| same).sum();
        let guessed = self.setups.iter().filter(|(name, ..)| !name.starts_with("off"));
        let least = guessed.map(|(.., right)| *right).min().unwrap_or(0);
        vec![
            claim("identical-answers", as_float(same) / as_float(self.prompts * self.setups.len())),
            // Where no guess was right nothing was shown.
            claim("right-guesses-at-least", as_float(usize::try_from(least).unwrap_or(usize::MAX))),
        ]
    }
}
