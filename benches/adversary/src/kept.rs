//! The worst draws that were found, kept: they are run again whenever decisions change.
//!
//! `cases.toml` holds each as the flags of its world with the baseline it lost to. One that `holds` does not lose
//! any more, and a test sees that it stays so; the others are told.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use overdraft_claims::{Aim, Claim, as_float};
use overdraft_core::route::Policy;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::book::{Book, Entrant};
use crate::flags::{self, TRACES};
use crate::judge::{Judgement, Verdict};
use crate::world::Arm;
use crate::{Arguments, Told};

/// All of them.
const CASES: &str = include_str!("../cases.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// What went wrong.
    why: String,
    /// The policy that it lost to, without admission.
    beside: String,
    /// Whether it does not lose any more.
    holds: bool,
    /// The world's flags.
    world: String,
}

/// A case as two runs.
struct Pair {
    case: Case,
    base: Entrant,
    ours: Entrant,
}

/// All cases that can be run here.
fn pairs(traces: &Path) -> Result<Vec<Pair>> {
    let file: File = toml::from_str(CASES)?;
    let mut pairs = Vec::new();
    for case in file.case {
        if case.world.contains(TRACES) && !traces.is_dir() {
            continue;
        }
        let kept = flags::read(&case.world, traces).with_context(|| case.name.clone())?;
        let Ok(policy) = case.beside.parse::<Policy>() else {
            bail!("`{}`: `{}` is no policy", case.name, case.beside);
        };
        let entrant = |arm| Entrant { world: kept.world.clone(), arm, seed: kept.seed };
        let (base, ours) = (entrant(Arm::off(policy)), entrant(Arm::DEFAULT));
        pairs.push(Pair { case, base, ours });
    }
    Ok(pairs)
}

impl Pair {
    fn judge(&self, book: &Book) -> Result<Judgement> {
        Ok(Judgement::of(&book.figures(&self.base)?, &book.figures(&self.ours)?))
    }
}

fn book(pairs: &[Pair], threads: usize) -> Book {
    let entrants = pairs.iter().flat_map(|pair| [&pair.base, &pair.ours]);
    Book::of(entrants, threads, |_, _| {})
}

/// Runs them all.
pub(crate) fn part(arguments: &Arguments) -> Result<Told> {
    let pairs = pairs(&arguments.traces)?;
    let book = book(&pairs, arguments.jobs);
    println!("kept cases: {}\n", pairs.len());
    let (mut lost, mut raw) = (0, Vec::new());
    for pair in &pairs {
        let judged = pair.judge(&book).map_err(|error| anyhow!("{}: {error:#}", pair.case.name))?;
        let loses = judged.verdict == Verdict::Loss;
        lost += usize::from(loses);
        let verdict = if loses { "FAIL" } else { "pass" };
        let reasons: Vec<&str> = judged.worse.iter().map(|reason| reason.name()).collect();
        let once = if pair.case.holds { "it held: " } else { "" };
        let Case { name, why, .. } = &pair.case;
        println!("{verdict}  {name}  {}  ({once}{why})", reasons.join(", "));
        for entrant in [&pair.base, &pair.ours] {
            println!("      {:20} {}", entrant.arm.to_string(), book.figures(entrant)?);
        }
        raw.push(json!({ "name": pair.case.name, "world": pair.case.world, "judged": judged }));
    }
    println!();
    let claims = vec![Claim {
        demonstration: "S2",
        figure: "kept_cases_lost".to_owned(),
        measured: Ok(as_float(lost)),
        aim: Aim::AtMost(0.0),
    }];
    Ok(Told { raw: Value::Array(raw), claims })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_is_not_lost_again() {
        let nowhere = Path::new("/nowhere");
        let held: Vec<Pair> =
            pairs(nowhere).unwrap().into_iter().filter(|pair| pair.case.holds).collect();
        let book = book(&held, crate::jobs::available());
        for pair in &held {
            let judged = pair.judge(&book).unwrap();
            assert!(judged.verdict != Verdict::Loss, "{}: {:?}", pair.case.name, judged.worse);
        }
    }
}
