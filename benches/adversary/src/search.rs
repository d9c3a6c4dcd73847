//! The drawn search: every draw under the defaults and under each baseline without admission.

use std::path::Path;

use anyhow::{Context, Result};
use overdraft_claims::{Aim, Claim, as_float};
use overdraft_core::route::Policy;
use overdraft_sim::workload::Arrivals;
use serde::Serialize;
use serde_json::{Value, json};

use crate::draw::{Draw, draw};
use crate::figures::{Figures, float, told};
use crate::flags::{self, Kept};
use crate::judge::{Judgement, Reason, Verdict};
use crate::show::{Grid, percent};
use crate::world::{Arm, Asks, World};
use crate::{Arguments, Told, jobs};

/// What the defaults are set beside, each admitting everything at once.
pub(crate) const BASELINES: [Policy; 5] = [
    Policy::RoundRobin,
    Policy::LeastLoad,
    Policy::TwoChoices,
    Policy::PrefixAffinity,
    Policy::Cost,
];

const DRAWS: u64 = 1_000;
const DRAWS_QUICK: u64 = 40;
/// Losses that are listed with all their figures; the others have a line.
const LISTED: usize = 25;
/// Between the seeds of two runs of a draw: they differ in dice, not in what is asked.
const DICE_APART: u64 = 1_000_000;
/// How much further away the workers are in the control, in milliseconds: too little to matter but by chance.
const FURTHER_MS: f64 = 0.001;
/// What the defaults may lose of a hundred draws, and how many times as often they have to win.
const LOSSES_MAX: f64 = 1.0;
const WINS_TIMES: f64 = 10.0;

/// A draw, run and judged.
#[derive(Debug, Serialize)]
struct Found {
    number: u64,
    /// For a terminal on this machine: paths of traces stand in it, so no record holds it.
    #[serde(skip)]
    command: String,
    /// As a case is kept: the same on every machine.
    flags: String,
    traits: Vec<crate::draw::Trait>,
    ours: Figures,
    /// By baseline.
    theirs: Vec<Figures>,
    judged: Vec<Judgement>,
    /// The defaults beside themselves, with workers a microsecond further away: what chance alone decides.
    control: Judgement,
}

impl Found {
    fn of(draw: Draw, traces: &Path, repeats: u64) -> Result<Self> {
        let asks = draw.world.sessions(draw.seed)?;
        let run = |arm, dice: u64| draw.world.run(arm, draw.seed + dice * DICE_APART, &asks);
        let ours = run(Arm::DEFAULT, 0)?;
        let theirs: Result<Vec<Figures>> =
            BASELINES.iter().map(|policy| run(Arm::off(*policy), 0)).collect();
        let theirs = theirs?;
        let control = control(&draw, &asks, ours)?;
        let mut judged: Vec<Judgement> =
            theirs.iter().map(|base| Judgement::of(base, &ours)).collect();
        if judged.iter().any(|one| one.verdict != Verdict::Tie) {
            // What could be chance is run again, wins like losses.
            let again = |arm, first| -> Result<Figures> {
                let more = (1..repeats).map(|dice| run(arm, dice));
                let all: Result<Vec<Figures>> = std::iter::once(Ok(first)).chain(more).collect();
                Ok(Figures::median(&all?))
            };
            let ours = again(Arm::DEFAULT, ours)?;
            for ((policy, theirs), judged) in BASELINES.iter().zip(&theirs).zip(&mut judged) {
                if judged.verdict != Verdict::Tie {
                    *judged = Judgement::of(&again(Arm::off(*policy), *theirs)?, &ours);
                }
            }
        }
        let command = draw.world.command(Arm::DEFAULT, draw.seed);
        let flags = draw.world.flags(draw.seed, traces);
        let Draw { number, traits, .. } = draw;
        Ok(Self { number, command, flags, traits, ours, theirs, judged, control })
    }

    fn loses(&self) -> bool {
        self.judged.iter().any(|one| one.verdict == Verdict::Loss)
    }

    /// To whom it loses, and why.
    fn told(&self) -> String {
        let lost = BASELINES.iter().zip(&self.judged);
        let lost = lost.filter(|(_, judged)| judged.verdict == Verdict::Loss);
        let told = lost.map(|(policy, judged)| format!("{policy}: {}", names(&judged.worse)));
        told.collect::<Vec<_>>().join("; ")
    }

    fn severity(&self) -> f64 {
        self.judged.iter().map(|one| one.severity).fold(0.0, f64::max)
    }
}

/// The defaults beside themselves in a world that differs by nothing that matters.
fn control(draw: &Draw, asks: &Asks, ours: Figures) -> Result<Judgement> {
    let network_ms = draw.world.network_ms + FURTHER_MS;
    let further = World { network_ms, ..draw.world.clone() };
    Ok(Judgement::of(&further.run(Arm::DEFAULT, draw.seed, asks)?, &ours))
}

