//! A world from the flags of `overdraft simulate`: what a case is kept as.
//!
//! Only flags that a drawn world can have are known. Rows of our own stand as `--workload rows:…`, and traces as
//! `--workload azure:$TRACES/…`, so that a line means the same on every machine.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Parser;
use overdraft_core::admit::Priority;
use overdraft_sim::fleet::{CacheKnowledge, Overdraft, RESTART_DEFAULT};
use overdraft_sim::workload::Arrivals;

use crate::table::{self, Rows};
use crate::world::{Asked, Machines, World};

/// Where traces lie, in a kept line.
pub(crate) const TRACES: &str = "$TRACES";

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Flags {
    #[arg(long)]
    profile: Option<String>,
    #[arg(long, default_value_t = 1)]
    workers: u32,
    #[arg(long)]
    pool: Vec<String>,
    #[arg(long)]
    kv_tokens: Option<u32>,
    #[arg(long)]
    kv_events: bool,
    #[arg(long, default_value_t = 0.25)]
    network_ms: f64,
    #[arg(long, default_value_t = 1_000.0)]
    scrape_interval_ms: f64,
    #[arg(long, default_value_t = 1)]
    gateways: u32,
    #[arg(long)]
    crash_on_oom: bool,
    #[arg(long)]
    refusing: Vec<String>,
    #[arg(long, value_delimiter = ',')]
    priorities: Vec<String>,
    #[arg(long, value_delimiter = ',')]
    tenants: Vec<f64>,
    #[arg(long)]
    workload: String,
    #[arg(long)]
    users: Option<u32>,
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    #[arg(long)]
    request_rate: Option<f64>,
    #[arg(long, default_value_t = 1.0)]
    burstiness: f64,
    #[arg(long)]
    num_prompts: u64,
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// A world and its seed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    pub(crate) world: World,
    pub(crate) seed: u64,
}

/// Reads a line as [`World::flags`] tells it.
///
/// # Errors
/// A flag that is not known, or a value that is none.
pub(crate) fn read(line: &str, traces: &Path) -> Result<Kept> {
    let flags = Flags::try_parse_from(line.split_whitespace()).context("flags of a world")?;
    let fleet = match &flags.profile {
        Some(profile) => vec![Machines { count: flags.workers, profile: profile.clone() }],
        None => flags.pool.iter().map(|text| machines(text)).collect::<Result<_>>()?,
    };
    let priorities = flags.priorities.iter().map(|text| priority(text)).collect::<Result<_>>()?;
    let asked = if flags.workload.starts_with(table::PREFIX) {
        Asked::Rows(flags.workload.parse::<Rows>()?)
    } else {
        Asked::Named(flags.workload.replace(TRACES, &traces.display().to_string()))
    };
    let world = World {
        fleet,
        kv_tokens: flags.kv_tokens,
        knowledge: if flags.kv_events {
            CacheKnowledge::Reported
        } else {
            CacheKnowledge::Estimated
        },
        network_ms: flags.network_ms,
        scrape_ms: flags.scrape_interval_ms,
        gateways: flags.gateways,
        overdraft: if flags.crash_on_oom {
            Overdraft::Crash(RESTART_DEFAULT)
        } else {
            Overdraft::Preempt
        },
        refusing: flags.refusing,
        priorities,
        tenants: flags.tenants,
        asked,
        arrivals: match flags.request_rate {
            Some(rate) if rate.is_infinite() => Arrivals::AtOnce,
            Some(rate) => Arrivals::Rate { per_second: rate, burstiness: flags.burstiness },
            None => Arrivals::Own { speed: flags.speed },
        },
        users: flags.users,
        requests: flags.num_prompts,
        tells_missed: false,
    };
    Ok(Kept { world, seed: flags.seed })
}

/// `2xl4-tp1/llama-3-8b-int4`.
fn machines(text: &str) -> Result<Machines> {
    let (count, profile) = text.split_once('x').with_context(|| format!("`{text}`"))?;
    Ok(Machines { count: count.parse()?, profile: profile.to_owned() })
}

/// `flex:3`.
fn priority(text: &str) -> Result<(Priority, f64)> {
    let (name, weight) = text.split_once(':').with_context(|| format!("`{text}`"))?;
    let Ok(priority) = name.parse() else { bail!("`{name}` is no priority") };
    Ok((priority, weight.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn stays(line: &str) {
        let kept = read(line, Path::new("/traces")).unwrap();
        assert_eq!(kept.world.flags(kept.seed, Path::new("/traces")), line);
    }

    #[test]
    fn a_world_is_read_as_it_is_told() {
        stays(
            "--profile h100-tp1/llama-3-8b-bf16 --workers 64 --network-ms 0.25 \
             --scrape-interval-ms 1000 --workload unique:question=1000 --request-rate inf \
             --num-prompts 2000 --seed 3",
        );
        stays(
            "--pool 2xl4-tp1/llama-3-8b-int4 --pool 1xh100-tp1/llama-3-8b-fp8 --kv-tokens 40960 \
             --kv-events --network-ms 150 --scrape-interval-ms 20000 --gateways 4 --crash-on-oom \
             --refusing 1:saturated:5-20 --refusing 0:gone --priorities flex:1.5,default:2,priority:3 --tenants 10,1 --workload \
             mooncake:$TRACES/mooncake.jsonl --speed 2.5 --num-prompts 300 --seed 0",
        );
        stays(
            "--profile h100-tp1/llama-3-8b-bf16 --workers 2 --network-ms 1 --scrape-interval-ms \
             500 --workload rows:count=300,rate=2.5,short=100,long=20000,share=0.02,output=50,\
             groups=3,prefix=500,crowd=40,when=12.5,dice=7 --users 8 --num-prompts 300 --seed 1",
        );
        stays(
            "--profile h100-tp1/llama-3-8b-bf16 --workers 2 --network-ms 1 --scrape-interval-ms \
             500 --workload chat --request-rate 8 --burstiness 0.3 --num-prompts 300 --seed 1",
        );
    }
}
