//! Roofline step time (`docs/design/gpu-model.md#r1`).

use std::time::Duration;

use crate::batch::Batch;
use crate::parts::StepParts;
use crate::profile::{Profile, Scheduling};

const TERA: f64 = 1e12;
const GIGA: f64 = 1e9;
const MICRO: f64 = 1e-6;
const MILLI: f64 = 1e-3;

/// Bytes of a number in what is not quantized: activations, embeddings, the output head.
const HALF: f64 = 2.0;

impl Profile {
    /// How long a step with this batch takes; no time where it computes nothing.
    pub fn step(&self, batch: &Batch) -> Duration {
        Duration::from_secs_f64(self.step_parts(batch).seconds())
    }

    /// The same by its parts.
    pub fn step_parts(&self, batch: &Batch) -> StepParts {
        if batch.is_empty() {
            return StepParts::default();
        }
        self.step_parts_beside(batch, self.layers_time(batch.rows))
    }

    /// The same where it is known what the layers take for so many rows.
    pub(crate) fn step_parts_beside(&self, batch: &Batch, layers: f64) -> StepParts {
        let computed = StepParts {
            layers,
            head: self.head_time(batch),
            decode_attention: self.decode_attention_time(batch),
            prefill_attention: self.prefill_attention_time(batch),
            elementwise: self.elementwise_time(batch),
            links: self.links_time(batch),
            host: 0.0,
        };
        let host =
            self.rates.host_ms * MILLI + self.rates.host_us_per_sequence * MICRO * batch.sequences;
        let hidden = match self.scheduling {
            Scheduling::Between => 0.0,
            Scheduling::Asynchronous => computed.seconds(),
        };
        StepParts { host: (host - hidden).max(0.0), ..computed }
    }

    /// Reading the weights and multiplying by them, whichever is slower, with a smooth passage.
    pub(crate) fn layers_time(&self, rows: f64) -> f64 {
        let (rates, parameters) = (&self.rates, self.model.linear_parameters);
        let read =
            parameters * rates.bytes_per_parameter / self.gpus() / (rates.weights_tb_per_s * TERA);
        let multiplied = 2.0 * parameters / self.gpus() * rows / (rates.gemm_tflops * TERA);
        let power = rates.roofline_power;
        (read.powf(power) + multiplied.powf(power)).powf(1.0 / power)
    }

    fn head_time(&self, batch: &Batch) -> f64 {
        let (model, rates) = (&self.model, &self.rates);
        let numbers = f64::from(model.vocabulary) * f64::from(model.hidden) / self.gpus();
        let read = numbers * HALF / (rates.weights_tb_per_s * TERA);
        let multiplied = 2.0 * numbers * batch.sampled / (rates.gemm_tflops * TERA);
        if batch.sampled > 0.0 { read.max(multiplied) } else { 0.0 }
    }

    fn decode_attention_time(&self, batch: &Batch) -> f64 {
        if batch.decode_context <= 0.0 {
            return 0.0;
        }
        let read = batch.decode_context - self.shared_reads * batch.shared_context;
        let bytes = self.model.kv_bytes_per_token() / self.gpus() * read;
        self.attention_launches() + bytes / (self.rates.kv_tb_per_s * TERA)
    }

    fn prefill_attention_time(&self, batch: &Batch) -> f64 {
        if batch.prefill_pairs <= 0.0 {
            return 0.0;
        }
        let model = &self.model;
        let width = f64::from(model.query_heads) / self.gpus() * f64::from(model.head_dimension);
        let operations = 4.0 * f64::from(model.layers) * width * batch.prefill_pairs;
        self.attention_launches() + operations / (self.rates.prefill_attention_tflops * TERA)
    }

    fn attention_launches(&self) -> f64 {
        f64::from(self.model.layers) * self.rates.attention_us_per_layer * MICRO
    }

    fn elementwise_time(&self, batch: &Batch) -> f64 {
        let (layers, hidden) = (f64::from(self.model.layers), f64::from(self.model.hidden));
        // Six numbers a row are computed on every GPU, fifteen are divided among them.
        let bytes = HALF * layers * hidden * (6.0 + 15.0 / self.gpus());
        layers * self.rates.kernels_us_per_layer * MICRO
            + batch.rows * bytes / (self.rates.elementwise_gb_per_s * GIGA)
    }

    /// Two sums over all GPUs per layer.
    fn links_time(&self, batch: &Batch) -> f64 {
        if self.tensor_parallel <= 1 {
            return 0.0;
        }
        let bytes = HALF * batch.rows * f64::from(self.model.hidden);
        let once = self.rates.allreduce_us * MICRO + bytes / (self.rates.allreduce_gb_per_s * GIGA);
        2.0 * f64::from(self.model.layers) * once
    }

    pub(crate) fn gpus(&self) -> f64 {
        f64::from(self.tensor_parallel)
    }
}

