//! Gateway: the owners of all that requests share, and how other settings are put in force.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use overdraft_otlp::Exporter;
use overdraft_store::Status;
use overdraft_telemetry::metrics::{
    AdmissionMetrics, BreakerMetrics, CacheMetrics, CanaryMetrics, CascadeMetrics, CostMetrics,
    FleetMetrics, GatewayMetrics, LabelCap, RoutingMetrics, TraceMetrics,
};
use overdraft_telemetry::{Clock, unix_milliseconds};
use overdraft_units::Instant;

use super::audit::Audit;
use super::dialect::{Responses, Uncounted};
use super::history::History;
use super::scrapes::Scrapes;
use crate::cache::Cache;
use crate::cascade::CascadeLayer;
use crate::dispatch::{Dispatcher, DispatcherMetrics};
use crate::fleet::Fleet;
use crate::pipeline::{Pipeline, PipelineMetrics};
use crate::settings::{GatewayError, GatewaySettings, LiveSettings, Routes};
use crate::trace::Tracer;

/// Everything that a gateway is made of, from the bottom up.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) settings: Arc<LiveSettings>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) cascade: Arc<CascadeLayer>,
    /// What the Responses dialect leaves behind.
    pub(crate) responses: Arc<Responses>,
    /// Models whose workers cannot count tokens.
    pub(super) uncounted: Uncounted,
    /// How what gateways share is.
    pub(crate) store: Arc<Status>,
    /// The last quarter of an hour, for the dashboard.
    pub(super) history: History,
    /// What is remembered of operators' calls.
    pub(super) audit: Audit,
    /// What scrapers have read of the metrics.
    pub(crate) scrapes: Scrapes,
    /// Streams of events that are open.
    pub(super) event_streams: AtomicUsize,
    /// When it started, in milliseconds since 1970.
    pub(super) started_ms: u64,
    /// Held by who sets the gauges of the fleet and reads them off: another's setting in between
    /// would leave series out.
    pub(super) reading: Mutex<()>,
    /// Sends spans to the collector, until the background takes it.
    pub(crate) spans: Mutex<Option<Exporter>>,
    /// When it began.
    pub(super) begun: Instant,
    /// Whether it has been ready once; it stays so until it leaves.
    pub(super) was_ready: AtomicBool,
    /// Whether its end was signalled.
    pub(super) is_leaving: AtomicBool,
}

impl Gateway {
    /// A gateway that serves nobody yet.
    ///
    /// # Errors
    /// [`GatewayError`] where the settings cannot work.
    pub(crate) fn new(settings: GatewaySettings, clock: Clock) -> Result<Self, GatewayError> {
        settings.check()?;
        let settings = Arc::new(LiveSettings::new(settings));
        let mut requests = GatewayMetrics::new();
        let tenants = Arc::new(LabelCap::of_tenants());
        let registry = requests.registry_mut();
        let cache_metrics = Arc::new(CacheMetrics::new(registry));
        let routing = RoutingMetrics::new(registry);
        let admission = AdmissionMetrics::new(registry, &tenants);
        let fleet_metrics = FleetMetrics::new(registry);
        let breaker = BreakerMetrics::new(registry);
        let cascade_metrics = CascadeMetrics::new(registry, &tenants);
        let canary = CanaryMetrics::new(registry);
        let traces = TraceMetrics::new(registry);
        let cost = Arc::new(CostMetrics::new(registry, &tenants));
        let metrics = DispatcherMetrics { routing, breaker };
        let dispatcher = Arc::new(Dispatcher::new(Arc::clone(&settings), clock, metrics));
        let fleet = Arc::new(Fleet::new(Arc::clone(&dispatcher), fleet_metrics, Arc::clone(&cost)));
        let cache = Arc::clone(&cache_metrics);
        let metrics = PipelineMetrics { requests, admission, cache, canary, cost };
        let (tracer, spans) = tracing(&settings.settings(), clock, traces);
        let pipeline = Arc::new(Pipeline::new(Arc::clone(&fleet), metrics, tracer));
        let cache = Arc::new(Cache::new(Arc::clone(&pipeline), cache_metrics)?);
        let cascade = Arc::new(CascadeLayer::new(Arc::clone(&pipeline), cascade_metrics));
        let responses = Arc::new(Responses::new(&settings.settings(), clock)?);
        Ok(Self {
            settings,
            dispatcher,
            fleet,
            pipeline,
            cache,
            cascade,
            responses,
            uncounted: Uncounted::default(),
            store: Arc::default(),
            history: History::default(),
            audit: Audit::default(),
            scrapes: Scrapes::default(),
            event_streams: AtomicUsize::new(0),
            started_ms: unix_milliseconds(),
            reading: Mutex::new(()),
            spans: Mutex::new(spans),
            begun: clock.now(),
            was_ready: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
        })
    }

    /// Puts other settings in force; requests that are under way keep theirs.
    pub(crate) fn adopt(&self, settings: GatewaySettings) {
        let before = Arc::clone(&self.settings.settings());
        let routes = Routes::new(settings.routing.clone(), &settings.cascades);
        self.cascade.adopt(&settings);
        self.fleet.adopt(&self.settings.routes(), &routes);
        self.settings.replace_routes(routes);
        self.dispatcher.adopt(&settings);
        self.pipeline.adopt(&settings);
        self.cache.adopt(&before, &settings);
        self.settings.replace(settings);
        self.dispatcher.readmit();
    }
}

/// What makes traces and what sends them, where they are wanted.
fn tracing(
    settings: &GatewaySettings,
    clock: Clock,
    metrics: TraceMetrics,
) -> (Option<Arc<Tracer>>, Option<Exporter>) {
    let Some(wanted) = &settings.tracing else { return (None, None) };
    let (tracer, source) = Tracer::new(wanted, clock, metrics);
    (Some(Arc::new(tracer)), Some(Exporter::new(wanted.exporter.clone(), source)))
}
