//! Metrics registry: the Prometheus metrics of worker and gateway.
//!
//! There are two sets: a worker uses vLLM's metric names, so that dashboards and autoscalers for
//! vLLM work unchanged; the gateway has its own. Both are exposed in the two formats that scrapers
//! request. **Invariant:** no label takes its values from clients without a cap.

mod admission;
mod breaker;
mod buckets;
mod cache;
mod canary;
mod cascade;
mod cost;
mod exposition;
mod fleet;
mod gateway;
mod kv_share;
mod label_cap;
mod registry;
mod routing;
mod series_cache;
mod single;
mod speculation;
mod traces;
mod worker;
mod worker_names;

pub use self::admission::{AdmissionMetrics, WorkerPressure};
pub use self::breaker::{BreakerMetrics, StoreGauges};
pub use self::cache::{CacheCounts, CacheGauges, CacheMetrics};
pub use self::canary::CanaryMetrics;
pub use self::cascade::{CascadeGauges, CascadeMetrics};
pub use self::cost::{CostMetrics, PoolHours};
pub use self::exposition::Exposition;
pub use self::fleet::{FleetMetrics, MemoryGauges, PoolGauges, WarmedUp, Woken};
pub use self::gateway::{GatewayMetrics, RequestOutcome};
pub use self::kv_share::{FetchFacts, KvShareMetrics};
pub use self::label_cap::{LabelCap, OTHER};
pub use self::registry::DescribedRegistry;
pub use self::routing::{Decided, PrefixGauges, RoutingMetrics, WorkerGauges};
pub use self::speculation::SpeculationFacts;
pub use self::traces::TraceMetrics;
pub use self::worker::{
    CacheFacts, MetricNames, RequestFacts, WorkerIdentity, WorkerMetrics, WorkerState,
};

#[cfg(test)]
mod tests;
