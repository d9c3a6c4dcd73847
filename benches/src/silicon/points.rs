//! Published measurements: the value, its source and its hardware.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use overdraft_gpu_model::{ClosedLoop, Lengths};
use serde::Serialize;

/// Where in the folder of traces the measurements lie.
const FILE: &str = "validation/aic_silicon_llama31_h100_h200.csv";

/// Requests for each client, as those who measured sent them.
const REQUESTS_PER_CLIENT: u32 = 10;

/// What a point is compared for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Kind {
    /// vLLM: time to the first token, and per token.
    Vllm,
    /// TensorRT-LLM: time per token; its first tokens include a start-up that vLLM has not.
    TensorRt,
    /// Nothing was fitted to it; shown, and promised nothing about.
    HeldOut,
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
            Kind::Vllm | Kind::HeldOut => Lengths { least: most / 5 * 4, most },
        };
        ClosedLoop {
            clients: self.clients,
            requests: self.clients * REQUESTS_PER_CLIENT,
            prompt: lengths(self.prompt),
            output: lengths(self.output),
            seed: 1,
        }
    }
}

/// The measurements that profiles exist for; `None` where the file is not there.
pub(crate) fn read(folder: &Path) -> Result<Option<Vec<Point>>> {
    let path = folder.join(FILE);
    if !path.exists() {
        return Ok(None);
    }
    let shown = path.display();
    let text = fs::read_to_string(&path).with_context(|| format!("`{shown}` cannot be read"))?;
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let mut points = Vec::new();
    for (number, line) in (2..).zip(lines) {
        let row: BTreeMap<&str, &str> = names.iter().copied().zip(line.split(',')).collect();
        let point = point(&row).with_context(|| format!("{shown}: line {number}"))?;
        points.extend(point);
    }
    points.sort_by_key(|one| (one.kind, one.profile.clone(), one.prompt, one.output, one.clients));
    Ok(Some(points))
}

fn point(row: &BTreeMap<&str, &str>) -> Result<Option<Point>> {
    let text = |name: &str| row.get(name).copied().unwrap_or_default();
    let (backend, system, model) = (text("backend"), text("system"), text("model_path"));
    let gpus = text("tp_size");
    let llama_70b = model.ends_with("Llama-3.1-70B") && backend == "vllm";
    let (kind, profile) = match (system, gpus) {
        ("h100_sxm", gpus) if llama_70b => (Kind::Vllm, format!("h100-tp{gpus}/llama-3-70b-fp8")),
        ("h200_sxm", gpus) if llama_70b => {
            (Kind::HeldOut, format!("h200-tp{gpus}/llama-3-70b-fp8"))
        }
        ("h100_sxm", "1") if backend == "trtllm" && model.ends_with("8B-Instruct") => {
            (Kind::TensorRt, "h100-tp1/llama-3-8b-bf16".to_owned())
        }
        _ => return Ok(None),
    };
    let count = |name: &str| {
        let text = text(name);
        text.parse::<u32>().with_context(|| format!("`{text}` is not a count in `{name}`"))
    };
    let time = |name: &str| {
        let text = text(name);
        text.parse::<f64>().with_context(|| format!("`{text}` is not a time in `{name}`"))
    };
    Ok(Some(Point {
        kind,
        profile,
        prompt: count("isl")?,
        output: count("osl")?,
        clients: count("batch_size")?,
        ttft_ms: time("silicon_ttft_ms")?,
        tpot_ms: time("silicon_tpot_ms")?,
    }))
}
