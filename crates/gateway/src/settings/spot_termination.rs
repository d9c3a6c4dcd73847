//! Settings of spot termination: whose machine it is, and how the cloud is asked for notices.

use std::fmt;
use std::time::Duration;

/// Who runs the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cloud {
    /// Amazon: EC2 spot instances.
    Aws,
    /// Google: preemptible and spot VMs.
    Gcp,
    /// Microsoft: spot VMs and whatever else is scheduled for a VM.
    Azure,
}

impl fmt::Display for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aws => "aws",
            Self::Gcp => "gcp",
            Self::Azure => "azure",
        })
    }
}

/// How a cloud is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeSettings {
    /// The metadata server; the cloud's own where none is given.
    pub server: Option<String>,
    /// From one question to the next.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Default for NoticeSettings {
    /// Every 5 s, as Amazon recommends; Google and Microsoft announce 30 s ahead.
    fn default() -> Self {
        Self { server: None, interval: Duration::from_secs(5), timeout: Duration::from_secs(1) }
    }
}

/// What is done when the cloud takes this machine away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminationSettings {
    /// Whose machine it is.
    pub cloud: Cloud,
    /// How it is asked.
    pub notice: NoticeSettings,
    /// The workers on this machine, by name; none named: those at a loopback address.
    pub workers: Vec<String>,
}
