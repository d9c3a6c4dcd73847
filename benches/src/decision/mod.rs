//! Decision latency: the time of a routing decision in a large fleet (S6).
//!
//! The core alone, no socket: 64 workers up and loaded, prompts of 8,192 tokens in blocks of 16, an
//! index of a million blocks. *Decide* is [`Router::choose`](overdraft_core::route::Router::choose);
//! *place* is that and the booking, which is what a request waits for; *remember* is the index that
//! learns where the prompt went, done when the request is on its way; *end* is the booking back. The
//! best of a few rounds is told: the machine's other work can only add.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

mod index;
mod scene;
mod waiting;

use std::process::ExitCode;

use anyhow::Result;
use overdraft_claims::{Aim, Claim, judge, save};
use serde::Serialize;

use self::index::{Churn, Held};
use self::scene::{Feed, Prompts, Scene, Times};
use self::waiting::Events;

/// Most that a decision may take at the median, in microseconds.
const DECISION_US_MAX: f64 = 5.0;
/// Most that an event may take while 1,000 wait, at the median and at the 99th percentile.
const EVENT_US_MAX: f64 = 10.0;
const EVENT_P99_US_MAX: f64 = 30.0;
/// Most memory for a block held.
const BLOCK_BYTES_MAX: f64 = 40.0;
/// Fewest blocks taken in a second by one core.
const BLOCKS_PER_SECOND_MIN: f64 = 1e6;

/// What `--only` calls the events while requests wait.
const WAITING: &str = "waiting";

/// Measures routing decisions.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Under a minute; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
    /// Measures one kind of prompt only, or `waiting`, and no index: for profiles
    #[arg(long)]
    only: Option<String>,
}

/// Everything measured.
#[derive(Serialize)]
struct Figures {
    decisions: Vec<Row>,
    waiting: Events,
    reported: Held,
    churned: Churn,
    machine_load: String,
}

/// One kind of prompt before one kind of fleet.
#[derive(Serialize)]
struct Row {
    what: String,
    prompts: Prompts,
    times: Times,
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let rounds = if arguments.quick { 5 } else { 15 };
    println!(
        "{:<44}{:>8}{:>8}{:>8}{:>8}{:>10}{:>8}{:>8}{:>8}",
        "64 workers, 8,192 tokens, µs",
        "decide",
        "p99",
        "place",
        "p99",
        "remember",
        "p99",
        "ns/block",
        "end"
    );
    let mut decisions = Vec::new();
    for feed in [Feed::Reports, Feed::Estimates] {
        let mut scene = Scene::new(feed);
        for prompts in Prompts::ALL {
            if arguments.only.as_deref().is_none_or(|only| only == prompts.name()) {
                let times = scene.measure(prompts, rounds);
                let what = format!("{}: {}", feed.name(), prompts.told());
                let row = Row { what, prompts, times };
                row.print();
                decisions.push(row);
            }
        }
    }
    if arguments.only.as_deref().is_some_and(|only| only != WAITING) {
        return Ok(ExitCode::SUCCESS);
    }
    let waiting = waiting::measure(rounds);
    waiting.print();
    if arguments.only.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    let (reported, churned) = (index::reported(rounds), index::churned(rounds));
    let machine_load = overdraft_claims::machine_load();
    let figures = Figures { decisions, waiting, reported, churned, machine_load };
    figures.print();
    if arguments.save {
        println!("raw results: {}", save("decision", &figures)?);
    }
    let claims = figures.claims();
    Ok(judge(&claims))
}

impl Row {
    fn print(&self) {
        let Times { decide_p50, decide_p99, place_p50, place_p99, .. } = self.times;
        let Times { remember_p50, remember_p99, remember_ns_per_block, end_p50, .. } = self.times;
        println!(
            "{:<44}{decide_p50:>8.2}{decide_p99:>8.2}{place_p50:>8.2}{place_p99:>8.2}\
             {remember_p50:>10.2}{remember_p99:>8.2}{remember_ns_per_block:>8.1}{end_p50:>8.2}",
            self.what
        );
    }
}

impl Events {
    fn print(&self) {
        let Self { waiting, called, called_most, .. } = self;
        println!(
            "\n{waiting} wait; an event with all that it calls, µs{:>13}{:>8}",
            "median", "p99"
        );
        let rows = [
            ("an arrival", self.arrival_p50, self.arrival_p99),
            ("a first token", self.first_token_p50, self.first_token_p99),
            ("an end", self.end_p50, self.end_p99),
            ("of these, each request that is called", self.call_p50, self.call_p99),
        ];
        for (what, median, p99) in rows {
            println!("{what:<44}{median:>8.2}{p99:>8.2}");
        }
        println!("an end calls {called:.1} on average, {called_most} at most");
    }
}

impl Figures {
    fn print(&self) {
        let Self { reported, churned, machine_load, .. } = self;
        let millions = |per_second: f64| per_second / 1e6;
        println!(
            "\nreports:   {:.1} M blocks a second, {:.1} bytes per block held",
            millions(reported.per_second),
            reported.bytes_per_block
        );
        println!(
            "estimates: {:.1} M blocks a second, {:.1} bytes per block held, full and churning",
            millions(churned.per_second),
            churned.bytes_per_block
        );
        println!("machine load (1, 5, 15 minutes): {machine_load}");
    }

    fn claims(&self) -> Vec<Claim> {
        let claim = |figure: &str, measured, aim| Claim {
            demonstration: "S6",
            figure: figure.to_owned(),
            measured: Ok(measured),
            aim,
        };
        let worst = |of: fn(&Times) -> f64, kinds: &[Prompts]| {
            let rows = self.decisions.iter().filter(|row| kinds.contains(&row.prompts));
            rows.map(|row| of(&row.times)).fold(0.0, f64::max)
        };
        let decide = worst(|times| times.decide_p50, &Prompts::ALL);
        let place = |kind| worst(|times| times.place_p50, &[kind]);
        let most = Aim::AtMost(DECISION_US_MAX);
        let event_p99 = Aim::AtMost(EVENT_P99_US_MAX);
        let least = Aim::AtLeast(BLOCKS_PER_SECOND_MIN / 1e6);
        vec![
            claim("decide_us", decide, most),
            claim("place_held_us", place(Prompts::Held), most),
            claim("place_turn_us", place(Prompts::Turn), most),
            claim("place_new_us", place(Prompts::New), most),
            claim("waiting_arrival_us", self.waiting.arrival_p50, Aim::AtMost(EVENT_US_MAX)),
            claim("waiting_arrival_p99_us", self.waiting.arrival_p99, event_p99),
            claim(
                "waiting_first_token_us",
                self.waiting.first_token_p50,
                Aim::AtMost(EVENT_US_MAX),
            ),
            claim("waiting_first_token_p99_us", self.waiting.first_token_p99, event_p99),
            claim("waiting_end_us", self.waiting.end_p50, Aim::AtMost(EVENT_US_MAX)),
            claim("waiting_end_p99_us", self.waiting.end_p99, event_p99),
            claim("waiting_call_us", self.waiting.call_p50, Aim::AtMost(EVENT_US_MAX)),
            claim("waiting_call_p99_us", self.waiting.call_p99, event_p99),
            claim("bytes_reported", self.reported.bytes_per_block, Aim::AtMost(BLOCK_BYTES_MAX)),
            claim("bytes_estimated", self.churned.bytes_per_block, Aim::AtMost(BLOCK_BYTES_MAX)),
            claim("mblocks_reported", self.reported.per_second / 1e6, least),
            claim("mblocks_estimated", self.churned.per_second / 1e6, least),
        ]
    }
}
