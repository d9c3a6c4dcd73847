//! Fleet: who the workers are, how they are, and what is done for them beyond sending requests.
//!
//! | question                                          | file                      |
//! |---------------------------------------------------|---------------------------|
//! | Which workers are in the fleet?                    | `membership.rs`           |
//! | Is a worker there, and which models does it serve? | `probe.rs`, `model_list.rs` |
//! | How loaded is it?                                  | `scrape.rs`               |
//! | What does its cache hold?                          | `kv_event_subscriber.rs`, `kv_events/` |
//! | Which tokenizer does its model have?               | `tokenizers.rs`, `tokenizer_search.rs` |
//! | How can it score a draft?                          | `scoring_abilities.rs`    |
//! | Must it be warmed up or restarted?                 | `maintenance/`            |
//! | Is its machine about to be taken away?             | `spot_termination/`       |
//! | How many workers does a pool want?                 | `scaling.rs`              |
//!
//! Everything that is learnt here enters the core through the [`Dispatcher`].

mod kv_event_subscriber;
pub mod kv_events;
pub(crate) mod maintenance;
pub(crate) mod membership;
pub(crate) mod model_list;
mod probe;
pub(crate) mod scaling;
mod scoring_abilities;
mod scrape;
mod spot_drain;
mod spot_termination;
mod state;
mod tokenizer_search;
mod tokenizers;
mod watchers;

pub(crate) use self::spot_drain::drain_on_notice;
pub(crate) use self::state::Fleet;
pub(crate) use self::tokenizer_search::find_wanted_tokenizers;
pub(crate) use self::watchers::watch_worker;