#[cfg(test)]
mod tests {
    use overdraft_units::Tokens;

    use crate::{Batch, Catalogue, Chunk, Profile, Scheduling};

    fn profile(name: &str) -> Profile {
        Catalogue::builtin().find(name).unwrap()
    }

    fn prefill(tokens: u32) -> Batch {
        [Chunk { before: Tokens::ZERO, length: Tokens::new(tokens), samples: true }]
            .into_iter()
            .collect()
    }

    fn decode(sequences: u32, context: u32) -> Batch {
        let one = Chunk { before: Tokens::new(context), length: Tokens::new(1), samples: true };
        (0..sequences).map(|_| one).collect()
    }

    #[track_caller]
    fn check(name: &str, batch: &Batch, milliseconds: f64) {
        let found = profile(name).step(batch).as_secs_f64() * 1e3;
        let off = (found / milliseconds - 1.0).abs();
        assert!(off < 0.03, "{name}: {found:.2} ms; expected {milliseconds} ms");
    }

    #[test]
    fn steps_take_as_long_as_the_published_study_of_the_constants_says() {
        check("h100-tp1/llama-3-8b-bf16", &prefill(1024), 23.0);
        check("h100-tp1/llama-3-8b-bf16", &decode(1, 1500), 7.3);
        check("h100-tp1/llama-3-8b-bf16", &decode(128, 1500), 17.1);
        check("h100-tp2/llama-3-70b-fp8", &prefill(4096), 365.0);
        check("h100-tp2/llama-3-70b-fp8", &decode(32, 1500), 22.0);
        check("h100-tp4/llama-3-70b-bf16", &decode(1, 1500), 16.6);
        check("a10g-tp1/llama-3-8b-bf16", &prefill(1024), 296.0);
        check("a10g-tp1/llama-3-8b-bf16", &decode(8, 1500), 36.0);
        check("l4-tp1/llama-3-8b-int4", &decode(32, 1500), 49.2);
        check("a100-80g-tp1/llama-3-8b-bf16", &decode(32, 1500), 16.7);
    }

    #[test]
    fn a_step_of_nothing_takes_no_time_and_more_never_less() {
        let profile = profile("h100-tp2/llama-3-70b-fp8");
        assert!(profile.step(&Batch::new()).is_zero());
        let times = [1, 2, 8, 64, 256].map(|sequences| profile.step(&decode(sequences, 1000)));
        assert!(times.is_sorted(), "{times:?}");
        let longer = [100, 1_000, 10_000].map(|context| profile.step(&decode(8, context)));
        assert!(longer.is_sorted(), "{longer:?}");
    }

    #[test]
    fn an_engine_that_plans_ahead_hides_what_its_cpu_takes_behind_the_gpu() {
        let between = profile("h100-tp4/llama-3-70b-bf16");
        let mut ahead = between.clone();
        ahead.scheduling = Scheduling::Asynchronous;
        let batch = decode(200, 3_000);
        let host = between.step_parts(&batch).host;
        assert!(0.0015 < host, "{host}");
        let saved = between.step_parts(&batch).seconds() - ahead.step_parts(&batch).seconds();
        assert!((saved - host).abs() < 1e-9, "{saved} {host}");
        // A GPU that is faster than its CPU waits for it.
        ahead.rates.host_ms = 500.0;
        let whole = ahead.step_parts(&batch).seconds();
        assert!((whole - (0.5 + host - between.rates.host_ms * 1e-3)).abs() < 1e-9, "{whole}");
    }

    #[test]
    fn guesses_cost_rows_and_read_what_is_cached_once() {
        let profile = profile("h100-tp1/llama-3-8b-bf16");
        let guessed = |guesses: u32| {
            let mut batch = Batch::new();
            for _ in 0..8 {
                batch.push_verified(Tokens::new(4_000), Tokens::new(guesses));
            }
            profile.step(&batch)
        };
        assert_eq!(guessed(0), profile.step(&decode(8, 4_000)));
        let times = [0, 1, 4, 8].map(guessed);
        assert!(times.is_sorted(), "{times:?}");
        assert!(times[3] < 2 * times[0], "nine rows are not nine steps: {times:?}");
    }

    #[test]
    fn the_parts_are_the_whole() {
        let profile = profile("h100-tp4/llama-3-70b-fp8");
        let mut batch = decode(16, 2000);
        batch.extend([Chunk {
            before: Tokens::new(512),
            length: Tokens::new(512),
            samples: false,
        }]);
        let parts = profile.step_parts(&batch);
        let each = [parts.layers, parts.head, parts.decode_attention, parts.prefill_attention];
        assert!(
            each.iter()
                .chain([&parts.elementwise, &parts.links, &parts.host])
                .all(|part| 0.0 < *part)
        );
        let whole = profile.step(&batch).as_secs_f64();
        assert!((parts.seconds() - whole).abs() < 1e-8);
    }
}
