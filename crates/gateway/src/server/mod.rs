//! Server: the listener's service, its routes, and the path of a request through the layers below.
//!
//! | subject                            | file         |
//! |------------------------------------|--------------|
//! | Owners of shared state, and reload | `gateway.rs` |
//! | Route table                        | `service.rs` |
//! | A request's path to its answer     | `forward.rs` |
//! | Other dialects than chat           | `dialect/`   |
//! | Admin endpoints                    | `admin.rs`   |
//! | Gauges of the workers              | `gauges.rs`  |

mod admin;
mod dialect;
mod forward;
mod gateway;
mod gauges;
mod service;

pub(crate) use self::gateway::Gateway;
pub(crate) use self::service::GatewayService;
