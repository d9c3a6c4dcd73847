//! Cost of observation: the gateway watched beside the gateway alone (S4).
//!
//! Three gateways stand before one instant worker, each a process of its own: one as it comes, one that traces a
//! tenth of its requests, and one that is traced as well, whose dashboard is open and whose metrics are scraped. All
//! get the same load at the same time, at a pace that they bear with ease: what a watcher costs by the second
//! then falls on as many requests as the design names, not on as many as fit. Each tells the CPU time that it has
//! used, and the medians over rounds are compared.
//!
//! **Invariant:** nothing is judged unless the watchers had what they asked for: spans, events and scrapes are counted.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

mod watchers;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use overdraft_claims::{Aim, Claim, as_float, judge, machine_load, median, save};
use overdraft_gateway::{GenAi, TracingSettings};
use overdraft_otlp::{Endpoint, ExporterSettings, Parents};
use serde::Serialize;
use tokio::task::JoinSet;

use self::watchers::Watchers;
use crate::gateway::child::Process;
use crate::gateway::load::{self, Request, Volume};
use crate::gateway::meter::until_ready;
use crate::runtime;

/// Most that a watched gateway may cost, as a multiple of one that is not.
const WATCHED_RATIO_MAX: f64 = 1.1;
/// Most that tracing may cost a request, in microseconds.
const TRACED_US_MAX: f64 = 3.0;
/// So many of a thousand requests are traced.
const SAMPLE_PERMILLE: u16 = 100;
/// How long a batch of spans may take.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests a second that each gateway gets.
const RATE: usize = 1_000;
/// Connections that they come over.
const CONNECTIONS: usize = 20;
/// Bytes of a prompt.
const PROMPT_BYTES: usize = 2_000;
/// How long a round takes: as long as it is from one scrape to the next.
const ROUND: Duration = watchers::SCRAPE_EVERY;
const ROUNDS: usize = 24;
const ROUNDS_QUICK: usize = 5;

/// Measures what watching the gateway costs it.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Under a minute; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
}

/// Everything measured: CPU-µs per request, a figure per round, and what the watchers had.
#[derive(Debug, Serialize)]
struct Figures {
    alone: Vec<f64>,
    traced: Vec<f64>,
    watched: Vec<f64>,
    /// Spans that the collector took of the traced and the watched gateway.
    spans: [u64; 2],
    events: u64,
    scrapes: u64,
    machine_load: String,
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let rounds = if arguments.quick { ROUNDS_QUICK } else { ROUNDS };
    let figures = runtime()?.block_on(measure(rounds))?;
    table(&figures);
    if arguments.save {
        println!("raw results: {}", save("observe", &figures)?);
    }
    Ok(judge(&claims(&figures)))
}

/// How a gateway that traces is set.
pub(crate) fn tracing(collector: &str) -> Result<TracingSettings> {
    let exporter = ExporterSettings {
        endpoint: Endpoint::parse(&format!("http://{collector}"))?,
        headers: Vec::new(),
        timeout: EXPORT_TIMEOUT,
        resource: Vec::new(),
    };
    Ok(TracingSettings {
        exporter,
        sample_permille: SAMPLE_PERMILLE,
        parents: Parents::Honoured,
        gen_ai: GenAi::Off,
    })
}

async fn measure(rounds: usize) -> Result<Figures> {
    let machine_load = machine_load();
    // The mock takes what it is sent and answers 200: a collector that costs the gateway nothing of its own.
    let (worker, collector) = (Process::start(&["mock"]).await?, Process::start(&["mock"]).await?);
    let (to, spans_to) = (worker.address.to_string(), collector.address.to_string());
    let alone = Process::start(&["proxied", &to]).await?;
    let traced = Process::start(&["traced", &to, &spans_to]).await?;
    let watched = Process::start(&["traced", &to, &spans_to]).await?;
    let mut gateways = [alone, traced, watched];
    for gateway in &gateways {
        until_ready(gateway.address).await?;
    }
    let watchers = Watchers::start(gateways[2].address);
    let request = load::whole(PROMPT_BYTES);
    let mut costs: [Vec<f64>; 3] = Default::default();
    for round in 0..=rounds {
        let cost = one_round(&mut gateways, &request, round).await?;
        // The first one fills pools and caches and is forgotten.
        for (costs, cost) in costs.iter_mut().zip(cost).filter(|_| 0 < round) {
            costs.push(cost);
        }
    }
    let (events, scrapes) = watchers.finish().await?;
    let spans = [
        watchers::spans_exported(gateways[1].address).await?,
        watchers::spans_exported(gateways[2].address).await?,
    ];
    for process in gateways.into_iter().chain([worker, collector]) {
        process.finish().await?;
    }
    let [alone, traced, watched] = costs;
    let figures = Figures { alone, traced, watched, spans, events, scrapes, machine_load };
    watched_as_said(&figures)?;
    Ok(figures)
}

