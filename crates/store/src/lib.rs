//! What do the gateways before one fleet tell each other?
//!
//! Three things: which workers are out for failing their requests (the *board*), what each gateway has
//! in flight where (the *shares*), and what keys have spent (the *budgets*). In [`Place::Memory`] a
//! gateway is alone and nothing is told; in [`Place::Redis`] all of it lies in Redis, under one prefix,
//! with a life of its own, and changed by scripts alone that go by Redis' clock.
//!
//! A fourth thing is not told but kept: answers ([`ResponseStore`]). Requests do wait for those, for a tenth of a
//! second at most.
//!
//! Invariants: for all else no request ever waits for Redis. One task owns the [`Store`] and keeps what
//! it says at hand; [`Budgets`] and [`Status`] are read without waiting. Whatever Redis does — away,
//! frozen, full, wiped, with another password — the store says [`Status::is_degraded`], every gateway
//! goes on by itself, and the store finds back without a restart. See `docs/design/store.md`.

mod address;
mod board;
mod budgets;
mod fault;
mod link;
mod redis_breaker;
mod response_store;
mod scripts;
mod settings;
mod shares;
mod status;
mod store;
mod transport;

pub use self::address::{Node, Place, PlaceError, RedisPlace, Topology};
pub use self::board::{Record, Verdict};
pub use self::budgets::{Budgets, Level, Limits, RetryAfter, Standing};
pub use self::fault::{Fault, OpenError};
pub use self::redis_breaker::{FUSE_FAILURES, FUSE_FIRST, FUSE_MAX};
pub use self::response_store::{
    DepotStatus, LOOKUP_MAX, Looked, NAME_BYTES, Name, ResponseStore, STAMPS_LIFE, Scope, Secret,
    Ticket, Unusable,
};
pub use self::settings::{Namespace, NamespaceError, StoreSettings, TlsFiles};
pub use self::shares::{GATEWAYS_MAX, SHARE_LIFE, Shared};
pub use self::status::{Side, Status};
pub use self::store::{CLAIM_LIFE, Store, WORKERS_AT_ONCE};
