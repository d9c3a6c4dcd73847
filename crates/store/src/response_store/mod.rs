//! Shared response store: cached answers in Redis, by the hash of their requests.
//!
//! A response store is asked by requests, so it is never waited for longer than [`LOOKUP_MAX`], and connections
//! are made beside the look-ups. After a few failures, or look-ups that come late, nothing is sent for a while. An entry lies in
//! an envelope (`envelope`) that names what it is; whatever does not fit the name is as good as
//! absent, and counted.
//!
//! A purge names entries by what they belong to and takes the same short time whatever their number: each
//! entry carries the stamp that its tenant and model had when it was written, and a purge changes
//! that. The stamps begin with an epoch of their own, so that entries outlive no loss of the stamps.

mod envelope;
mod shared_connection;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use data_encoding::HEXLOWER;
use redis::{Cmd, FromRedisValue};

pub use self::envelope::{NAME_BYTES, Name, Secret, Unusable};
use self::envelope::{Sealer, Stamp};
use self::shared_connection::SharedConnection;
use crate::address::Place;
use crate::fault::{Fault, OpenError};
use crate::settings::StoreSettings;
use crate::status::Status;
use crate::transport::Dialer;

/// The form of entries; others lie under other keys.
const SCHEMA: u32 = 1;

/// How long a look-up takes at most, connection and all.
pub const LOOKUP_MAX: Duration = Duration::from_millis(100);

/// How long stamps are kept that nobody writes under; entries do not live longer.
pub const STAMPS_LIFE: Duration = Duration::from_hours(30 * 24);

/// What a look-up finds.
#[derive(Debug)]
pub enum Looked {
    /// This was kept; and the ticket with which it can be replaced.
    Found(Vec<u8>, Ticket),
    /// Nothing of use, and the ticket with which it can be put there.
    Missing(Ticket),
}

/// Says under which stamp an entry is put.
#[derive(Clone, Copy, Debug)]
pub struct Ticket(Stamp);

/// What a purge takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// What one tenant's requests left.
    Tenant([u8; NAME_BYTES]),
    /// What one model answered.
    Model([u8; NAME_BYTES]),
    /// What one model answered one tenant.
    Both([u8; NAME_BYTES], [u8; NAME_BYTES]),
}

/// How often what lay there could not be used, by why, and what faults were met.
#[derive(Debug, Default)]
pub struct ResponseStoreStatus {
    unusable: [AtomicU64; Unusable::ALL.len()],
    /// The faults, as of any store.
    pub faults: Status,
}

impl ResponseStoreStatus {
    /// Entries that were none, by why.
    pub fn unusable(&self) -> impl Iterator<Item = (Unusable, u64)> {
        let count = |place: &AtomicU64| place.load(Ordering::Relaxed);
        Unusable::ALL.into_iter().zip(self.unusable.iter().map(count))
    }

