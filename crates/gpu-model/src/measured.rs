//! Measured profile: a fit of step times as a file of profiles.
//!
//! What a fit tells is less than a profile holds: not which GPU, how many, or which layers. The file describes a
//! model of one layer and one head whose steps take the fitted times and whose cache holds the tokens that were
//! told. Its bytes and operations mean nothing by themselves.

use std::fmt::Write as _;

use overdraft_units::Tokens;

use crate::fit::StepFit;

/// Parameters of the model that stands for the measured one.
const PARAMETERS: f64 = 1e9;

/// Bytes that a cached token of it takes: two numbers of a byte.
const KV_BYTES: f64 = 2.0;

/// The share of its memory that an engine uses by default, as [`crate::Profile`] reckons.
const MEMORY_SHARE: f64 = 0.9;

/// Seconds that stand for no time, and milliseconds and microseconds likewise: rates have to be positive.
const NOTHING: f64 = 1e-15;

const TERA: f64 = 1e12;

/// A worker that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// How its hardware is called, in small letters, digits, dots and dashes.
    pub hardware: String,
    /// How its model is called, likewise.
    pub model: String,
    /// How long its steps take.
    pub fit: StepFit,
    /// Tokens that its cache holds.
    pub kv_tokens: Tokens,
    /// Tokens of a step at most.
    pub step_tokens: Tokens,
    /// Sequences at once at most.
    pub running_max: u32,
    /// What a step takes longer after nothing was to do, in seconds.
    pub wake: f64,
    /// Dollars an hour.
    pub price_per_hour: f64,
    /// What was measured, and how well the fit meets it.
    pub source: String,
}

impl Measured {
    /// As profiles are asked for.
    pub fn name(&self) -> String {
        format!("{}-tp1/{}-measured", self.hardware, self.model)
    }

    /// The file, as [`crate::Catalogue::add`] reads it.
    pub fn toml(&self) -> String {
        let Self { hardware, model, fit, price_per_hour, .. } = self;
        let source = self.source.replace(['"', '\\'], "'");
        let cache = KV_BYTES * (f64::from(self.kv_tokens.get()) + 0.5);
        // Weights of a byte for each parameter, and embeddings of one number.
        let memory = (PARAMETERS + 4.0 + cache) / MEMORY_SHARE;
        let rate = |amount: f64, seconds: f64| amount / seconds.max(NOTHING) / TERA;
        let mut text = String::new();
        let mut line = |line: String| {
            let _written = writeln!(text, "{line}");
        };
        line(format!("# Measured by `overdraft calibrate`: {source}"));
        line("# A step takes, in milliseconds:".to_owned());
        line(format!(
            "#   ({:.6}^p + ({:.6} for each row)^p)^(1/p), p = {}; {:.6} in any case; {:.6} for each sequence;",
            fit.read * 1e3,
            fit.per_row * 1e3,
            fit.power,
            fit.fixed * 1e3,
            fit.per_sequence * 1e3
        ));
        let (prompt, wake) = (fit.per_prompt * 1e3, self.wake * 1e3);
        line(format!("#   {prompt:.6} for each prompt, and {wake:.6} after nothing was to do;"));
        let beside = fit.per_context_beside.map_or_else(
            || "not measured".to_owned(),
            |more| format!("{:.9}", (fit.per_context + more) * 1e3),
        );
        line(format!(
            "#   {:.9} for each position that a decode reads, beside prompts {beside}; {:.12} for each pair of positions in a prompt.",
            fit.per_context * 1e3,
            fit.per_pair * 1e3
        ));
        line(format!("# A request takes {:.3} ms besides its steps.", fit.per_request * 1e3));
        line("# The figures below say the same of a model of one layer and one head; alone they mean nothing.".to_owned());
        line(format!("[[hardware]]\nname = \"{hardware}\"\ntitle = \"measured worker\""));
        line(format!("memory_bytes = {memory:.1}\noverhead_bytes = 0.0"));
        line(format!("price_per_hour = {price_per_hour:?}\nprice_low = {price_per_hour:?}"));
        line("price_source = \"as given to `overdraft calibrate`\"\n".to_owned());
        line(format!("[[model]]\nname = \"{model}\"\nlayers = 1\nhidden = 1\nquery_heads = 1"));
        line(
            "kv_heads = 1\nhead_dimension = 1\nvocabulary = 1\nkv_bytes_per_number = 1".to_owned(),
        );
        line(format!("linear_parameters = {PARAMETERS:?}\ncontext = {}", self.kv_tokens.get()));
        line(format!("source = \"{source}\"\n"));
        line(format!("[[profile]]\nhardware = \"{hardware}\"\ntensor_parallel = 1"));
        line(format!("model = \"{model}\"\nweights = \"measured\"\nbytes_per_parameter = 1.0"));
        line(format!("weights_tb_per_s = {:?}", rate(PARAMETERS, fit.read)));
        line(format!("gemm_tflops = {:?}", rate(2.0 * PARAMETERS, fit.per_row)));
        line(format!("roofline_power = {:?}", fit.power));
        line(format!("prefill_attention_tflops = {:?}", rate(4.0, fit.per_pair)));
        line(format!("kv_tb_per_s = {:?}", rate(KV_BYTES, fit.per_context)));
        if let Some(share) = fit.kv_share_beside_prompts() {
            line(format!("kv_share_beside_prompts = {share:?}"));
        }
        line(format!("attention_us_per_layer = {NOTHING:?}\nkernels_us_per_layer = {NOTHING:?}"));
        line(format!("elementwise_gb_per_s = {:?}", 1.0 / NOTHING));
        line(format!("host_ms = {:?}", (fit.fixed * 1e3).max(NOTHING)));
        line(format!("host_us_per_sequence = {:?}", (fit.per_sequence * 1e6).max(NOTHING)));
        let (prompt, wake) = (fit.per_prompt * 1e6, self.wake * 1e3);
        line(format!("host_us_per_prompt = {prompt:?}\nwake_ms = {wake:?}"));
        line(format!(
            "step_tokens = {}\nrunning_max = {}",
            self.step_tokens.get(),
            self.running_max
        ));
        line(format!("confidence = \"B\"\nsource = \"{source}\""));
        text
    }
}

