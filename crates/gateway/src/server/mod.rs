//! Server: the listener's service, its routes, and the path of a request through the layers below.
//!
//! | subject                            | file         |
//! |------------------------------------|--------------|
//! | Owners of shared state, and reload | `gateway.rs` |
//! | Compressed answers                 | `compression.rs` |
//! | Route table                        | `service.rs` |
//! | A request's path to its answer     | `forward.rs` |
//! | Comments while it is held          | `held.rs`    |
//! | Probes: health and readiness       | `health.rs`  |
//! | Other dialects than chat           | `dialect/`   |
//! | Admin endpoints                    | `admin.rs`   |
//! | Operators' listener and its thread | `operators.rs` |
//! | Audit log of operators' calls      | `audit.rs`   |
//! | Gauges of the workers, last scrape | `gauges.rs`, `scrapes.rs` |
//! | Dashboard and its JSON views       | `views/`, `history.rs` |
//! | Percent-decoding                   | `percent.rs` |

mod admin;
mod audit;
mod compression;
mod cors;
mod dialect;
mod forward;
mod gateway;
mod gauges;
mod health;
mod held;
mod history;
mod operators;
mod percent;
mod scrapes;
mod service;
mod views;

pub(crate) use self::gateway::Gateway;
pub(crate) use self::operators::serve as serve_operators;
pub(crate) use self::service::{Face, GatewayService};
pub(crate) use self::views::keep as keep_history;