/// Draws, runs, judges, tells.
pub(crate) fn part(arguments: &Arguments) -> Result<Told> {
    let traces = arguments.traces.is_dir().then_some(arguments.traces.as_path());
    if traces.is_none() {
        println!(
            "no traces in {}: generators alone, other draws than with them",
            arguments.traces.display()
        );
    }
    if let Some(number) = arguments.only {
        return alone(arguments, draw(arguments.seed, number, traces)?);
    }
    if let Some(line) = &arguments.world {
        let Kept { world, seed } = flags::read(line, &arguments.traces)?;
        let traits = Vec::new();
        return alone(arguments, Draw { number: seed, world, seed, traits, capacity: None });
    }
    let draws = arguments.draws.unwrap_or(if arguments.quick { DRAWS_QUICK } else { DRAWS });
    let count = usize::try_from(draws).context("so many draws")?;
    let job = |place: usize| {
        let number = u64::try_from(place).unwrap_or(u64::MAX);
        let found = draw(arguments.seed, number, traces)
            .and_then(|draw| Found::of(draw, &arguments.traces, arguments.repeats));
        found.map_err(|error| format!("{error:#}"))
    };
    let results = jobs::run(count, arguments.jobs, job, |through| {
        eprint!("\r{through} of {count} draws ");
    });
    eprintln!();
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for (number, result) in (0..).zip(results) {
        match result.and_then(|inner| inner) {
            Ok(one) => found.push(one),
            Err(why) => failed.push((number, why)),
        }
    }
    Ok(tell(arguments.seed, &found, &failed))
}

fn tell(seed: u64, found: &[Found], failed: &[(u64, String)]) -> Told {
    println!("drawn search: {} draws of seed {seed}, cost/peak beside each\n", found.len());
    println!("{}", by_baseline(found));
    println!("{}", by_chance(found));
    println!("{}", by_axis(found));
    list(found);
    for (number, why) in failed {
        println!("draw {number} could not be run: {why}");
    }
    let lost: Vec<&Found> = found.iter().filter(|one| one.loses()).collect();
    let verdicts: Vec<Value> = found
        .iter()
        .map(|one| {
            let verdicts: Vec<Verdict> = one.judged.iter().map(|judged| judged.verdict).collect();
            json!([one.number, verdicts])
        })
        .collect();
    let raw = json!({
        "seed": seed,
        "baselines": BASELINES.map(Policy::name),
        "verdicts": verdicts,
        "lost": lost,
        "failed": failed,
    });
    Told { raw, claims: claims(found, failed) }
}

/// Wins, ties and losses beside each baseline, and what losses are made of.
fn by_baseline(found: &[Found]) -> Grid {
    let mut grid = Grid::new(&["beside", "wins", "ties", "losses", "losses %", "late only"]);
    grid.add_header(Reason::ALL.iter().map(|reason| reason.name()));
    for (place, policy) in BASELINES.iter().enumerate() {
        let judged = || found.iter().filter_map(move |one| one.judged.get(place));
        let count = |of: &dyn Fn(&Judgement) -> bool| judged().filter(|one| of(one)).count();
        let losses = count(&|one| one.verdict == Verdict::Loss);
        let mut row = vec![
            Arm::off(*policy).to_string(),
            count(&|one| one.verdict == Verdict::Win).to_string(),
            count(&|one| one.verdict == Verdict::Tie).to_string(),
            losses.to_string(),
            percent(losses, found.len()),
            count(&|one| one.late_only).to_string(),
        ];
        row.extend(Reason::ALL.map(|reason| count(&|one| one.worse.contains(&reason)).to_string()));
        grid.add(row);
    }
    grid
}

/// The control: what is won and lost where nothing that matters differs.
fn by_chance(found: &[Found]) -> String {
    let count = |verdict| found.iter().filter(|one| one.control.verdict == verdict).count();
    let (wins, losses) = (count(Verdict::Win), count(Verdict::Loss));
    format!(
        "control, the defaults beside themselves with workers a microsecond further away: {wins} won, {losses} lost \
         ({} %)\n",
        percent(losses, found.len())
    )
}

