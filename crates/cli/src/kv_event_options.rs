//! KV event flags: whether and where a worker publishes; the names are vLLM's where vLLM has them.

use overdraft_worker::{KvEventsError, KvEventsSettings};

use crate::fault::Fault;

#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "KV events")]
pub(crate) struct KvEventOptions {
    /// Publish what the cache stores and drops on this `ZeroMQ` address, as vLLM does; port 0 takes
    /// a free one, which `/kv_event_sources` tells
    #[arg(id = "kv_events_endpoint", long = "kv-events-endpoint", value_name = "ENDPOINT")]
    endpoint: Option<String>,
    /// Address where subscribers get events again that they missed
    #[arg(
        id = "kv_replay_endpoint",
        long = "kv-replay-endpoint",
        value_name = "ENDPOINT",
        requires = "kv_events_endpoint"
    )]
    replay: Option<String>,
    /// Both, and more, as one JSON object in vLLM's form: `enable_kv_cache_events`, `publisher`,
    /// `endpoint`, `replay_endpoint`, `buffer_steps`, `topic`
    #[arg(
        id = "kv_events_config",
        long = "kv-events-config",
        value_name = "JSON",
        conflicts_with = "kv_events_endpoint"
    )]
    config: Option<String>,
}

impl KvEventOptions {
    /// What was asked for; `None` is nothing.
    ///
    /// # Errors
    /// A configuration that cannot be read.
    pub(crate) fn settings(&self) -> Result<Option<KvEventsSettings>, Fault> {
        if let Some(json) = &self.config {
            return KvEventsSettings::from_json(json).map_err(|error| refused(&error));
        }
        Ok(self.endpoint.as_deref().map(|endpoint| KvEventsSettings {
            replay_endpoint: self.replay.clone(),
            ..KvEventsSettings::at(endpoint)
        }))
    }
}

/// Why events cannot be published.
pub(crate) fn refused(error: &KvEventsError) -> Fault {
    Fault::input(error.to_string())
        .hint("`overdraft worker --help` shows both forms of the options")
}
