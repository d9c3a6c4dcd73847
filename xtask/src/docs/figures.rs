//! Figures of the guide: drawn from raw runs under `benches/runs`, whose commands the page tells.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::plot::{Axis, Chart, Mark, Point, Series, Tick};

/// Draws a figure from the runs under a root.
type Draw = fn(&Path) -> Result<Chart>;

/// Every figure: the file, and what draws it.
const FIGURES: [(&str, Draw); 4] = [
    ("docs/images/kv-cache.svg", kv_cache),
    ("docs/images/admission.svg", admission),
    ("docs/images/cascade.svg", cascade),
    ("docs/images/speculation.svg", speculation),
];

/// Draws all of them.
pub(super) fn all(root: &Path) -> Result<Vec<(&'static str, String)>> {
    let draw = |(name, draw): (&'static str, Draw)| {
        let chart = draw(root).with_context(|| format!("`{name}` could not be drawn"))?;
        Ok((name, chart.svg()))
    };
    FIGURES.into_iter().map(draw).collect()
}

fn run(root: &Path, name: &str) -> Result<Value> {
    let path = root.join("benches/runs").join(name);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn number(value: &Value) -> Result<f64> {
    value.as_f64().with_context(|| format!("`{value}` is no number"))
}

fn numbers(value: &Value) -> Result<Vec<f64>> {
    items(value).map(number).collect()
}

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Milliseconds to the right edge of the figure of first tokens.
const LATEST: f64 = 500.0;

/// `cargo xtask bench routing`: how soon first tokens come where prompts share their beginnings.
fn kv_cache(root: &Path) -> Result<Chart> {
    let run = run(root, "routing-2026-11-21.json")?;
    let shared = &run["runs"]["shared"];
    let mut series = Vec::new();
    for policy in ["cost", "round-robin"] {
        let (mut times, mut cached, mut count) = (Vec::new(), 0.0, 0.0);
        for one in items(shared).filter(|one| one["policy"] == policy) {
            times.extend(numbers(&one["ttft_ms"])?);
            cached += number(&one["cached"])?;
            count += 1.0;
        }
        times.sort_by(f64::total_cmp);
        let last = times.len().saturating_sub(1);
        // Two hundred points are enough for the eye.
        let places = (0..=200).map(|part| last * part / 200);
        let points = places.filter_map(|place| {
            let up = 100.0 * float(place) / float(last).max(1.0);
            Some(Point { across: *times.get(place)?, up })
        });
        let points = points.filter(|point| point.across <= LATEST).collect();
        let name = format!("{policy}: {:.0} % cached", 100.0 * cached / f64::max(count, 1.0));
        series.push(Series { name, points, mark: Mark::Line });
    }
    Ok(Chart {
        about: "Share of requests whose first token has come, over time, under two policies"
            .to_owned(),
        across: Axis::steps("time to first token, ms", LATEST, 100.0, ""),
        up: Axis::steps("requests answered by then", 100.0, 25.0, " %"),
        series,
    })
}

/// `cargo xtask bench burst`: what three times the load makes of two workers under each rule.
fn admission(root: &Path) -> Result<Chart> {
    let run = run(root, "burst-1795328171.json")?;
    let (mut ticks, mut crashing, mut standing) = (Vec::new(), Vec::new(), Vec::new());
    for (place, one) in items(&run["runs"]["bursts"]).enumerate() {
        let rule = one["rule"].as_str().context("a rule has a name")?;
        let point = Point { across: float(place), up: number(&one["goodput"])? };
        ticks.push(Tick { at: point.across, name: rule.replace("static:", "") });
        if number(&one["crashes"])? > 0.0 { crashing.push(point) } else { standing.push(point) }
    }
    let high = float(ticks.len()) - 0.5;
    let of = |name: &str, points| Series { name: name.to_owned(), points, mark: Mark::Bars };
    Ok(Chart {
        about: "Useful tokens a second under three times the load, by admission rule".to_owned(),
        across: Axis {
            label: "no admission, peak forecast, or a fixed limit of requests",
            low: -0.5,
            high,
            ticks,
        },
        up: Axis::steps("useful tokens a second", 2_000.0, 500.0, ""),
        series: vec![of("no worker crashed", standing), of("workers crashed", crashing)],
    })
}

/// `cargo xtask bench cascade`: right answers over the share that never touches the target.
fn cascade(root: &Path) -> Result<Chart> {
    let run = run(root, "cascade-1795369588.json")?;
    let curve = &run["curve"];
    let (draft, target) = (number(&curve["draft"])?, number(&curve["target"])?);
    let mut series = Vec::new();
    for (key, name) in [("gate", "the gate"), ("mean_logprob", "mean log probability")] {
        let points = numbers(&curve[key])?.into_iter().enumerate();
        let points = points.map(|(percent, up)| Point { across: float(percent), up }).collect();
        series.push(Series { name: name.to_owned(), points, mark: Mark::Line });
    }
    let ends = vec![Point { across: 0.0, up: target }, Point { across: 100.0, up: draft }];
    series.push(Series { name: "mixing at random".to_owned(), points: ends, mark: Mark::Line });
    let up = Axis::steps("right answers", 50.0, 5.0, " %");
    let ticks = up.ticks.into_iter().filter(|tick| 30.0 <= tick.at).collect();
    Ok(Chart {
        about: "Right answers over the share of questions that the draft alone answers".to_owned(),
        across: Axis::steps("questions that the draft alone answers", 100.0, 20.0, " %"),
        up: Axis { low: 30.0, ticks, ..up },
        series,
    })
}

/// `cargo xtask bench speculation`: tokens by depth of the draft, as a multiple of none.
fn speculation(root: &Path) -> Result<Chart> {
    let run = run(root, "speculation-1795578728.json")?;
    let part = items(&run["parts"]).find(|part| part["rules"].is_array());
    let part = part.context("a part with rules")?;
    let phases: Vec<&str> = items(&part["phases"]).filter_map(Value::as_str).collect();
    let rules: Vec<&Value> = items(&part["rules"]).collect();
    let depths: Vec<(&str, &str)> =
        [("off", "none"), ("fixed:1", "1"), ("fixed:2", "2"), ("fixed:3", "3")]
            .into_iter()
            .chain([("fixed:4", "4"), ("fixed:6", "6"), ("fixed:8", "8"), ("goodput", "goodput")])
            .collect();
    let mut series = Vec::new();
    let wanted = [" 1 easy", " 4 easy", "16 easy", "16 hard"];
    let names = ["1 easy stream", "4 easy streams", "16 easy streams", "16 hard streams"];
    for (phase, name) in wanted.into_iter().zip(names) {
        let place = phases.iter().position(|one| *one == phase).context("a phase of that name")?;
        let base = pace(&rules, "off", place)?;
        let points = depths.iter().enumerate().map(|(at, (rule, _))| {
            Ok(Point { across: float(at), up: pace(&rules, rule, place)? / base })
        });
        let points = points.collect::<Result<Vec<Point>>>()?;
        series.push(Series { name: name.to_owned(), points, mark: Mark::Dots });
    }
    let ticks = depths.iter().enumerate();
    let ticks = ticks.map(|(at, (_, name))| Tick { at: float(at), name: (*name).to_owned() });
    let high = float(depths.len()) - 0.5;
    Ok(Chart {
        about: "Tokens a second over the depth of the draft, as a multiple of no draft".to_owned(),
        across: Axis { label: "tokens guessed ahead", low: -0.5, high, ticks: ticks.collect() },
        up: Axis::steps("tokens a second, none = 1", 2.5, 0.5, ""),
        series,
    })
}

/// Tokens a second of a rule in a phase, the mean over its runs.
fn pace(rules: &[&Value], rule: &str, phase: usize) -> Result<f64> {
    let rule = rules.iter().find(|one| one["rule"] == rule).with_context(|| rule.to_owned())?;
    let (mut sum, mut count) = (0.0, 0.0);
    for run in items(&rule["runs"]) {
        sum += number(&run[phase][0])? / number(&run[phase][1])?;
        count += 1.0;
    }
    Ok(sum / f64::max(count, 1.0))
}
