//! Report of the gateway bench: table, claims and raw figures.

use std::iter;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use overdraft_claims::{Aim, Claim, judge, median, save};

use super::meter::{Bench, CASES, Figures, Pair, PeerFigures, Plan};

/// Most that a streamed chunk may cost, as a multiple of the bare proxy: 16/15 of the design.
const CHUNK_RATIO_MAX: f64 = 1.07;
/// The same of the cheapest peer: 16/24.5.
const CHUNK_PEER_RATIO_MAX: f64 = 0.65;
/// Most that a request may be delayed, as a multiple of what the bare proxy delays it: 0.10/0.06.
const ADDED_RATIO_MAX: f64 = 1.67;
/// Most memory ever resident, in MB.
const PEAK_MB_MAX: f64 = 60.0;
/// Peers that the comparison needs.
const PEERS_MIN: usize = 2;

/// Measures, prints, judges.
pub(crate) async fn run(plan: Plan<'_>, python: &Path, keep: bool) -> Result<ExitCode> {
    let mut bench = Bench::start(Some(python)).await?;
    let figures = bench.measure(plan).await?;
    bench.finish().await?;
    table(&figures);
    if keep {
        println!("raw results: {}", save("gateway", &figures)?);
    }
    let claims = claims(&figures);
    Ok(judge(&claims))
}

/// Sends the load and judges nothing: for counting what it makes hot.
pub(crate) async fn train() -> Result<ExitCode> {
    let mut bench = Bench::start(None).await?;
    bench.measure(Plan::QUICK).await?;
    bench.finish().await?;
    Ok(ExitCode::SUCCESS)
}

fn table(figures: &Figures) {
    print!("{:<34}{:>10}{:>10}{:>8}", "median of rounds", "bare", "gateway", "ratio");
    for peer in iter::once(&figures.alone).chain(&figures.peers) {
        print!("{:>22}", peer.name);
    }
    println!();
    let row = |what: &str, pair: &Pair, of: &dyn Fn(&PeerFigures) -> Vec<f64>| {
        if pair.bare.is_empty() {
            return; // left out on request
        }
        let (bare, gateway) = (median(pair.bare.clone()), median(pair.gateway.clone()));
        print!("{what:<34}{bare:>10.1}{gateway:>10.1}{:>8.2}", pair.ratio());
        for peer in iter::once(&figures.alone).chain(&figures.peers).map(of) {
            if peer.is_empty() {
                print!("{:>22}", "");
            } else {
                print!("{:>22.1}", median(peer));
            }
        }
        println!();
    };
    for (case, (name, pair)) in figures.requests.iter().enumerate() {
        let what = format!("CPU-µs per request, prompt {name}");
        row(&what, pair, &|peer| peer.requests[case].clone());
    }
    row("CPU-µs per streamed chunk", &figures.chunks, &|peer| peer.chunks.clone());
    let (p50, p99) = added(figures);
    row("added latency p50 at 1, µs", &p50, &|_| Vec::new());
    row("added latency p99 at 1, µs", &p99, &|_| Vec::new());
    if 0.0 < figures.peak_gateway {
        let peaks = Pair { bare: vec![figures.peak_bare], gateway: vec![figures.peak_gateway] };
        row("peak memory at 16k, MB", &peaks, &|peer| vec![peer.peak]);
    }
    for (name, why) in &figures.missing {
        println!("not measured: {name}: {why}");
    }
    println!("machine load at the start (1, 5, 15 minutes): {}", figures.machine_load);
}

/// Latency beyond the direct one of the same round, in microseconds: median, 99th percentile.
fn added(figures: &Figures) -> (Pair, Pair) {
    let over = |direct: &[f64], through: &[f64]| -> Vec<f64> {
        direct.iter().zip(through).map(|(direct, through)| (through - direct) * 1e3).collect()
    };
    let pair = |direct: &[f64], through: &Pair| Pair {
        bare: over(direct, &through.bare),
        gateway: over(direct, &through.gateway),
    };
    (pair(&figures.direct_p50, &figures.p50), pair(&figures.direct_p99, &figures.p99))
}

fn claims(figures: &Figures) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut add = |figure: String, measured: Result<f64, String>, most| {
        // What was left out on request is no number, and no claim.
        if !measured.as_ref().is_ok_and(|measured| measured.is_nan()) {
            let aim = Aim::AtMost(most);
            claims.push(Claim { demonstration: "S7", figure, measured, aim });
        }
    };
    for (at, (case, (name, pair))) in CASES.iter().zip(&figures.requests).enumerate() {
        add(format!("cpu_{name}_ratio"), Ok(pair.ratio()), case.ratio_max);
        let beside = beside_peers(figures, &|peer| peer.requests[at].clone());
        add(format!("cpu_{name}_peer_ratio"), beside, case.peer_ratio_max);
    }
    let chunks = &figures.chunks;
    add("cpu_chunk_ratio".to_owned(), Ok(chunks.ratio()), CHUNK_RATIO_MAX);
    let beside = beside_peers(figures, &|peer| peer.chunks.clone());
    add("cpu_chunk_peer_ratio".to_owned(), beside, CHUNK_PEER_RATIO_MAX);
    add("added_p50_ratio".to_owned(), Ok(added(figures).0.ratio()), ADDED_RATIO_MAX);
    let peak = if figures.peak_gateway > 0.0 { figures.peak_gateway } else { f64::NAN };
    add("peak_memory_mb".to_owned(), Ok(peak), PEAK_MB_MAX);
    claims
}

/// The gateway's figure over that of the cheapest peer, each by itself before the worker.
fn beside_peers(figures: &Figures, of: &dyn Fn(&PeerFigures) -> Vec<f64>) -> Result<f64, String> {
    if figures.peers.len() < PEERS_MIN {
        let count = figures.peers.len();
        return Err(format!("{count} peers are installed; expected {PEERS_MIN}, see README"));
    }
    let cheapest = figures.peers.iter().map(|peer| median(of(peer))).fold(f64::NAN, f64::min);
    Ok(median(of(&figures.alone)) / cheapest)
}
