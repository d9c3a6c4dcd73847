//! vLLM metric names: the mapping of a worker's metrics to the names of vLLM releases.
//!
//! The whole mapping, one line per name; help texts are vLLM's. The registry adds `_total` to
//! counters.

use std::borrow::Cow;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

use super::worker::{CacheFacts, MetricNames, RatioGauge, WorkerIdentity, WorkerMetrics, ratio};

impl WorkerMetrics {
    pub(super) fn expose(&mut self, identity: &WorkerIdentity, names: MetricNames) {
        let mut registry = std::mem::take(&mut self.registry);
        let model = || (Cow::from("model_name"), Cow::from(identity.model.clone()));
        let engine = (Cow::from("engine"), Cow::from("0"));
        if names != MetricNames::V06 {
            let replica = registry.sub_registry_with_labels([model(), engine.clone()].into_iter());
            self.expose_shared(replica, identity);
            self.expose_current(replica);
            let rejected = registry
                .sub_registry_with_label(model())
                .sub_registry_with_label(("reason".into(), "max_num_queued_reqs".into()));
            put(
                rejected,
                "vllm:admission_rejections",
                "Number of admission attempts rejected by a queue limit, by reason",
                &self.rejections,
            );
        }
        match names {
            MetricNames::Current => {}
            MetricNames::V06 => {
                let replica = registry.sub_registry_with_label(model());
                self.expose_shared(replica, identity);
                self.expose_v06(replica);
            }
            MetricNames::Both => {
                let replica = registry.sub_registry_with_labels([model(), engine].into_iter());
                self.expose_v06(replica);
            }
        }
        self.registry = registry;
    }

    /// Names that never changed.
    fn expose_shared(&self, to: &mut Registry, identity: &WorkerIdentity) {
        self.expose_counts(to, identity);
        self.expose_times(to);
        self.expose_sizes(to);
    }

    fn expose_counts(&self, to: &mut Registry, identity: &WorkerIdentity) {
        put(
            to,
            "vllm:num_requests_running",
            "Number of requests in model execution batches",
            &self.running,
        );
        put(
            to,
            "vllm:num_requests_waiting",
            "Number of requests waiting to be processed",
            &self.waiting,
        );
        put(
            to,
            "vllm:num_preemptions",
            "Cumulative number of preemption from the engine",
            &self.preemptions,
        );
        put(to, "vllm:prompt_tokens", "Number of prefill tokens processed", &self.prompt_tokens);
        put(
            to,
            "vllm:generation_tokens",
            "Number of generation tokens processed",
            &self.generation_tokens,
        );
        put(to, "vllm:request_success", "Count of successfully processed requests", &self.success);
        put(
            to,
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            &cache_info(identity),
        );
    }

    fn expose_times(&self, to: &mut Registry) {
        let requests = &self.requests;
        put(
            to,
            "vllm:time_to_first_token_seconds",
            "Histogram of time to first token in seconds",
            &self.first_token,
        );
        put(
            to,
            "vllm:e2e_request_latency_seconds",
            "Histogram of e2e request latency in seconds",
            &requests.total,
        );
        put(
            to,
            "vllm:request_queue_time_seconds",
            "Histogram of time spent in WAITING phase for request",
            &requests.queued,
        );
        put(
            to,
            "vllm:request_inference_time_seconds",
            "Histogram of time spent in RUNNING phase for request",
            &requests.inference,
        );
        put(
            to,
            "vllm:request_prefill_time_seconds",
            "Histogram of time spent in PREFILL phase for request",
            &requests.prefill,
        );
        put(
            to,
            "vllm:request_decode_time_seconds",
            "Histogram of time spent in DECODE phase for request",
            &requests.decode,
        );
    }

    fn expose_sizes(&self, to: &mut Registry) {
        let requests = &self.requests;
        put(
            to,
            "vllm:iteration_tokens_total",
            "Histogram of number of tokens per engine_step",
            &self.step_tokens,
        );
        put(
            to,
            "vllm:request_prompt_tokens",
            "Number of prefill tokens processed",
            &requests.prompt,
        );
        put(
            to,
            "vllm:request_generation_tokens",
            "Number of generation tokens processed",
            &requests.completion,
        );
        put(
            to,
            "vllm:request_max_num_generation_tokens",
            "Histogram of maximum number of requested generation tokens",
            &requests.output_max,
        );
        put(
            to,
            "vllm:request_params_max_tokens",
            "Histogram of the max_tokens request parameter",
            &requests.output_max,
        );
        put(to, "vllm:request_params_n", "Histogram of the n request parameter", &requests.choices);
    }

