//! Fleet: membership, health probes, scrapes, KV events and maintenance of the workers.
//!
//! | subject                         | file                                   |
//! |---------------------------------|----------------------------------------|
//! | Membership                      | `membership.rs`                        |
//! | Health probes and model list    | `probe.rs`, `model_list.rs`            |
//! | Workers that ask for a key      | `locked_workers.rs`                    |
//! | Data-parallel ranks             | `ranks.rs`                             |
//! | TLS towards workers             | `worker_tls.rs`                        |
//! | Metric scrapes                  | `scrape.rs`                            |
//! | KV events                       | `kv_sources.rs`, `kv_event_subscriber.rs`, `kv_events/` |
//! | Tokenizers of models            | `tokenizers.rs`, `tokenizer_search.rs`, `remote_tokens.rs` |
//! | Scoring abilities               | `scoring_abilities.rs`                 |
//! | Warm-up, restarts, wake hooks   | `maintenance/`                         |
//! | Spot termination                | `spot_termination/`                    |
//! | Autoscaling, hours and cost     | `scaling.rs`, `worker_hours.rs`        |
//!
//! Everything that is learnt here enters the core through the [`Dispatcher`].

mod kv_event_subscriber;
pub mod kv_events;
mod kv_sources;
pub(crate) mod locked_workers;
pub(crate) mod maintenance;
pub(crate) mod membership;
pub(crate) mod model_list;
mod probe;
pub(crate) mod ranks;
pub(crate) mod remote_tokens;
pub(crate) mod scaling;
mod scoring_abilities;
mod scrape;
mod spot_drain;
mod spot_termination;
mod state;
mod tokenizer_search;
mod tokenizers;
mod watchers;
pub(crate) mod worker_hours;
mod worker_tls;

pub(crate) use self::spot_drain::drain_on_notice;
pub(crate) use self::state::Fleet;
pub(crate) use self::tokenizer_search::find_wanted_tokenizers;
pub(crate) use self::watchers::watch_worker;
