//! The table, the claims, and the raw figures.

use std::process::ExitCode;

use anyhow::Result;

use crate::meter::{Bench, CASES, Figures, Pair, Plan, median};

/// Most that a streamed chunk may cost, as a multiple of the bare proxy: 16/15 of the design.
const CHUNK_RATIO_MAX: f64 = 1.07;
/// Most that a request may be delayed, as a multiple of what the bare proxy delays it: 0.10/0.06.
const ADDED_RATIO_MAX: f64 = 1.67;
/// Most memory ever resident, in MB.
const PEAK_MB_MAX: f64 = 60.0;

/// Measures, prints, judges.
pub(crate) async fn run(plan: Plan<'_>, save: bool) -> Result<ExitCode> {
    let figures = Bench::start().await?.measure(plan).await?;
    table(&figures);
    if save {
        let path = store(&figures)?;
        println!("raw results: {path}");
    }
    let mut short = false;
    for (figure, measured, aim) in claims(&figures) {
        if measured.is_nan() {
            continue; // left out on request
        }
        let verdict = if measured <= aim { "holds" } else { "falls short" };
        short |= measured > aim;
        println!("claim S9 {figure}={measured:.2} aim<={aim} {verdict}");
    }
    Ok(if short { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn table(figures: &Figures) {
    println!("{:<34}{:>10}{:>10}{:>8}", "median of rounds", "bare", "gateway", "ratio");
    let row = |what: &str, pair: &Pair| {
        if pair.bare.is_empty() {
            return; // left out on request
        }
        let (bare, gateway) = (median(pair.bare.clone()), median(pair.gateway.clone()));
        println!("{what:<34}{bare:>10.1}{gateway:>10.1}{:>8.2}", pair.ratio());
    };
    for (name, pair) in &figures.requests {
        row(&format!("CPU-µs per request, prompt {name}"), pair);
    }
    row("CPU-µs per streamed chunk", &figures.chunks);
    let (p50, p99) = added(figures);
    row("added latency p50 at 1, µs", &p50);
    row("added latency p99 at 1, µs", &p99);
    if 0.0 < figures.peak_gateway {
        let (bare, gateway) = (figures.peak_bare, figures.peak_gateway);
        let what = "peak memory at 16k, MB";
        println!("{what:<34}{bare:>10.1}{gateway:>10.1}{:>8.2}", gateway / bare);
    }
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

fn claims(figures: &Figures) -> Vec<(String, f64, f64)> {
    let mut claims: Vec<(String, f64, f64)> = CASES
        .iter()
        .zip(&figures.requests)
        .map(|(case, (name, pair))| (format!("cpu_{name}_ratio"), pair.ratio(), case.ratio_max))
        .collect();
    claims.push(("cpu_chunk_ratio".to_owned(), figures.chunks.ratio(), CHUNK_RATIO_MAX));
    claims.push(("added_p50_ratio".to_owned(), added(figures).0.ratio(), ADDED_RATIO_MAX));
    let peak = if figures.peak_gateway > 0.0 { figures.peak_gateway } else { f64::NAN };
    claims.push(("peak_memory_mb".to_owned(), peak, PEAK_MB_MAX));
    claims
}

/// Writes the figures of every round.
fn store(figures: &Figures) -> Result<String> {
    let runs = concat!(env!("CARGO_MANIFEST_DIR"), "/runs");
    std::fs::create_dir_all(runs)?;
    let path = format!("{runs}/gateway-{}.json", overdraft_telemetry::unix_seconds());
    std::fs::write(&path, serde_json::to_vec_pretty(figures)?)?;
    Ok(path)
}
