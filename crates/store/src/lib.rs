//! Shared state of the gateways before one fleet: breakers, loads, budgets, revoked keys, cached answers.
//!
//! Gateways share four things: which workers are ejected (the *board*), what each gateway has in
//! flight at each worker and keeps waiting (the *shares*), what keys have spent (the *budgets*), and which keys are
//! refused (the *revocations*). In
//! [`Place::Memory`] a gateway is alone and shares nothing; in [`Place::Redis`] all of it is in
//! Redis, under one prefix, with a TTL, and only scripts that use Redis' clock change it.
//!
//! A fifth thing is the response cache ([`ResponseStore`]). Requests do wait for it, for a tenth
//! of a second at most.
//!
//! Invariants: for the other four no request ever waits for Redis. One task owns the [`Store`] and
//! caches its state; [`Budgets`], [`Revocations`] and [`Status`] are read without waiting. Whatever happens to Redis
//! — down, frozen, full, wiped, with another password — the store reports [`Status::is_degraded`],
//! every gateway goes on alone, and the store recovers without a restart. See
//! `docs/design/store.md`.

mod address;
mod board;
mod budgets;
mod certificates;
mod fault;
mod gateway_name;
mod link;
mod redis_breaker;
mod response_store;
mod revocations;
mod scripts;
mod server_info;
mod settings;
mod shares;
mod status;
mod store;
mod transport;

pub use self::address::{Node, Place, PlaceError, RedisPlace, Topology};
pub use self::board::{Record, Verdict};
pub use self::budgets::{Budgets, Extent, Level, Limits, Need, RetryAfter, Standing};
pub use self::fault::{Fault, OpenError};
pub use self::redis_breaker::{FUSE_FAILURES, FUSE_FIRST, FUSE_MAX};
pub use self::response_store::{
    LOOKUP_MAX, Looked, NAME_BYTES, Name, ResponseStore, ResponseStoreStatus, STAMPS_LIFE, Scope,
    Secret, Ticket, Unusable,
};
pub use self::revocations::{
    Learnt, REVOCATION_LIFE_MAX, REVOCATIONS_MAX, Revocation, Revocations, Revoked,
};
pub use self::server_info::ServerInfo;
pub use self::settings::{Namespace, NamespaceError, StoreSettings, TlsFiles};
pub use self::shares::{GATEWAYS_MAX, OwnShare, SHARE_LIFE, Shared};
pub use self::status::{Side, Status};
pub use self::store::{CLAIM_LIFE, Store, WORKERS_AT_ONCE};