/// Sends the same to all at once; what a request cost each.
async fn one_round(
    gateways: &mut [Process; 3],
    request: &Arc<Request>,
    round: usize,
) -> Result<[f64; 3]> {
    let requests = RATE * usize::try_from(ROUND.as_secs())?;
    let volume = Volume { requests, connections: CONNECTIONS };
    let mut used = [0.0; 3];
    for (used, gateway) in used.iter_mut().zip(gateways.iter_mut()) {
        *used = -gateway.cpu_us().await?;
    }
    let mut running = JoinSet::new();
    for place in 0..gateways.len() {
        // Who is asked first is woken first, each time: they take turns at that.
        let to = gateways[(place + round) % gateways.len()].address;
        let request = Arc::clone(request);
        running.spawn(async move { load::paced(to, &request, volume, ROUND).await });
    }
    while let Some(sent) = running.join_next().await {
        sent??;
    }
    for (used, gateway) in used.iter_mut().zip(gateways.iter_mut()) {
        *used = (*used + gateway.cpu_us().await?) / as_float(volume.requests);
    }
    Ok(used)
}

/// Refuses figures of a gateway that was not watched.
fn watched_as_said(figures: &Figures) -> Result<()> {
    let rounds = u64::try_from(figures.alone.len())?;
    ensure!(rounds <= figures.scrapes, "the metrics were scraped {} times only", figures.scrapes);
    ensure!(rounds * ROUND.as_secs() / 2 <= figures.events, "{} events came", figures.events);
    let requests = rounds * u64::try_from(RATE)? * ROUND.as_secs();
    // Two spans for each sampled request; half of these are well below what chance leaves.
    let spans_min = requests * u64::from(SAMPLE_PERMILLE) / 1_000;
    let fewest = figures.spans.iter().min().context("there are two")?;
    ensure!(spans_min <= *fewest, "{fewest} spans reached the collector; expected {spans_min}");
    Ok(())
}

/// By how much tracing makes a request dearer, in microseconds: the median over rounds.
fn traced_us(figures: &Figures) -> f64 {
    let pairs = figures.traced.iter().zip(&figures.alone);
    median(pairs.map(|(traced, alone)| traced - alone).collect())
}

/// The watched gateway's cost as a multiple of the other's: the median over rounds.
fn watched_ratio(figures: &Figures) -> f64 {
    let pairs = figures.watched.iter().zip(&figures.alone);
    median(pairs.map(|(watched, alone)| watched / alone).collect())
}

fn table(figures: &Figures) {
    println!("CPU-µs per request at {RATE}/s       least   median     most");
    for (what, costs) in
        [("alone", &figures.alone), ("traced", &figures.traced), ("watched", &figures.watched)]
    {
        let least = costs.iter().copied().fold(f64::NAN, f64::min);
        let most = costs.iter().copied().fold(f64::NAN, f64::max);
        println!("{what:<28}{least:>9.1}{:>9.1}{most:>9.1}", median(costs.clone()));
    }
    println!("tracing a tenth adds {:.1} µs a request", traced_us(figures));
    let Figures { events, scrapes, spans, .. } = figures;
    println!("watchers had {events} events, {scrapes} scrapes and {} spans", spans[1]);
    println!("machine load at the start (1, 5, 15 minutes): {}", figures.machine_load);
}

fn claims(figures: &Figures) -> [Claim; 2] {
    let claim = |figure: &str, measured, most| Claim {
        demonstration: "S4",
        figure: figure.to_owned(),
        measured: Ok(measured),
        aim: Aim::AtMost(most),
    };
    [
        claim("watched_cpu_ratio", watched_ratio(figures), WATCHED_RATIO_MAX),
        claim("traced_cpu_us", traced_us(figures), TRACED_US_MAX),
    ]
}
