//! Load generator: sends a workload to an OpenAI endpoint in real time (open or closed loop).
//!
//! [`run`] sends sessions to any OpenAI endpoint when they are due and records what came back. The
//! workload alone decides when they are due (open loop), or a number of users who each wait for
//! their answers (closed loop). **Invariant:** a request's times count from when it was due. So a
//! client, a connection or a bound on concurrency that holds it back shows up in the figures
//! instead of hiding what waits behind it (coordinated omission); how late it was sent is reported
//! too.

mod answer;
mod body;
mod calibrate;
mod drive;
mod pacemaker;
mod pool;
mod progress;
mod target;
#[cfg(test)]
mod tests;

pub use self::body::{Asking, Interface};
pub use self::calibrate::{CalibrateError, calibrate, first_model};
pub use self::drive::{FLYING_MAX, LoadError, Loop, NO_TEXT, Plan, run};
pub use self::progress::{GAPS_MAX, KINDS_MAX, Progress};
pub use self::target::{Target, TargetError};
pub use overdraft_tls::{TlsError, Trust};