    fn note(&self, why: Unusable) {
        let at = Unusable::ALL.iter().position(|known| *known == why);
        if let Some(count) = at.and_then(|at| self.unusable.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A place for answers that gateways share.
#[derive(Debug)]
pub struct ResponseStore {
    connection: SharedConnection,
    sealer: Sealer,
    namespace: String,
    /// Bytes of an entry at most.
    entry_max: usize,
    status: ResponseStoreStatus,
}

impl ResponseStore {
    /// Opens one where `settings` say, with entries of up to `entry_max` bytes, sealed where there is a
    /// secret; `None` where nothing is shared. Whether Redis is there is found out when it is asked.
    ///
    /// # Errors
    /// [`OpenError`] where no Redis could be spoken to with these settings.
    pub fn open(
        settings: &StoreSettings,
        secret: Option<Secret>,
        entry_max: usize,
    ) -> Result<Option<Self>, OpenError> {
        let place = match &settings.place {
            Place::Memory => return Ok(None),
            Place::Wrong(error) => return Err(error.clone().into()),
            Place::Redis(place) => place.clone(),
        };
        let timeout = settings.timeout.min(LOOKUP_MAX);
        let dialer = Dialer::new(place, settings)?;
        Ok(Some(Self {
            connection: SharedConnection::new(dialer, timeout),
            sealer: Sealer::new(secret),
            namespace: settings.namespace.to_string(),
            entry_max,
            status: ResponseStoreStatus::default(),
        }))
    }

    /// How it has done, for metrics.
    pub const fn status(&self) -> &ResponseStoreStatus {
        &self.status
    }

    /// Looks an entry up.
    ///
    /// # Errors
    /// [`Fault`]; the request goes on as if there were no response store.
    pub async fn get(&self, name: &Name) -> Result<Looked, Fault> {
        self.ran(self.connection.in_haste(self.look_up(name)).await)
    }

    async fn look_up(&self, name: &Name) -> Result<Looked, Fault> {
        // More than an entry can have is not read: it is none.
        let last = self.entry_max.saturating_add(envelope::OVERHEAD_MAX);
        let mut reading = redis::cmd("GETRANGE");
        reading.arg(self.key(name)).arg(0).arg(last);
        let (bytes, stamp) = tokio::join!(self.run::<Vec<u8>>(&reading), self.stamp(name));
        let stamp = stamp?;
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(Fault::WrongType) => {
                self.status.note(Unusable::Foreign);
                return Ok(Looked::Missing(Ticket(stamp)));
            }
            Err(fault) => return Err(fault),
        };
        if bytes.is_empty() {
            return Ok(Looked::Missing(Ticket(stamp)));
        }
        match self.sealer.open(name, stamp, &bytes) {
            Ok(entry) => Ok(Looked::Found(entry, Ticket(stamp))),
            Err(why) => {
                self.status.note(why);
                Ok(Looked::Missing(Ticket(stamp)))
            }
        }
    }

    /// Puts an entry there for `life`.
    ///
    /// # Errors
    /// [`Fault`]; it is not there then.
    pub async fn put(
        &self,
        name: &Name,
        Ticket(stamp): Ticket,
        entry: &[u8],
        life: Duration,
    ) -> Result<(), Fault> {
        if self.entry_max < entry.len() {
            return Ok(());
        }
        let sealed = self.sealer.seal(name, stamp, entry).ok_or(Fault::Refused)?;
        let millis = life.min(STAMPS_LIFE).as_millis().max(1).to_string();
        let mut writing = redis::cmd("SET");
        writing.arg(self.key(name)).arg(&sealed).arg("PX").arg(millis);
        self.ran(self.connection.in_time(self.run::<()>(&writing)).await)
    }

    /// Makes everything within `scope` as good as absent, for every gateway.
    ///
    /// # Errors
    /// [`Fault`]; it is still there then.
    pub async fn purge(&self, scope: Scope) -> Result<(), Fault> {
        let field = match scope {
            Scope::All => "epoch".to_owned(),
            Scope::Tenant(tenant) => tenant_field(&tenant),
            Scope::Model(model) => model_field(&model),
            Scope::Both(tenant, model) => both_field(&tenant, &model),
        };
        let mut writing = redis::cmd("HSET");
        writing.arg(self.stamps()).arg(field).arg(envelope::fresh_word());
        writing.arg("purged").arg(envelope::fresh_word());
        let work = async {
            self.run::<i64>(&writing).await?;
            self.keep_stamps().await
        };
        self.ran(self.connection.in_time(work).await)
    }

    /// A word that changes with every purge by any gateway.
    ///
    /// # Errors
    /// [`Fault`]; nobody knows then.
    pub async fn purged(&self) -> Result<Option<String>, Fault> {
        let mut reading = redis::cmd("HGET");
        reading.arg(self.stamps()).arg("purged");
        self.ran(self.connection.in_time(self.run(&reading)).await)
    }

    /// What entries of this tenant and model carry now.
    async fn stamp(&self, name: &Name) -> Result<Stamp, Fault> {
        let mut reading = redis::cmd("HMGET");
        reading.arg(self.stamps()).arg("epoch").arg(tenant_field(&name.tenant));
        reading.arg(model_field(&name.model)).arg(both_field(&name.tenant, &name.model));
        let mut words: Vec<Option<String>> = self.run(&reading).await?;
        if words.first().is_some_and(Option::is_none) {
            // Nobody has begun, or all stamps were lost, and with them all entries.
            let mut writing = redis::cmd("HSETNX");
            writing.arg(self.stamps()).arg("epoch").arg(envelope::fresh_word());
            self.run::<i64>(&writing).await?;
            self.keep_stamps().await?;
            words = self.run(&reading).await?;
        }
        Ok(Stamp::of(&words))
    }

    async fn keep_stamps(&self) -> Result<(), Fault> {
        let mut command = redis::cmd("EXPIRE");
        command.arg(self.stamps()).arg(2 * STAMPS_LIFE.as_secs());
        self.run::<i64>(&command).await.map(drop)
    }

    async fn run<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Fault> {
        self.connection.run(command).await
    }

    fn ran<T>(&self, ran: Result<T, Fault>) -> Result<T, Fault> {
        if let Err(fault) = &ran {
            self.status.faults.count(*fault);
        }
        ran
    }

    /// Each entry's key stands for itself, so that a cluster spreads them.
    fn key(&self, name: &Name) -> String {
        format!("overdraft:cache:{SCHEMA}:{}:{}", self.namespace, HEXLOWER.encode(&name.key))
    }

    fn stamps(&self) -> String {
        format!("overdraft:{{{}}}:{SCHEMA}:cache:stamps", self.namespace)
    }
}

fn tenant_field(tenant: &[u8]) -> String {
    format!("t:{}", HEXLOWER.encode(tenant))
}

fn model_field(model: &[u8]) -> String {
    format!("m:{}", HEXLOWER.encode(model))
}

fn both_field(tenant: &[u8], model: &[u8]) -> String {
    format!("b:{}:{}", HEXLOWER.encode(tenant), HEXLOWER.encode(model))
}