/// The share of draws that lose, by where they lie on each axis.
fn by_axis(found: &[Found]) -> Grid {
    let mut grid = Grid::new(&["axis", "value", "draws", "lose to any %"]);
    grid.add_header(BASELINES.iter().map(|policy| policy.name()));
    let mut traits: Vec<_> = found.iter().flat_map(|one| &one.traits).collect();
    traits.sort_unstable();
    traits.dedup();
    for one in traits {
        let here = || found.iter().filter(|draw| draw.traits.contains(one));
        let all = here().count();
        let mut row = vec![
            one.axis.to_owned(),
            one.value.clone(),
            all.to_string(),
            percent(here().filter(|draw| draw.loses()).count(), all),
        ];
        row.extend((0..BASELINES.len()).map(|place| {
            let is_loss = |draw: &&Found| {
                draw.judged.get(place).is_some_and(|one| one.verdict == Verdict::Loss)
            };
            percent(here().filter(is_loss).count(), all)
        }));
        grid.add(row);
    }
    grid
}

/// The worst losses, each beside the baseline that shows it worst.
fn list(found: &[Found]) {
    let mut lost: Vec<&Found> = found.iter().filter(|one| one.loses()).collect();
    lost.sort_by(|one, other| other.severity().total_cmp(&one.severity()));
    println!("worst of {} draws that lose; 1 is at a limit", lost.len());
    for one in lost.iter().take(LISTED) {
        let places = 0..one.judged.len();
        let worst = places.max_by(|&left, &right| {
            one.judged[left].severity.total_cmp(&one.judged[right].severity)
        });
        let Some(place) = worst else { continue };
        println!("draw {} ({:.1}): {}", one.number, one.severity(), one.told());
        println!("      {}", one.command);
        println!("      {:20} {}", Arm::off(BASELINES[place]).to_string(), one.theirs[place]);
        println!("      {:20} {}", Arm::DEFAULT.to_string(), one.ours);
    }
    for one in lost.iter().skip(LISTED) {
        println!("draw {} ({:.1}): {}", one.number, one.severity(), one.told());
    }
    println!();
}

fn claims(found: &[Found], failed: &[(u64, String)]) -> Vec<Claim> {
    let claim = |figure: String, measured: f64, aim| Claim {
        demonstration: "S2",
        figure,
        measured: Ok(measured),
        aim,
    };
    let mut claims = vec![claim(
        "draws_that_could_not_be_run".to_owned(),
        as_float(failed.len()),
        Aim::AtMost(0.0),
    )];
    for (place, policy) in BASELINES.iter().enumerate() {
        let count = |verdict| {
            let is = |one: &&Found| one.judged.get(place).is_some_and(|one| one.verdict == verdict);
            as_float(found.iter().filter(is).count())
        };
        let (wins, losses) = (count(Verdict::Win), count(Verdict::Loss));
        let share = losses / as_float(found.len().max(1)) * 100.0;
        claims.push(claim(format!("losses_vs_{policy}"), share, Aim::AtMost(LOSSES_MAX)));
        let times = wins / losses.max(1.0);
        claims.push(claim(
            format!("wins_over_losses_vs_{policy}"),
            if losses > 0.0 || wins >= WINS_TIMES { times } else { WINS_TIMES },
            Aim::AtLeast(WINS_TIMES),
        ));
    }
    claims
}

/// One draw with all that is known of it.
fn alone(arguments: &Arguments, mut drawn: Draw) -> Result<Told> {
    drawn.world.tells_missed = true;
    for one in &drawn.traits {
        println!("{:14} {}", one.axis, one.value);
    }
    println!("{}\n", drawn.world.command(Arm::DEFAULT, drawn.seed));
    let at_once = World { arrivals: Arrivals::AtOnce, users: None, ..drawn.world.clone() };
    let asks = at_once.sessions(drawn.seed)?;
    let most = at_once.run(Arm::off(Policy::Cost), drawn.seed, &asks)?;
    let answered = float(most.asked) * (1.0 - most.unanswered) / most.seconds;
    let by_steps =
        drawn.capacity.map_or_else(String::new, |rate| format!("{rate:.2}/s by steps, "));
    println!("capacity {by_steps}{answered:.2}/s of all at once\n");
    let found = Found::of(drawn, &arguments.traces, arguments.repeats)?;
    println!("kept as: {}\n", found.flags);
    println!("{:20} {}", Arm::DEFAULT.to_string(), found.ours);
    println!("{:20} {}", "", told(&found.ours.missed));
    for ((policy, theirs), judged) in BASELINES.iter().zip(&found.theirs).zip(&found.judged) {
        println!("{:20} {theirs}", Arm::off(*policy).to_string());
        println!("{:20} {}", "", told(&theirs.missed));
        let (worse, better) = (names(&judged.worse), names(&judged.better));
        println!("{:20} {:?}; worse: {worse}; theirs: {better}", "", judged.verdict);
    }
    let raw: Value = json!({ "seed": arguments.seed, "draws": [found] });
    Ok(Told { raw, claims: Vec::new() })
}

fn names(reasons: &[Reason]) -> String {
    reasons.iter().map(|reason| reason.name()).collect::<Vec<_>>().join(", ")
}
