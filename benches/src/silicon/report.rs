//! The table of all points, and the claims.

use std::path::Path;

use anyhow::Result;
use overdraft_claims::{Aim, Claim, as_float, median, save};
use overdraft_gpu_model::{Catalogue, LoopResult};
use serde::Serialize;

use super::points::{Kind, Point};

/// Mean absolute error of the time per token, and median of that to the first token, in percent.
const TPOT_MAPE_MAX: f64 = 4.0;
const TTFT_MEDIAN_MAX: f64 = 7.0;

/// A measurement and what the model makes of it; times in milliseconds, errors in percent.
#[derive(Serialize)]
struct Compared {
    point: Point,
    ttft_ms: f64,
    tpot_ms: f64,
    preemptions: u64,
}

/// All that was compared.
#[derive(Serialize)]
pub(crate) struct Report {
    compared: Vec<Compared>,
    /// Why there is nothing, where there is nothing.
    missing: Option<String>,
}

impl Compared {
    fn new(point: Point, seen: LoopResult) -> Self {
        let LoopResult { ttft_ms, tpot_ms, preemptions, .. } = seen;
        Self { point, ttft_ms, tpot_ms, preemptions }
    }

    fn ttft_error(&self) -> f64 {
        (self.ttft_ms / self.point.ttft_ms - 1.0) * 100.0
    }

    fn tpot_error(&self) -> f64 {
        (self.tpot_ms / self.point.tpot_ms - 1.0) * 100.0
    }
}

impl Report {
    /// Repeats all measurements in virtual time.
    pub(crate) fn of(catalogue: &Catalogue, points: Vec<Point>) -> Result<Self> {
        let mut compared = Vec::with_capacity(points.len());
        for point in points {
            let seen = catalogue.find(&point.profile)?.closed_loop(&point.load())?;
            compared.push(Compared::new(point, seen));
        }
        Ok(Self { compared, missing: None })
    }

    /// There are no measurements.
    pub(crate) fn without(folder: &Path) -> Self {
        let missing = format!(
            "no measurements in `{}`; give their folder with --traces or OVERDRAFT_TRACES",
            folder.display()
        );
        Self { compared: Vec::new(), missing: Some(missing) }
    }

    pub(crate) fn print(&self) {
        if let Some(missing) = &self.missing {
            println!("{missing}");
            return;
        }
        self.print_points();
        println!("* nothing was fitted to it: the GPU is scaled from another by datasheet");
        for (kind, what) in [
            (Kind::Vllm, "vLLM, 70B FP8, H100"),
            (Kind::TensorRt, "TensorRT-LLM, 8B BF16, H100 (first tokens not compared)"),
            (Kind::HeldOut, "vLLM, 70B FP8, H200 *"),
        ] {
            let (points, tpot) = (self.of_kind(kind).count(), self.mape(&[kind]));
            let ttft = self.ttft_median(kind);
            println!(
                "{what}: {points} points, TPOT MAPE {tpot:.1} %, TTFT median error {ttft:.1} %"
            );
        }
    }

    /// All points, and for each profile how far its own are off.
    pub(crate) fn print_by_profile(&self) {
        self.print_points();
        let mut rest = self.compared.as_slice();
        while let Some(first) = rest.first() {
            let of_profile = |one: &&Compared| one.point.profile == first.point.profile;
            let count = rest.iter().take_while(of_profile).count();
            let (points, others) = rest.split_at(count);
            let mean = |error: fn(&Compared) -> f64| {
                points.iter().map(error).sum::<f64>() / as_float(count)
            };
            println!(
                "{}: {count} points, TPOT MAPE {:.1} %, on average {:+.1} %; TTFT median error {:.1} %, on average {:+.1} %",
                first.point.profile,
                mean(|one| one.tpot_error().abs()),
                mean(Compared::tpot_error),
                median(points.iter().map(|one| one.ttft_error().abs()).collect()),
                mean(Compared::ttft_error)
            );
            rest = others;
        }
    }

    fn print_points(&self) {
        println!(
            "{:<28}{:>12}{:>8}{:>10}{:>9}{:>8}{:>11}{:>9}{:>8}",
            "simulated, in ms",
            "in/out",
            "clients",
            "TPOT real",
            "model",
            "off",
            "TTFT real",
            "model",
            "off"
        );
        for one in &self.compared {
            let Point { profile, prompt, output, clients, ttft_ms, tpot_ms, kind } = &one.point;
            let lengths = format!("{prompt}/{output}");
            let mark = if *kind == Kind::HeldOut { " *" } else { "" };
            println!(
                "{:<28}{lengths:>12}{clients:>8}{tpot_ms:>10.2}{:>9.2}{:>7.1}%{ttft_ms:>11.0}{:>9.0}{:>7.1}%",
                format!("{profile}{mark}"),
                one.tpot_ms,
                one.tpot_error(),
                one.ttft_ms,
                one.ttft_error()
            );
        }
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Compared> {
        self.compared.iter().filter(move |one| one.point.kind == kind)
    }

    /// Mean absolute error of the time per token.
    fn mape(&self, kinds: &[Kind]) -> f64 {
        let errors: Vec<f64> = self
            .compared
            .iter()
            .filter(|one| kinds.contains(&one.point.kind))
            .map(|one| one.tpot_error().abs())
            .collect();
        errors.iter().sum::<f64>() / as_float(errors.len())
    }

    fn ttft_median(&self, kind: Kind) -> f64 {
        median(self.of_kind(kind).map(|one| one.ttft_error().abs()).collect())
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        let measured = |value: f64| match &self.missing {
            Some(missing) => Err(missing.clone()),
            None => Ok(value),
        };
        let claim = |figure: &str, value, most| Claim {
            demonstration: "S1",
            figure: figure.to_owned(),
            measured: measured(value),
            aim: Aim::AtMost(most),
        };
        let tpot = self.mape(&[Kind::Vllm, Kind::TensorRt]);
        vec![
            claim("tpot_mape_percent", tpot, TPOT_MAPE_MAX),
            claim("ttft_median_error_percent", self.ttft_median(Kind::Vllm), TTFT_MEDIAN_MAX),
        ]
    }

    /// Writes the raw figures, and says where.
    pub(crate) fn save(&self) -> Result<String> {
        Ok(save("silicon", self)?)
    }
}
