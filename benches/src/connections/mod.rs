//! Thousands of streams and idle connections on one gateway: errors, memory, and what health answers meanwhile. (S4)
//!
//! Simulated workers whose steps take 200 ms stand behind a real gateway, `overdraft bench` asks for the streams, and
//! this process keeps idle connections open and asks for `/health` ten times a second. Everything shares the machine.
//! A stream takes two descriptors of the gateway and an idle connection one, so `ulimit -n` bounds what can be tried.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

mod crowd;
mod process;
mod scene;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use overdraft_claims::{Aim, Claim, judge, machine_load, percentile, save};

use self::scene::{Measured, Scene};
use crate::runtime;

/// What design asks of one gateway: so many streams beside so many idle connections.
const EACH: u32 = 10_000;
const EACH_QUICK: u32 = 2_000;
/// For which all streams are there, in seconds.
const SECONDS: u32 = 40;
const SECONDS_QUICK: u32 = 10;
/// Descriptors of the gateway that are none of these connections.
const SPARE_DESCRIPTORS: u64 = 500;
/// Descriptors of the gateway for a stream and an idle connection together.
const DESCRIPTORS_EACH: u64 = 3;

const IDLE_KIB_MAX: f64 = 32.0;
const STREAM_KIB_MAX: f64 = 64.0;
const HEALTH_MS_MAX: f64 = 50.0;

/// Opens streams and idle connections.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// About half a minute with 2,000 of each
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
    /// Streams of five tokens a second; by default 10,000, or as many as there are descriptors for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    streams: Option<u32>,
    /// Connections that ask for nothing; by default as many as streams
    #[arg(long, value_name = "N")]
    idle: Option<u32>,
    /// The binary to try; by default the one beside this one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let binary = arguments.binary.clone().map_or_else(crate::binary::beside, Ok)?;
    let scene = scene(arguments, process::descriptors()?)?;
    let Scene { streams, idle, seconds } = scene;
    println!(
        "{streams} streams and {idle} idle connections for {seconds} s; workers are simulated; machine load {}",
        machine_load()
    );
    let measured = runtime()?.block_on(scene.measure(&binary))?;
    report(scene, &measured);
    println!("machine load {}", machine_load());
    if arguments.save {
        println!("raw results: {}", save("connections", &(scene, &measured))?);
    }
    Ok(judge(&claims(scene, &measured)))
}

/// What is tried where a process may have so many descriptors.
fn scene(arguments: &Arguments, descriptors: u64) -> Result<Scene> {
    let usable = descriptors.saturating_sub(SPARE_DESCRIPTORS);
    let most = u32::try_from(usable / DESCRIPTORS_EACH).unwrap_or(u32::MAX);
    let wanted = if arguments.quick { EACH_QUICK } else { EACH };
    let each = wanted.min(most);
    let streams = arguments.streams.unwrap_or(each);
    let idle = arguments.idle.unwrap_or(arguments.streams.unwrap_or(each));
    let needed = 2 * u64::from(streams) + u64::from(idle);
    ensure!(
        needed <= usable,
        "{streams} streams and {idle} idle connections take {} descriptors, and `ulimit -Hn` is {descriptors}; \
         ask for fewer, or raise it",
        needed + SPARE_DESCRIPTORS
    );
    let seconds = if arguments.quick { SECONDS_QUICK } else { SECONDS };
    Ok(Scene { streams, idle, seconds })
}

fn report(scene: Scene, measured: &Measured) {
    let Measured { kib, cores, .. } = measured;
    println!(
        "\nanswered whole: {} of {}; a token every {:.0} ms, p99 {:.0} ms",
        measured.whole, scene.streams, measured.token_ms, measured.token_p99_ms
    );
    println!(
        "memory of the gateway, MiB: {:.0} at first, {:.0} with idle connections, {:.0} with streams beside; {cores:.2} cores",
        kib[0] / 1_024.0,
        kib[1] / 1_024.0,
        kib[2] / 1_024.0
    );
    let asked = [("operators", &measured.health_ms), ("clients", &measured.door_health_ms)];
    for (who, answers) in asked {
        println!(
            "/health where {who} ask: {} answers, median {:.1} ms, p99 {:.1} ms, most {:.1} ms",
            answers.len(),
            percentile(answers.clone(), 50),
            percentile(answers.clone(), 99),
            most(answers)
        );
    }
}

/// How much was tried, where it is as much as is asked of one gateway.
fn size(scene: Scene) -> Result<f64, String> {
    let Scene { streams, idle, .. } = scene;
    if EACH <= streams.min(idle) {
        return Ok(f64::from(streams) + f64::from(idle));
    }
    Err(format!("{streams} and {idle} were tried; `ulimit -Hn` of 31,000 and no --quick allow all"))
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

fn claims(scene: Scene, measured: &Measured) -> [Claim; 5] {
    let claim = |figure: &str, measured: Result<f64, String>, aim: Aim| Claim {
        demonstration: "S4",
        figure: figure.to_owned(),
        measured,
        aim,
    };
    let [first, idle, busy] = measured.kib;
    let idle_kib = (idle - first) / f64::from(scene.idle);
    let idle_kib = if scene.idle == 0 { Err("there were none".to_owned()) } else { Ok(idle_kib) };
    let stream_kib = (busy - idle) / f64::from(scene.streams);
    let missing = f64::from(scene.streams) - f64::from(measured.whole);
    [
        claim("streams_and_idle_connections", size(scene), Aim::AtLeast(f64::from(2 * EACH))),
        claim("streams_not_answered", Ok(missing), Aim::AtMost(0.0)),
        claim("idle_connection_kib", idle_kib, Aim::AtMost(IDLE_KIB_MAX)),
        claim("stream_kib", Ok(stream_kib), Aim::AtMost(STREAM_KIB_MAX)),
        claim("health_most_ms", Ok(most(&measured.health_ms)), Aim::AtMost(HEALTH_MS_MAX)),
    ]
}
