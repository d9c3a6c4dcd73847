//! Roofline step time (`docs/design/gpu-model.md#r1`).

use std::time::Duration;

use crate::batch::Batch;
use crate::parts::StepParts;
use crate::profile::{Profile, Rates, Scheduling};

const TERA: f64 = 1e12;
const GIGA: f64 = 1e9;
const MICRO: f64 = 1e-6;
const MILLI: f64 = 1e-3;

/// Bytes of a number in what is not quantized: activations, embeddings, the output head.
const HALF: f64 = 2.0;

/// What the matrix products of all layers take, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Products {
    /// Of what every row is multiplied by.
    pub(crate) layers: f64,
    /// Of routed experts.
    pub(crate) experts: f64,
}

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
        self.step_parts_beside(batch, self.products(batch.rows))
    }

    /// The same where it is known what the matrix products take for so many rows.
    pub(crate) fn step_parts_beside(&self, batch: &Batch, products: Products) -> StepParts {
        let Products { layers, experts } = products;
        let computed = StepParts {
            layers,
            experts,
            head: self.head_time(batch),
            decode_attention: self.decode_attention_time(batch),
            prefill_attention: self.prefill_attention_time(batch),
            elementwise: self.elementwise_time(batch),
            links: self.links_time(batch),
            host: 0.0,
        };
        let Rates { host_ms, host_us_per_sequence, host_us_per_prompt, .. } = self.rates;
        let each = host_us_per_sequence * batch.sequences + host_us_per_prompt * batch.prefills;
        let host = host_ms * MILLI + each * MICRO;
        let hidden = match self.scheduling {
            Scheduling::Between => 0.0,
            Scheduling::Asynchronous => computed.seconds(),
        };
        StepParts { host: (host - hidden).max(0.0), ..computed }
    }

    /// What the matrix products of all layers take for so many rows.
    pub(crate) fn products(&self, rows: f64) -> Products {
        Products { layers: self.layers_time(rows), experts: self.experts_time(rows) }
    }

    /// Reading the weights and multiplying by them, whichever is slower, with a smooth passage.
    fn layers_time(&self, rows: f64) -> f64 {
        let (rates, parameters) = (&self.rates, self.model.linear_parameters);
        let read =
            parameters * rates.bytes_per_parameter / self.gpus() / (rates.weights_tb_per_s * TERA);
        let multiplied = 2.0 * parameters / self.gpus() * rows / (rates.gemm_tflops * TERA);
        smooth_maximum(read, multiplied, rates.roofline_power)
    }

    /// The same of the experts: those that some row touches are read, a row is multiplied by its own.
    fn experts_time(&self, rows: f64) -> f64 {
        let (Some(experts), Some(rates)) = (&self.model.experts, &self.rates.experts) else {
            return 0.0;
        };
        let bytes = experts.read_parameters(rows) * rates.bytes_per_parameter;
        let read = bytes / self.gpus() / (rates.weights_tb_per_s * TERA);
        let operations = 2.0 * experts.active_parameters() * rows;
        let multiplied = operations / self.gpus() / (rates.gemm_tflops * TERA);
        f64::from(experts.layers) * rates.us_per_layer * MICRO
            + smooth_maximum(read, multiplied, rates.roofline_power)
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
        let all = batch.decode_context - self.shared_reads * batch.shared_context;
        let read = self.model.attended(all, batch.decodes);
        let bytes = self.model.kv_bytes_per_position() / self.kv_shards() * read;
        let beside_prompts = batch.prefill_rows > 0.0;
        let share = if beside_prompts { self.rates.kv_share_beside_prompts } else { 1.0 };
        let reading = bytes / (share * self.rates.kv_tb_per_s * TERA);
        self.attention_launches() + reading.max(self.latent_products_time(read))
    }

    /// Multiplying each head's query by the latent rows of so many positions, and the weights by them again.
    fn latent_products_time(&self, positions: f64) -> f64 {
        let Some(latent) = &self.model.latent else {
            return 0.0;
        };
        let numbers = 2.0 * f64::from(latent.rank) + f64::from(latent.rope_dimension);
        let heads = f64::from(self.model.query_heads) / self.gpus();
        let operations = 2.0 * f64::from(self.model.layers) * heads * numbers * positions;
        operations / (self.rates.prefill_attention_tflops * TERA)
    }

    fn prefill_attention_time(&self, batch: &Batch) -> f64 {
        if batch.prefill_pairs <= 0.0 {
            return 0.0;
        }
        let model = &self.model;
        let keys = f64::from(model.head_dimension);
        let numbers = match &model.latent {
            Some(latent) => f64::midpoint(keys, f64::from(latent.value_dimension)),
            None => keys,
        };
        let width = f64::from(model.query_heads) / self.gpus() * numbers;
        let pairs = model.attended(batch.prefill_pairs, batch.prefill_rows);
        let operations = 4.0 * f64::from(model.layers) * width * pairs;
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

/// The larger of two times, with a smooth passage where they are alike: (a^p + b^p)^(1/p).
fn smooth_maximum(one: f64, other: f64, power: f64) -> f64 {
    (one.powf(power) + other.powf(power)).powf(1.0 / power)
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
    fn a_step_reads_the_experts_that_it_touches_and_multiplies_by_the_active_ones() {
        let profile = profile("h100-tp1/qwen-3-30b-a3b-bf16");
        let rates = profile.rates.experts.unwrap();
        let fixed = 48.0 * rates.us_per_layer * 1e-6;
        let read = |touched: f64| {
            48.0 * touched * 4_718_592.0 * 2.0 / (rates.weights_tb_per_s * 1e12) + fixed
        };
        let experts = |batch: &Batch| profile.step_parts(batch).experts;
        // One token: 8 of 128. Reading is all but a little of it.
        let one = experts(&decode(1, 100));
        assert!((one / read(8.0) - 1.0).abs() < 0.01, "{one}");
        // 64 tokens: 128 (1 - (15/16)^64) = 125.9.
        let many = experts(&decode(64, 100));
        assert!(read(125.9) < many && many < 1.35 * read(125.9), "{many}");
        // A long prompt: all are read, and 8 experts' products decide.
        let prompt = experts(&prefill(8_192));
        let multiplied = 2.0 * 48.0 * 8.0 * 4_718_592.0 * 8_192.0 / (rates.gemm_tflops * 1e12);
        assert!(multiplied < prompt && prompt < 1.5 * multiplied, "{prompt} {multiplied}");
        let dense = self::profile("h100-tp1/llama-3-8b-bf16").step_parts(&decode(4, 100));
        assert!(dense.experts.abs() < 1e-12, "{}", dense.experts);
    }

    #[test]
    fn latent_attention_reads_one_row_for_all_heads_on_every_gpu() {
        let profile = profile("h200-tp8/deepseek-v3-fp8");
        let launches = 61.0 * profile.rates.attention_us_per_layer * 1e-6;
        let found = profile.step_parts(&decode(64, 16_383)).decode_attention - launches;
        let bytes = 70_272.0 * 64.0 * 16_384.0;
        let read = bytes / (profile.rates.kv_tb_per_s * 1e12);
        assert!((found / read - 1.0).abs() < 1e-9, "{found} {read}");
        // One GPU has all heads: 128 x 2 x 1,088 products for 1,152 bytes take longer than reading them.
        let mut alone = profile.clone();
        alone.tensor_parallel = 1;
        let found = alone.step_parts(&decode(64, 16_383)).decode_attention - launches;
        let products = 2.0 * 61.0 * 128.0 * 1_088.0 * 64.0 * 16_384.0;
        let products = products / (profile.rates.prefill_attention_tflops * 1e12);
        assert!(1.2 * read < found && (found / products - 1.0).abs() < 1e-9, "{found} {products}");
        // Prompts are computed with whole keys of 192 and values of 128 numbers.
        let found = profile.step_parts(&prefill(8_192)).prefill_attention - launches;
        let products = 2.0 * 61.0 * 16.0 * 320.0 * 8_192.0 * 4_096.0;
        let products = products / (profile.rates.prefill_attention_tflops * 1e12);
        assert!((found / products - 1.0).abs() < 1e-9, "{found} {products}");
    }

    #[test]
    fn decodes_beside_prompts_read_slower_on_cards_that_do_not_share_heads() {
        let rtx = profile("rtx-4090/llama-3-8b-bf16");
        let launches = 32.0 * rtx.rates.attention_us_per_layer * 1e-6;
        let beside = |profile: &Profile| {
            let mut batch = decode(32, 1_023);
            batch.push(Chunk { before: Tokens::ZERO, length: Tokens::new(128), samples: true });
            profile.step_parts(&batch).decode_attention
        };
        let alone = rtx.step_parts(&decode(32, 1_023)).decode_attention;
        let ratio = (beside(&rtx) - launches) / (alone - launches);
        assert!((ratio - 1.0 / 0.43).abs() < 1e-9, "{ratio}");
        // The kernels take 312 µs a layer with the prompt, 181 without it.
        let measured = beside(&rtx) / 32.0 * 1e6;
        assert!((0.9..1.3).contains(&(measured / 312.0)), "{measured}");
        let h100 = profile("h100-tp1/llama-3-8b-bf16");
        let alone = h100.step_parts(&decode(32, 1_023)).decode_attention;
        assert!((beside(&h100) - alone).abs() < 1e-12);
    }

    #[test]
    fn layers_with_a_window_read_no_more_than_it() {
        let profile = profile("h100-tp2/gpt-oss-120b-mxfp4");
        let mut full = profile.clone();
        full.model.window = None;
        let reading = |profile: &Profile, batch: &Batch| {
            let launches = 36.0 * profile.rates.attention_us_per_layer * 1e-6;
            profile.step_parts(batch).decode_attention - launches
        };
        let short = decode(16, 100);
        assert!((reading(&profile, &short) / reading(&full, &short) - 1.0).abs() < 1e-9);
        let long = decode(16, 12_799);
        let ratio = reading(&profile, &long) / reading(&full, &long);
        assert!((ratio - (0.5 + 0.005)).abs() < 1e-9, "{ratio}");
        let prompt = prefill(8_192);
        let whole = full.step_parts(&prompt).prefill_attention;
        assert!(profile.step_parts(&prompt).prefill_attention < 0.55 * whole);
    }

    /// Steps of dense profiles as they were before models had experts, in nanoseconds.
    #[test]
    fn steps_of_dense_models_take_what_they_took() {
        for (name, expected) in [
            ("h100-tp1/llama-3-8b-bf16", [7_281_601, 23_367_093, 15_635_695]),
            ("h100-tp4/llama-3-70b-fp8", [11_487_274, 62_895_478, 38_989_750]),
            ("a100-80g-tp4/llama-3-70b-bf16", [28_980_317, 174_756_864, 102_248_746]),
            ("l4-tp1/llama-3-8b-int4", [20_560_918, 343_287_060, 199_475_211]),
            ("rtx-pro-6000-tp2/qwen-3-32b-bf16", [27_301_652, 182_434_547, 113_594_224]),
        ] {
            let mut mixed = decode(16, 2_000);
            mixed.extend(Some(Chunk {
                before: Tokens::new(512),
                length: Tokens::new(512),
                samples: false,
            }));
            let found = [decode(1, 1_500), prefill(1_024), mixed]
                .map(|batch| profile(name).step(&batch).as_nanos());
            assert_eq!(found, expected, "{name}");
        }
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
