//! Drawn worlds: a random fleet, its load, and the load's share of the fleet's capacity.
//!
//! Equal seeds and numbers draw equal worlds, whatever else is drawn. Each is one that an operator could run: prompts
//! fit the smallest cache, and a steady load lasts a while.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use overdraft_core::admit::Priority;
use overdraft_sim::Draws;
use overdraft_sim::fleet::{CacheKnowledge, Overdraft, RESTART_DEFAULT};
use serde::Serialize;

use crate::capacity::{self, Shape};
use crate::figures::{float, whole, whole32};
use crate::load::{self, Kind};
use crate::times::{Times, Way};
use crate::world::{Asked, Machines, World};

/// Profiles by the model that they serve; a fleet has one model.
const MODELS: [&[&str]; 3] = [
    &[
        "h100-tp1/llama-3-8b-bf16",
        "h100-tp1/llama-3-8b-fp8",
        "h200-tp1/llama-3-8b-bf16",
        "a100-80g-tp1/llama-3-8b-bf16",
        "l4-tp1/llama-3-8b-int4",
        "a10g-tp1/llama-3-8b-int4",
        "l4-tp1/llama-3-8b-bf16",
    ],
    &["h100-tp1/qwen-3-32b-fp8", "h100-tp2/qwen-3-32b-bf16"],
    &[
        "h100-tp2/llama-3-70b-fp8",
        "h100-tp4/llama-3-70b-bf16",
        "h100-tp4/llama-3-70b-fp8",
        "h200-tp1/llama-3-70b-fp8",
        "h200-tp2/llama-3-70b-fp8",
        "a100-80g-tp4/llama-3-70b-bf16",
    ],
];

const WORKERS: [u32; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
const NETWORK_MS: [f64; 10] = [0.25, 0.25, 0.25, 0.25, 1.0, 5.0, 20.0, 60.0, 100.0, 150.0];
const SCRAPE_MS: [f64; 8] = [200.0, 500.0, 1_000.0, 1_000.0, 1_000.0, 5_000.0, 10_000.0, 20_000.0];

/// Tries at a fleet that a load fits.
const TRIES_MAX: u32 = 64;
/// A cache holds the longest request so many times, at least.
const HOLDS: f64 = 1.5;
/// And the mean one so many times, and this many tokens.
const HOLDS_MEAN: f64 = 6.0;
const KV_TOKENS_MIN: f64 = 8_192.0;
/// A steady load lasts so many seconds, if a smaller fleet makes it.
const LASTS: f64 = 25.0;

/// Share of draws in which no more is asked than is answered within a queue's patience.
const BOUNDED: f64 = 0.85;
/// Seconds of work that may wait in those.
const BACKLOG: f64 = 15.0;
/// Requests that a run keeps when it is cut for that.
const REQUESTS_MIN: u64 = 150;
const WORKERS_MAX: u32 = 64;

/// The stream of a draw.
const STREAM: u64 = 0x6164_7665;

/// The stream of who refuses: of its own, so that the rest of a draw does not depend on it.
const STREAM_REFUSING: u64 = 0x7265_6675;

/// Share of draws in which somebody refuses, and of its workers that do at most.
const REFUSING: f64 = 0.1;
const REFUSING_SHARE: u64 = 4;

/// A world, and where it lies on each axis.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    pub(crate) number: u64,
    pub(crate) world: World,
    /// What decides its own draws.
    pub(crate) seed: u64,
    pub(crate) traits: Vec<Trait>,
    /// Requests a second that the fleet can answer, about, where that was reckoned.
    pub(crate) capacity: Option<f64>,
}

/// A place on an axis.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Trait {
    pub(crate) axis: &'static str,
    pub(crate) value: String,
}

/// The world of a number.
///
/// # Errors
/// Where a trace cannot be read.
pub(crate) fn draw(seed: u64, number: u64, traces: Option<&Path>) -> Result<Draw> {
    let mut dice = Draws::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15), STREAM);
    let kind = load::pick(&mut dice, traces.is_some());
    let mut traits = vec![place("load", kind.name())];
    let mut world = around(&mut dice, &mut traits);
    // The load at one request a second, to see what it is like; its times are scaled afterwards.
    let traces = traces.map_or_else(PathBuf::new, Path::to_path_buf);
    world.asked = kind.asked(&mut dice, &traces);
    world.requests = load::REQUESTS_SEEN;
    let seen = shape(&world, number)?;
    fleet(&mut dice, &mut world, seen, &mut traits)?;
    world.requests = load::requests(&mut dice, seen);
    let is_rows = matches!(world.asked, Asked::Rows(_));
    if is_rows {
        world.asked = load::sized(&world.asked, world.requests);
    }
    let seen = shape(&world, number)?;
    let capacity = pace(&mut dice, &mut world, kind, seen, &mut traits)?;
    let dice = Draws::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15), STREAM_REFUSING);
    refusing(dice, &mut world, &mut traits);
    Ok(Draw { number, world, seed: number, traits, capacity: Some(capacity) })
}

