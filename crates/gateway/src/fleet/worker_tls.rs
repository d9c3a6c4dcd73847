//! TLS towards workers: one set of trusted authorities and certificates for all workers that have the same.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use overdraft_tls::{ClientSettings, ClientTls, TlsError};

use crate::settings::{Address, WorkerTraits};

/// What connections to workers are encrypted by, by what is set about it. As many as there are different
/// settings of workers in the fleet.
#[derive(Debug, Default)]
pub(crate) struct WorkerTls(Mutex<BTreeMap<ClientSettings, Weak<ClientTls>>>);

impl WorkerTls {
    /// What connections to a worker at `address` are encrypted by; `None` where they are not.
    ///
    /// # Errors
    /// Where a file that the settings name cannot be used.
    pub(crate) fn of(
        &self,
        traits: &WorkerTraits,
        address: &Address,
    ) -> Result<Option<Arc<ClientTls>>, TlsError> {
        if !address.is_encrypted {
            return Ok(None);
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tls) = known.get(&traits.tls).and_then(Weak::upgrade) {
            return Ok(Some(tls));
        }
        let tls = Arc::new(ClientTls::new(traits.tls.clone())?);
        known.retain(|_, tls| tls.strong_count() > 0);
        known.insert(traits.tls.clone(), Arc::downgrade(&tls));
        Ok(Some(tls))
    }
}
