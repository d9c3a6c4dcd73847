//! Store of the gateways, told to refuse a key.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use overdraft_config::{Key, Loader, WorkerSource};
use overdraft_gateway::KeyDigest;
use overdraft_store::{
    Namespace, Place, REVOCATION_LIFE_MAX, REVOCATIONS_MAX, Revocation, Store, StoreSettings,
};

use crate::fault::Fault;

/// How long the store may take for an answer: a person waits, no request does.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Store")]
pub(super) struct StoreOptions {
    /// Also tells the gateways that share this Redis, as in `redis://10.0.0.9:6379`
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    redis: Option<String>,
    /// The namespace of those gateways
    #[arg(long, value_name = "NAME", requires = "redis", default_value = "default")]
    namespace: String,
    /// Also tells the gateways that share the `store` of this configuration
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl StoreOptions {
    /// How the store is spoken to; `None` where none is named.
    ///
    /// # Errors
    /// Where what is named is no store.
    pub(super) fn settings(&self) -> Result<Option<StoreSettings>, Fault> {
        let mut settings = match (&self.redis, &self.config) {
            (Some(url), _) => StoreSettings {
                place: Place::parse(url).map_err(|error| Fault::input(error.to_string()))?,
                namespace: Namespace::parse(&self.namespace)
                    .map_err(|error| Fault::input(error.to_string()))?,
                ..StoreSettings::default()
            },
            (None, Some(file)) => {
                let loader = Loader::new(file).with_workers(WorkerSource::Elsewhere);
                crate::settings::store(&loader.load()?.config.store)
            }
            (None, None) => return Ok(None),
        };
        if settings.place == Place::Memory {
            return Err(Fault::input("no store is named: gateways share nothing in `memory`")
                .hint("name `store.url` in the configuration, or `--redis redis://HOST:PORT`"));
        }
        settings.timeout = settings.timeout.max(PATIENCE);
        settings.connect_timeout = settings.connect_timeout.max(PATIENCE);
        Ok(Some(settings))
    }
}

/// Has every gateway of the store refuse a key, until it expires or for a year.
///
/// # Errors
/// Where the store cannot be told; nothing is revoked then.
pub(super) fn revoke(settings: &StoreSettings, key: &Key, now: Timestamp) -> Result<(), Fault> {
    let digest = KeyDigest::from_hex(&key.digest()).expect("the file's digests were checked");
    let revocation = Revocation { digest: *digest.bytes(), until: until(key, now) };
    let place = &settings.place;
    let mut store = Store::open(settings).map_err(|error| Fault::input(error.to_string()))?;
    match crate::runtime::runtime()?.block_on(store.revoke(&[revocation])) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Fault::running(format!(
            "`{place}` holds {REVOCATIONS_MAX} revocations, and has no room for another"
        ))
        .hint("without `--redis` and `--config` the key is taken out of its file")),
        Err(fault) => Err(Fault::running(format!("`{place}` did not take the revocation: {fault}")).hint(
            "nothing has changed; without `--redis` and `--config` the key is taken out of its file",
        )),
    }
}

/// The end of a revocation, in milliseconds since 1970.
fn until(key: &Key, now: Timestamp) -> u64 {
    let life = i64::try_from(REVOCATION_LIFE_MAX.as_millis()).unwrap_or(i64::MAX);
    let latest = now.as_millisecond().saturating_add(life);
    let end = key.expires.map_or(latest, |end| end.0.as_millisecond().min(latest));
    // One that has expired is told for a moment, which does no harm.
    u64::try_from(end.max(now.as_millisecond() + 1)).unwrap_or_default()
}