pub(crate) fn place(axis: &'static str, value: impl Into<String>) -> Trait {
    Trait { axis, value: value.into() }
}

fn shape(world: &World, seed: u64) -> Result<Shape> {
    Ok(Shape::of(world.sessions(seed)?.all()))
}

/// One of several.
pub(crate) fn one<T: Copy>(dice: &mut Draws, of: &[T]) -> T {
    let place = dice.below(u64::try_from(of.len()).unwrap_or(1));
    of[usize::try_from(place).unwrap_or(0).min(of.len() - 1)]
}

/// From the least to the most, each factor alike often.
pub(crate) fn between(dice: &mut Draws, least: f64, most: f64) -> f64 {
    least * (most / least).powf(dice.share())
}

/// To so many figures that a command can say it.
pub(crate) fn rounded(value: f64) -> f64 {
    if value <= 0.0 {
        return value;
    }
    let unit = 10_f64.powf(value.log10().floor() - 2.0);
    let text = format!("{:.6}", (value / unit).round() * unit);
    text.parse().unwrap_or(value)
}

/// All that stands around the fleet and its load.
fn around(dice: &mut Draws, traits: &mut Vec<Trait>) -> World {
    let mut world = World::new(1, MODELS[0][0], "", 1);
    if dice.share() < 0.5 {
        world.knowledge = CacheKnowledge::Reported;
    }
    world.network_ms = one(dice, &NETWORK_MS);
    world.scrape_ms = one(dice, &SCRAPE_MS);
    world.gateways = one(dice, &[1, 1, 1, 1, 1, 2, 3, 4]);
    if dice.share() < 0.12 {
        world.overdraft = Overdraft::Crash(RESTART_DEFAULT);
    }
    let share = |weights: &[f64]| weights.to_vec();
    world.tenants = match dice.below(10) {
        0 => share(&[20.0, 1.0]),
        1 => share(&[1.0; 4]),
        2 => share(&[10.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        3 => (0..8).map(|_| rounded(between(dice, 1.0, 30.0))).collect(),
        _ => Vec::new(),
    };
    if dice.share() < 0.25 {
        let weight = |dice: &mut Draws| rounded(between(dice, 1.0, 10.0));
        world.priorities = Priority::ALL.map(|priority| (priority, weight(dice))).to_vec();
    }
    let is_equal = world.tenants.iter().all(|weight| weight.total_cmp(&1.0).is_eq());
    traits.extend([
        place(
            "knows",
            if world.knowledge == CacheKnowledge::Reported { "events" } else { "guess" },
        ),
        place("network ms", world.network_ms.to_string()),
        place("scrape ms", world.scrape_ms.to_string()),
        place("gateways", world.gateways.to_string()),
        place("no room", if world.overdraft == Overdraft::Preempt { "preempt" } else { "crash" }),
        place(
            "tenants",
            match (world.tenants.len(), is_equal) {
                (0, _) => "none",
                (_, true) => "alike",
                _ => "unequal",
            },
        ),
        place("priorities", if world.priorities.is_empty() { "one" } else { "three" }),
    ]);
    world
}

/// Some workers turn away what they are sent, or are gone for a while.
fn refusing(mut dice: Draws, world: &mut World, traits: &mut Vec<Trait>) {
    let workers = capacity::workers(world);
    let manners = ["saturated", "misconfigured", "disputed", "faulty", "gone"];
    let (manner, refuses) = (one(&mut dice, &manners), dice.share() < REFUSING && 1 < workers);
    traits.push(place("refusing", if refuses { manner } else { "none" }));
    if !refuses {
        return;
    }
    let most = (workers / REFUSING_SHARE).max(1);
    let first = dice.below(workers);
    for worker in 0..=dice.below(most) {
        let worker = (first + worker) % workers;
        let from = dice.below(10);
        let times = match dice.below(3) {
            0 => String::new(),
            1 => format!(":{from}"),
            _ => format!(":{from}-{}", from + 5 + dice.below(20)),
        };
        world.refusing.push(format!("{worker}:{manner}{times}"));
    }
}

/// Machines whose caches hold what is asked.
fn fleet(dice: &mut Draws, world: &mut World, seen: Shape, traits: &mut Vec<Trait>) -> Result<()> {
    let needs =
        (HOLDS * seen.most).max(HOLDS_MEAN * (seen.prompt + seen.output)).max(KV_TOKENS_MIN);
    let count = one(dice, &WORKERS);
    let mixes = dice.share() < 0.25 && 1 < count;
    for _ in 0..TRIES_MAX {
        let of_model = one(dice, &MODELS);
        let kinds = if mixes { 2 + u32::from(dice.share() < 0.3) } else { 1 };
        let mut left = count;
        world.fleet.clear();
        for kind in (1..=kinds.min(count)).rev() {
            // One at least is left for each kind that follows.
            let most = left - (kind - 1);
            let own =
                if kind == 1 { left } else { 1 + whole32(dice.share() * f64::from(most - 1)) };
            let profile = one(dice, of_model).to_owned();
            if 0 < own && world.fleet.iter().all(|machines| machines.profile != profile) {
                world.fleet.push(Machines { count: own, profile });
                left -= own;
            }
        }
        if needs <= smallest(world)? {
            break;
        }
    }
    let full = smallest(world)?;
    let small = dice.share() < 0.5 && needs < full;
    if small {
        world.kv_tokens = Some(whole32(between(dice, needs, full) / 1_024.0).max(1) * 1_024);
    }
    let held = world.kv_tokens.map_or(full, f64::from) / seen.prompt.max(1.0);
    let held = [16.0, 64.0, 256.0].iter().find(|most| held < **most);
    traits.extend([
        place("machines", if 1 < world.fleet.len() { "mixed" } else { "alike" }),
        place(
            "prompts held",
            held.map_or("256 or more".to_owned(), |most| format!("under {most}")),
        ),
    ]);
    Ok(())
}

/// Tokens of the smallest cache.
fn smallest(world: &World) -> Result<f64> {
    let catalogue = overdraft_gpu_model::Catalogue::builtin();
    let mut least = f64::INFINITY;
    for machines in &world.fleet {
        let profile = catalogue.find(&machines.profile).context("a listed profile")?;
        least = least.min(f64::from(profile.kv_tokens()?.get()));
    }
    Ok(least)
}

/// When requests come: a share of what the fleet can do, in some way. Says how much that is.
fn pace(
    dice: &mut Draws,
    world: &mut World,
    kind: Kind,
    seen: Shape,
    traits: &mut Vec<Trait>,
) -> Result<f64> {
    let share = 0.1 + 1.4 * dice.share();
    let mut times = Times::drawn(dice, kind, share);
    if !matches!(times.way, Way::Users | Way::AtOnce) {
        shrink(world, seen, share)?;
    }
    let is_bounded = dice.share() < BOUNDED;
    if is_bounded {
        bound(world, seen, &mut times)?;
    }
    let capacity = capacity::requests_per_second(world, seen)?;
    let waits = times.backlog(world.requests, capacity);
    times.set(dice, world, rounded(share * capacity), seen);
    let band = match times.way {
        Way::Users => "closed loop".to_owned(),
        Way::AtOnce => "all at once".to_owned(),
        _ => format!("to {:3} %", 25 * whole((share * 4.0).ceil())),
    };
    let waits = [1.0, 5.0, 15.0, 30.0].iter().find(|most| waits <= **most);
    traits.extend([
        place("of capacity", band),
        place("arrivals", times.way.name()),
        place("backlog s", waits.map_or("more".to_owned(), |most| format!("to {most:2}"))),
        place(
            "workers",
            match capacity::workers(world) {
                1 => "1",
                2..=4 => "2 to 4",
                5..=16 => "5 to 16",
                _ => "17 to 64",
            },
        ),
    ]);
    Ok(capacity)
}

/// Fewer machines, where so few requests would be over in no time.
fn shrink(world: &mut World, seen: Shape, share: f64) -> Result<()> {
    while world.fleet.iter().any(|machines| 1 < machines.count) {
        let rate = share * capacity::requests_per_second(world, seen)?;
        if LASTS <= float(world.requests) / rate {
            break;
        }
        for machines in &mut world.fleet {
            machines.count = machines.count.div_ceil(2);
        }
    }
    Ok(())
}

/// More machines or fewer requests, where somebody would wait for longer than a queue's patience whatever was
/// decided: who waits in vain then is no matter of decisions.
fn bound(world: &mut World, seen: Shape, times: &mut Times) -> Result<()> {
    let mut waits = |world: &World| -> Result<f64> {
        let capacity = capacity::requests_per_second(world, seen)?;
        times.shorten(world.requests, capacity, BACKLOG);
        Ok(times.backlog(world.requests, capacity))
    };
    while BACKLOG < waits(world)? && 2 * capacity::workers(world) <= u64::from(WORKERS_MAX) {
        for machines in &mut world.fleet {
            machines.count *= 2;
        }
    }
    let waiting = waits(world)?;
    if BACKLOG < waiting {
        let fewer = whole(float(world.requests) * BACKLOG / waiting);
        world.requests = u64::try_from(fewer).unwrap_or(1).max(REQUESTS_MIN.min(world.requests));
        world.asked = load::sized(&world.asked, world.requests);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_draw_equal_worlds_that_can_be_run() {
        for number in 0..60 {
            let [one, other] = [0, 1].map(|_| draw(7, number, None).unwrap());
            assert_eq!((&one.world, &one.traits), (&other.world, &other.traits));
            let workers = capacity::workers(&one.world);
            assert!((1..=u64::from(WORKERS_MAX)).contains(&workers), "draw {number}: {workers}");
            let shape = shape(&one.world, one.seed).unwrap();
            assert!(shape.count <= one.world.requests, "draw {number}: {shape:?}");
            let least = smallest(&one.world).unwrap();
            let kept = one.world.kv_tokens.map_or(least, f64::from);
            assert!(shape.most <= kept, "draw {number}: {shape:?} in {kept}");
        }
        assert_ne!(draw(7, 1, None).unwrap().world, draw(8, 1, None).unwrap().world);
    }
}
