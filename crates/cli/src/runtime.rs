//! Async runtime that every command shares.

use crate::fault::Fault;

/// With a thread for each core.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Fault> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Fault::running(format!("the runtime could not start: {error}")))
}
