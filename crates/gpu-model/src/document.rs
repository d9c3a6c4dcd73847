//! Profile file format.

use overdraft_units::Micros;
use serde::Deserialize;

use crate::engine::Engine;
use crate::model::Model;
use crate::profile::{Confidence, ExpertRates, Hardware, Rates, whole};

/// All that a file may hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Document {
    pub(crate) hardware: Vec<Hardware>,
    pub(crate) model: Vec<Model>,
    pub(crate) profile: Vec<Entry>,
}

/// One profile. What it does not say is as in the one it is `like`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) hardware: String,
    pub(crate) tensor_parallel: u32,
    pub(crate) model: String,
    pub(crate) weights: String,
    pub(crate) like: Option<String>,
    /// Multiplies what reads memory, where it is taken from another GPU.
    pub(crate) memory_speed_factor: Option<f64>,
    /// Multiplies what multiplies, where it is taken from another GPU.
    pub(crate) compute_speed_factor: Option<f64>,
    bytes_per_parameter: Option<f64>,
    weights_tb_per_s: Option<f64>,
    gemm_tflops: Option<f64>,
    roofline_power: Option<f64>,
    prefill_attention_tflops: Option<f64>,
    kv_tb_per_s: Option<f64>,
    /// 1 where neither this profile nor the one it is like says it.
    kv_share_beside_prompts: Option<f64>,
    attention_us_per_layer: Option<f64>,
    kernels_us_per_layer: Option<f64>,
    elementwise_gb_per_s: Option<f64>,
    allreduce_us: Option<f64>,
    allreduce_gb_per_s: Option<f64>,
    host_ms: Option<f64>,
    host_us_per_sequence: Option<f64>,
    host_us_per_prompt: Option<f64>,
    expert_bytes_per_parameter: Option<f64>,
    expert_weights_tb_per_s: Option<f64>,
    expert_gemm_tflops: Option<f64>,
    expert_roofline_power: Option<f64>,
    expert_us_per_layer: Option<f64>,
    #[serde(alias = "max_num_batched_tokens")]
    pub(crate) step_tokens: Option<u32>,
    #[serde(alias = "max_num_seqs")]
    pub(crate) running_max: Option<u32>,
    /// Who serves the model.
    #[serde(default)]
    pub(crate) engine: Engine,
    wake_ms: Option<f64>,
    /// Whether the engine plans a step while the one before is computed, whichever it is.
    pub(crate) async_scheduling: Option<bool>,
    pub(crate) confidence: Confidence,
    pub(crate) source: String,
}

/// A rate of experts by its name in the file.
#[derive(Clone, Copy, Debug)]
struct Field {
    name: &'static str,
    said: Option<f64>,
    /// What holds where nothing is said.
    otherwise: f64,
}

impl Entry {
    /// As in `h100-tp2/llama-3-70b-fp8`.
    pub(crate) fn name(&self) -> String {
        format!("{}-tp{}/{}-{}", self.hardware, self.tensor_parallel, self.model, self.weights)
    }

