//! Models that the configured workers serve, as far as the file tells.

use crate::WorkerSource;
use crate::tree::Config;

/// The models of all workers, where every worker says what it serves and there will be no others; a
/// model that is not among them is a slip.
pub(super) fn served_models(config: &Config, needed: WorkerSource) -> Option<Vec<&str>> {
    let told: Option<Vec<&str>> =
        config.workers.iter().map(|worker| worker.model.as_deref()).collect();
    let are_all = config.discovery.is_empty() && needed == WorkerSource::File;
    told.filter(|served| !served.is_empty() && are_all)
}
