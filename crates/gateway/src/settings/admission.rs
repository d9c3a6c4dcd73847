//! Settings of admission: how much may wait, and for how long.

use std::time::Duration;

use overdraft_core::admit::{ByPriority, QueueSettings};

/// How requests wait. When a worker takes one more is a matter of its model's route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// How much may wait.
    pub queue: QueueSettings,
    /// How long a request may wait before it is refused; up to twice as long while its line moves fast enough.
    pub first_token: ByPriority<Duration>,
    /// How long a request is held while no worker of its model is up; not at all where it is zero.
    pub hold: Duration,
    /// How often a stream that is held is sent a comment; never where it is zero.
    pub keep_alive: Duration,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        // As long as anybody is ever told to stay away: on two processor cores a long prompt takes most
        // of it, and a client that is refused only comes back.
        let wait = Duration::from_secs(30);
        let first_token = ByPriority { flex: wait, default: wait, priority: wait };
        let keep_alive = Duration::from_secs(15);
        Self { queue: QueueSettings::default(), first_token, hold: Duration::ZERO, keep_alive }
    }
}