    /// Its rates, over those of the profile it is like; the name of the first that is missing or no
    /// positive number.
    pub(crate) fn rates(&self, like: Option<&Rates>) -> Result<Rates, &'static str> {
        let faster = self.memory_speed_factor.unwrap_or(1.0);
        let stronger = self.compute_speed_factor.unwrap_or(1.0);
        let pick = |name, said: Option<f64>, like: Option<f64>| {
            said.or(like).filter(|rate| rate.is_finite() && 0.0 < *rate).ok_or(name)
        };
        let of = |rate: fn(&Rates) -> f64| like.map(rate);
        let read = |rate: fn(&Rates) -> f64| like.map(|like| rate(like) * faster);
        let multiplied = |rate: fn(&Rates) -> f64| like.map(|like| rate(like) * stronger);
        // A single GPU has no links; nobody looks at these then.
        let (no_wait, no_link) = (of(|r| r.allreduce_us), of(|r| r.allreduce_gb_per_s));
        let alone = (self.tensor_parallel == 1).then_some(1.0);
        Ok(Rates {
            bytes_per_parameter: pick(
                "bytes_per_parameter",
                self.bytes_per_parameter,
                of(|r| r.bytes_per_parameter),
            )?,
            weights_tb_per_s: pick(
                "weights_tb_per_s",
                self.weights_tb_per_s,
                read(|r| r.weights_tb_per_s),
            )?,
            gemm_tflops: pick("gemm_tflops", self.gemm_tflops, multiplied(|r| r.gemm_tflops))?,
            roofline_power: pick("roofline_power", self.roofline_power, of(|r| r.roofline_power))?,
            prefill_attention_tflops: pick(
                "prefill_attention_tflops",
                self.prefill_attention_tflops,
                multiplied(|r| r.prefill_attention_tflops),
            )?,
            kv_tb_per_s: pick("kv_tb_per_s", self.kv_tb_per_s, read(|r| r.kv_tb_per_s))?,
            kv_share_beside_prompts: pick(
                "kv_share_beside_prompts",
                self.kv_share_beside_prompts,
                of(|r| r.kv_share_beside_prompts).or(Some(1.0)),
            )?,
            attention_us_per_layer: pick(
                "attention_us_per_layer",
                self.attention_us_per_layer,
                of(|r| r.attention_us_per_layer),
            )?,
            kernels_us_per_layer: pick(
                "kernels_us_per_layer",
                self.kernels_us_per_layer,
                of(|r| r.kernels_us_per_layer),
            )?,
            elementwise_gb_per_s: pick(
                "elementwise_gb_per_s",
                self.elementwise_gb_per_s,
                read(|r| r.elementwise_gb_per_s),
            )?,
            allreduce_us: pick("allreduce_us", self.allreduce_us.or(alone), no_wait)?,
            allreduce_gb_per_s: pick(
                "allreduce_gb_per_s",
                self.allreduce_gb_per_s.or(alone),
                no_link,
            )?,
            host_ms: pick("host_ms", self.host_ms, of(|r| r.host_ms))?,
            host_us_per_sequence: pick(
                "host_us_per_sequence",
                self.host_us_per_sequence,
                of(|r| r.host_us_per_sequence),
            )?,
            host_us_per_prompt: of(|r| r.host_us_per_prompt).unwrap_or(0.0),
            experts: None,
        })
    }

    /// What the CPU adds for each prompt of a step, if it is said.
    pub(crate) fn host_us_per_prompt(&self) -> Result<Option<f64>, String> {
        not_below_zero("host_us_per_prompt", self.host_us_per_prompt)
    }

    /// What a step takes longer after nothing was to do.
    pub(crate) fn wake(&self) -> Result<Micros, String> {
        let ms = not_below_zero("wake_ms", self.wake_ms)?.unwrap_or(0.0);
        Ok(Micros::new(u64::from(whole(ms * 1e3))))
    }

    /// Rates of the model's experts: as said, or as this profile says of all weights, or as in the
    /// profile it is like, or as the rest of the weights. None where the model has no experts.
    pub(crate) fn expert_rates(
        &self,
        model: &Model,
        rates: &Rates,
        like: Option<&Rates>,
    ) -> Result<Option<ExpertRates>, String> {
        let fields = self.expert_fields(rates, like.and_then(|like| like.experts));
        if model.experts.is_none() {
            return match fields.iter().find(|field| field.said.is_some()) {
                None => Ok(None),
                Some(Field { name, .. }) => {
                    Err(format!("`{name}` is given, but `{}` has no experts", model.name))
                }
            };
        }
        let [bytes_per_parameter, weights_tb_per_s, gemm_tflops, roofline_power, us_per_layer] =
            fields.map(|Field { name, said, otherwise }| {
                let rate = said.unwrap_or(otherwise);
                let known = rate.is_finite() && 0.0 < rate;
                if known { Ok(rate) } else { Err(format!("`{name}` is not above zero")) }
            });
        Ok(Some(ExpertRates {
            bytes_per_parameter: bytes_per_parameter?,
            weights_tb_per_s: weights_tb_per_s?,
            gemm_tflops: gemm_tflops?,
            roofline_power: roofline_power?,
            us_per_layer: us_per_layer?,
        }))
    }

    fn expert_fields(&self, rates: &Rates, like: Option<ExpertRates>) -> [Field; 5] {
        let faster = self.memory_speed_factor.unwrap_or(1.0);
        let stronger = self.compute_speed_factor.unwrap_or(1.0);
        let field = |name, said, of_all: Option<f64>, like: Option<f64>, rest: f64| Field {
            name,
            said,
            otherwise: of_all.or(like).unwrap_or(rest),
        };
        [
            field(
                "expert_bytes_per_parameter",
                self.expert_bytes_per_parameter,
                self.bytes_per_parameter,
                like.map(|like| like.bytes_per_parameter),
                rates.bytes_per_parameter,
            ),
            field(
                "expert_weights_tb_per_s",
                self.expert_weights_tb_per_s,
                self.weights_tb_per_s,
                like.map(|like| like.weights_tb_per_s * faster),
                rates.weights_tb_per_s,
            ),
            field(
                "expert_gemm_tflops",
                self.expert_gemm_tflops,
                self.gemm_tflops,
                like.map(|like| like.gemm_tflops * stronger),
                rates.gemm_tflops,
            ),
            field(
                "expert_roofline_power",
                self.expert_roofline_power,
                self.roofline_power,
                like.map(|like| like.roofline_power),
                rates.roofline_power,
            ),
            field(
                "expert_us_per_layer",
                self.expert_us_per_layer,
                None,
                like.map(|like| like.us_per_layer),
                rates.kernels_us_per_layer,
            ),
        ]
    }
}

/// A figure that may be zero, if it was said.
fn not_below_zero(name: &str, said: Option<f64>) -> Result<Option<f64>, String> {
    match said {
        Some(figure) if !(figure.is_finite() && 0.0 <= figure) => {
            Err(format!("`{name}` is {figure}; expected zero or more"))
        }
        said => Ok(said),
    }
}
