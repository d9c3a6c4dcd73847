//! The part that runs the known cases and says of each whether it passes.

use anyhow::{Result, bail};
use overdraft_claims::{Aim, Claim, as_float};
use serde_json::{Value, json};

use crate::book::Book;
use crate::cases::{self, Duel};
use crate::figures::told;
use crate::{Arguments, Told};

/// All cases that were asked for.
pub(crate) fn part(arguments: &Arguments) -> Result<Told> {
    let seeds = arguments.seeds()?;
    if let Some(name) = arguments.case.iter().find(|name| !cases::NAMES.contains(&name.as_str())) {
        bail!("`{name}` is not a case; expected one of {}", cases::NAMES.join(", "));
    }
    if !arguments.traces.is_dir() {
        println!("no traces in {}: what needs them is left out", arguments.traces.display());
    }
    let is_wanted = |name: &&str| {
        arguments.case.is_empty() || arguments.case.iter().any(|wanted| wanted == name)
    };
    let duels: Vec<Duel> = cases::NAMES
        .iter()
        .filter(|name| is_wanted(name))
        .flat_map(|name| cases::duels(name, &seeds, &arguments.traces))
        .collect();
    let entrants = duels.iter().flat_map(|duel| [&duel.base, &duel.ours]);
    let book = Book::of(entrants, arguments.jobs, |through, count| {
        eprint!("\r{through} of {count} runs ");
    });
    eprintln!();
    let (mut failed, mut raw) = (0, Vec::new());
    for duel in &duels {
        let (passes, told) = tell(duel, &book);
        failed += usize::from(!passes);
        raw.push(told);
    }
    println!("{} of {} pass\n", duels.len() - failed, duels.len());
    let claims = vec![Claim {
        demonstration: "S1",
        figure: "cases_failed".to_owned(),
        measured: Ok(as_float(failed)),
        aim: Aim::AtMost(0.0),
    }];
    Ok(Told { raw: Value::Array(raw), claims })
}

/// Says whether it passes, and why.
fn tell(duel: &Duel, book: &Book) -> (bool, Value) {
    let judged = match duel.judge(book) {
        Ok(judged) => judged,
        Err(error) => {
            println!("FAIL  {}: {error:#}", duel.what);
            return (false, json!({ "what": duel.what, "error": format!("{error:#}") }));
        }
    };
    let passes = judged.faults.is_empty();
    let verdict = if passes { "pass" } else { "FAIL" };
    println!("{verdict}  {}  {}", duel.what, judged.faults.join(", "));
    for (arm, figures) in [(duel.base.arm, judged.base), (duel.ours.arm, judged.ours)] {
        println!("      {:20} {figures}", arm.to_string());
        if 0.0 < figures.found {
            println!("      {:20} {}", "", told(&figures.missed));
        }
    }
    let told = json!({
        "what": duel.what,
        "command": duel.ours.world.command(duel.ours.arm, duel.ours.seed),
        "base_arm": duel.base.arm.to_string(),
        "base": judged.base,
        "ours": judged.ours,
        "faults": judged.faults,
    });
    (passes, told)
}
