//! JSON views: what page and terminal read, one file for each subject.
//!
//! A view is a value that the gateway fills at the moment it is asked for. Names end in their unit; an
//! absent value is left out and means that nobody knows it.

mod cache;
mod cascade;
mod cost;
mod fleet;
mod now;
mod queue;
mod requests;
mod speculation;

pub use self::cache::CacheView;
pub use self::cascade::{CascadeRow, CascadeView, Interval};
pub use self::cost::{CostRow, CostView, PoolCostRow};
pub use self::fleet::{FleetView, SourceRow, StoreRow, WorkerRow};
pub use self::now::{HistoryView, NowView, PoolRow, Sample};
pub use self::queue::{QueueView, Refusals, Waiting};
pub use self::requests::{
    Candidate, CostParts, Decision, LiveRow, RequestDetail, RequestRow, RequestsView, Saturation,
};
pub use self::speculation::{SpeculationRow, SpeculationView};
