//! Published measurements: the value, its source and its hardware.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use overdraft_gpu_model::{ClosedLoop, Lengths};
use overdraft_units::Micros;
use serde::Serialize;

/// Where in the folder of traces the measurements lie.
const FILE: &str = "validation/aic_silicon_llama31_h100_h200.csv";

/// Times per token that are nearer to each other, in milliseconds, are one measurement that was noted twice.
const SAME_MS: f64 = 0.01;

/// Requests for each client, as those who measured sent them.
const REQUESTS_PER_CLIENT: u32 = 10;

/// From a client to vLLM's scheduler: HTTP and a message between processes. Only that it is not zero matters, and that
/// it is less than a step.
const FRONT_END: Micros = Micros::new(1_000);

/// A row's fields by the names of its columns.
type Row<'a> = BTreeMap<&'a str, &'a str>;

/// Tells what a row is compared for, and with which profile; nothing where no profile is like it.
type ProfileOf = fn(&Row<'_>) -> Option<(Kind, String)>;

/// What a point is compared for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Kind {
    /// vLLM: time to the first token, and per token.
    Vllm,
    /// TensorRT-LLM: time per token; its first tokens include a start-up that vLLM has not.
    TensorRt,
    /// Nothing was fitted to it; shown, and promised nothing about.
    HeldOut,
    /// Models with experts; shown, and promised nothing about.
    Experts,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    pub(crate) kind: Kind,
    pub(crate) profile: String,
    pub(crate) prompt: u32,
    pub(crate) output: u32,
    pub(crate) clients: u32,
    pub(crate) ttft_ms: f64,
    pub(crate) tpot_ms: f64,
}

impl Point {
    /// The load under which it was measured.
    pub(crate) fn load(&self) -> ClosedLoop {
        // Those who measured vLLM drew lengths from 80 % to 100 % of the nominal ones.
        let lengths = |most: u32| match self.kind {
            Kind::TensorRt => Lengths::exactly(most),
            Kind::Vllm | Kind::HeldOut | Kind::Experts => Lengths { least: most / 5 * 4, most },
        };
        // Nothing is known of the others' clients.
        let front_end = match self.kind {
            Kind::TensorRt => Micros::ZERO,
            Kind::Vllm | Kind::HeldOut | Kind::Experts => FRONT_END,
        };
        ClosedLoop {
            clients: self.clients,
            requests: self.clients * REQUESTS_PER_CLIENT,
            prompt: lengths(self.prompt),
            output: lengths(self.output),
            front_end,
            seed: 1,
        }
    }

    /// By what is compared, by profile, by lengths, by clients.
    fn order(&self, other: &Self) -> Ordering {
        let key = |one: &Self| (one.kind, one.profile.clone(), one.prompt, one.output, one.clients);
        key(self).cmp(&key(other))
    }

    /// Whether it is the same measurement.
    fn is_like(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Equal && (self.tpot_ms - other.tpot_ms).abs() < SAME_MS
    }
}

/// The measurements that profiles exist for; `None` where the file is not there.
pub(crate) fn read(folder: &Path) -> Result<Option<Vec<Point>>> {
    let path = folder.join(FILE);
    if !path.exists() {
        return Ok(None);
    }
    points(&path, known).map(Some)
}

/// The measurements of models with experts in a published file of the same form.
pub(crate) fn read_experts(path: &Path) -> Result<Vec<Point>> {
    let mut points = points(path, with_experts)?;
    // Some are in it twice, under two dates.
    points.dedup_by(|one, other| one.is_like(other));
    Ok(points)
}

fn points(path: &Path, profile: ProfileOf) -> Result<Vec<Point>> {
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("`{shown}` cannot be read"))?;
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let mut points = Vec::new();
    for (number, line) in (2..).zip(lines) {
        let row: Row<'_> = names.iter().copied().zip(line.split(',')).collect();
        if let Some((kind, profile)) = profile(&row) {
            let point = point(&row, kind, profile);
            points.push(point.with_context(|| format!("{shown}: line {number}"))?);
        }
    }
    points.sort_by(|one, other| one.order(other).then(one.tpot_ms.total_cmp(&other.tpot_ms)));
    Ok(points)
}

/// What measurements of dense models are compared with.
fn known(row: &Row<'_>) -> Option<(Kind, String)> {
    let text = |name: &str| row.get(name).copied().unwrap_or_default();
    let (backend, system, model) = (text("backend"), text("system"), text("model_path"));
    let gpus = text("tp_size");
    let llama_70b = model.ends_with("Llama-3.1-70B") && backend == "vllm";
    match (system, gpus) {
        ("h100_sxm", gpus) if llama_70b => {
            Some((Kind::Vllm, format!("h100-tp{gpus}/llama-3-70b-fp8")))
        }
        ("h200_sxm", gpus) if llama_70b => {
            Some((Kind::HeldOut, format!("h200-tp{gpus}/llama-3-70b-fp8")))
        }
        ("h100_sxm", "1") if backend == "trtllm" && model.ends_with("8B-Instruct") => {
            Some((Kind::TensorRt, "h100-tp1/llama-3-8b-bf16".to_owned()))
        }
        _ => None,
    }
}

/// What measurements of models with experts are compared with: one engine of each model, attention not in ranks.
fn with_experts(row: &Row<'_>) -> Option<(Kind, String)> {
    let text = |name: &str| row.get(name).copied().unwrap_or_default();
    let (gpu, gpus) = (text("system").strip_suffix("_sxm")?, text("tp_size"));
    if text("mode") != "agg" || !["h100", "h200", "b200"].contains(&gpu) {
        return None;
    }
    let engine = (text("backend"), text("backend_version"));
    let model = match text("model_path") {
        "openai/gpt-oss-120b" if [("vllm", "0.18.0"), ("vllm", "0.15.1")].contains(&engine) => {
            "gpt-oss-120b-mxfp4"
        }
        "deepseek-ai/DeepSeek-R1" | "deepseek-ai/DeepSeek-V3"
            if engine == ("sglang", "0.5.9") && (gpus, text("gemm_quant_mode")) == ("8", "fp8") =>
        {
            "deepseek-v3-fp8"
        }
        _ => return None,
    };
    Some((Kind::Experts, format!("{gpu}-tp{gpus}/{model}")))
}

fn point(row: &Row<'_>, kind: Kind, profile: String) -> Result<Point> {
    let text = |name: &str| row.get(name).copied().unwrap_or_default();
    let count = |name: &str| {
        let text = text(name);
        text.parse::<u32>().with_context(|| format!("`{text}` is not a count in `{name}`"))
    };
    let time = |name: &str| {
        let text = text(name);
        text.parse::<f64>().with_context(|| format!("`{text}` is not a time in `{name}`"))
    };
    Ok(Point {
        kind,
        profile,
        prompt: count("isl")?,
        output: count("osl")?,
        clients: count("batch_size")?,
        ttft_ms: time("silicon_ttft_ms")?,
        tpot_ms: time("silicon_tpot_ms")?,
    })
}
