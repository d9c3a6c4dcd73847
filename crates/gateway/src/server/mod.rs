//! Server: the listener's service, its routes, and the path of a request through the layers below.
//!
//! | question                                   | file          |
//! |--------------------------------------------|---------------|
//! | Who owns what, and how is it reloaded?      | `gateway.rs`  |
//! | Which path leads where?                     | `service.rs`  |
//! | What is a request's way to its answer?      | `forward.rs`  |
//! | What may the operator see and do?           | `admin.rs`    |
//! | What do metrics say of the workers?         | `gauges.rs`   |

mod admin;
mod forward;
mod gateway;
mod gauges;
mod service;

pub(crate) use self::gateway::Gateway;
pub(crate) use self::service::GatewayService;
