//! Telemetry: metrics, access log, request ids, logging and the clock.
//!
//! Nothing here decides anything. What it shows is handed to it; the names it uses are the ones
//! operators already have dashboards for.

pub mod access;
mod clock;
pub mod logging;
pub mod metrics;
mod plain;
mod request_id;

pub use self::access::{
    AccessRecord, AccessWriter, Audience, Delivery, EndCode, Ender, PassedLimit, Phase,
};
pub use self::clock::{Clock, calendar_time, unix_milliseconds, unix_seconds, unix_time};
pub use self::request_id::{CLIENT_ID_BYTES_MAX, RequestId, RequestIds};

#[cfg(test)]
mod tests;