    /// Names of 0.10 and later.
    fn expose_current(&self, to: &mut Registry) {
        let requests = &self.requests;
        put(
            to,
            "vllm:num_requests_waiting_by_reason",
            "Number of waiting requests by reason",
            &self.waiting_by_reason,
        );
        put(
            to,
            "vllm:kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage",
            &self.cache_usage,
        );
        put(
            to,
            "vllm:prefix_cache_queries",
            "Prefix cache queries, in terms of number of queried tokens",
            &self.prefix_queried,
        );
        put(
            to,
            "vllm:prefix_cache_hits",
            "Prefix cache hits, in terms of number of cached tokens",
            &self.prefix_hit,
        );
        put(
            to,
            "vllm:prompt_tokens_by_source",
            "Number of prompt tokens by source",
            &self.prompt_by_source,
        );
        put(
            to,
            "vllm:prompt_tokens_cached",
            "Number of cached prompt tokens (local + external)",
            &self.prefix_hit,
        );
        put(
            to,
            "vllm:inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds",
            &self.next_token,
        );
        put(
            to,
            "vllm:request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request",
            &requests.per_token,
        );
        put(
            to,
            "vllm:request_num_preemptions",
            "Histogram of the number of times a request was preempted",
            &requests.preemptions,
        );
        put(
            to,
            "vllm:request_prefill_kv_computed_tokens",
            "Histogram of new KV tokens computed during prefill (excluding cached tokens)",
            &requests.computed,
        );
    }

    /// Names of 0.6 that have gone since.
    fn expose_v06(&self, to: &mut Registry) {
        let off = RatioGauge::default();
        off.set(-1.0);
        put(
            to,
            "vllm:num_requests_swapped",
            "Number of requests swapped to CPU",
            &Gauge::<i64>::default(),
        );
        put(
            to,
            "vllm:gpu_cache_usage_perc",
            "GPU KV-cache usage. 1 means 100 percent usage",
            &self.cache_usage,
        );
        put(
            to,
            "vllm:cpu_cache_usage_perc",
            "CPU KV-cache usage. 1 means 100 percent usage",
            &RatioGauge::default(),
        );
        put(
            to,
            "vllm:gpu_prefix_cache_hit_rate",
            "GPU prefix cache block hit rate",
            &self.hit_rate,
        );
        put(to, "vllm:cpu_prefix_cache_hit_rate", "CPU prefix cache block hit rate", &off);
        put(to, "vllm:tokens", "Number of prefill plus generation tokens processed", &self.tokens);
        put(
            to,
            "vllm:time_per_output_token_seconds",
            "Histogram of time per output token in seconds",
            &self.next_token,
        );
        put(
            to,
            "vllm:time_in_queue_requests",
            "Histogram of time the request spent in the queue in seconds",
            &self.requests.queued,
        );
    }
}

fn put<M: Metric + Clone>(to: &mut Registry, name: &'static str, help: &'static str, metric: &M) {
    to.register(name, help, metric.clone());
}

fn cache_info(identity: &WorkerIdentity) -> Family<Vec<(&'static str, String)>, Gauge> {
    let CacheFacts { block_size, blocks } = identity.cache;
    let tokens = u64::from(block_size) * u64::from(blocks.get());
    let concurrency = ratio(tokens, u64::from(identity.context.get()));
    let family = Family::<Vec<(&'static str, String)>, Gauge>::default();
    let labels = vec![
        ("block_size", block_size.to_string()),
        ("cache_dtype", "auto".to_owned()),
        ("enable_prefix_caching", "True".to_owned()),
        ("kv_cache_max_concurrency", format!("{concurrency:.1}")),
        ("kv_cache_size_tokens", tokens.to_string()),
        ("num_gpu_blocks", blocks.get().to_string()),
        ("prefix_caching_hash_algo", "overdraft".to_owned()),
        ("sliding_window", "None".to_owned()),
    ];
    family.get_or_create(&labels).set(1);
    family
}