#[cfg(test)]
mod tests {
    use overdraft_units::Micros;

    use super::*;
    use crate::{Batch, Catalogue, Chunk};

    #[test]
    fn the_file_is_read_as_a_profile_with_the_fitted_times_and_the_cache_that_was_told() {
        let fit = StepFit {
            read: 0.006,
            per_row: 2e-5,
            power: 2.5,
            fixed: 0.001,
            per_sequence: 6e-6,
            per_prompt: 3e-3,
            per_context: 4.4e-8,
            per_context_beside: Some(6.6e-8),
            per_pair: 7e-10,
            per_request: 0.002,
            error: 0.01,
        };
        let measured = Measured {
            hardware: "my-box".to_owned(),
            model: "smollm2-135m".to_owned(),
            fit,
            kv_tokens: Tokens::new(123_456),
            step_tokens: Tokens::new(2_048),
            running_max: 48,
            wake: 0.0125,
            price_per_hour: 1.5,
            source: "a \"test\"".to_owned(),
        };
        let mut catalogue = Catalogue::builtin();
        catalogue.add("measured.toml", &measured.toml()).unwrap();
        let profile = catalogue.find(&measured.name()).unwrap();
        assert_eq!(profile.name(), "my-box-tp1/smollm2-135m-measured");
        assert_eq!(profile.kv_tokens().unwrap().get(), 123_456);
        assert_eq!((profile.step_tokens.get(), profile.running_max), (2_048, 48));
        assert_eq!(profile.wake, Micros::new(12_500));
        assert!((profile.price_per_hour() - 1.5).abs() < 1e-9);
        let chunk = |before: u32, length: u32| Chunk {
            before: Tokens::new(before),
            length: Tokens::new(length),
            samples: true,
        };
        for chunks in
            [vec![chunk(0, 700)], vec![chunk(500, 1); 16], vec![chunk(90, 1), chunk(0, 64)]]
        {
            let batch: Batch = chunks.into_iter().collect();
            let wanted = fit.step(&batch);
            let found = profile.step(&batch).as_secs_f64();
            assert!((found / wanted - 1.0).abs() < 1e-3, "{batch:?}: {found} {wanted}");
        }
        // What was not seen to cost anything costs nothing.
        let nothing =
            Measured { fit: StepFit { read: 0.005, power: 2.0, ..StepFit::default() }, ..measured };
        let mut catalogue = Catalogue::default();
        catalogue.add("nothing.toml", &nothing.toml()).unwrap();
        let profile = catalogue.find(&nothing.name()).unwrap();
        let took = profile.step(&vec![chunk(0, 4_000)].into_iter().collect()).as_secs_f64();
        assert!((took / 0.005 - 1.0).abs() < 1e-3, "{took}");
    }
}
