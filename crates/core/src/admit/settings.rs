//! Admission settings: the admission mode and its thresholds.

use core::fmt;
use core::str::FromStr;

use overdraft_units::Micros;

use super::Priority;

/// What decides whether a worker takes one more request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The predicted peak, and waiting requests with a greater claim.
    #[default]
    Peak,
    /// Thresholds on reported metrics alone: the write-up's valve. A request above its threshold is
    /// refused at once.
    Threshold,
    /// Prompts and declared `max_tokens` of all that is in flight must fit.
    Reserve,
    /// At most so many requests in flight on each worker.
    Static(u32),
    /// Nothing: every request is started at once.
    Off,
}

impl Mode {
    /// Whether a request may wait for room: the write-up's valve refuses at once (A3).
    pub const fn waits(self) -> bool {
        !matches!(self, Self::Threshold)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peak => f.write_str("peak"),
            Self::Threshold => f.write_str("threshold"),
            Self::Reserve => f.write_str("reserve"),
            Self::Static(requests) => write!(f, "static:{requests}"),
            Self::Off => f.write_str("off"),
        }
    }
}

/// Not a mode: expected `peak`, `threshold`, `reserve`, `static:N` with `N` of 1 or more, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseModeError;

impl FromStr for Mode {
    type Err = ParseModeError;

    fn from_str(text: &str) -> Result<Self, ParseModeError> {
        match text {
            "peak" => Ok(Self::Peak),
            "threshold" => Ok(Self::Threshold),
            "reserve" => Ok(Self::Reserve),
            "off" => Ok(Self::Off),
            _ => {
                let requests = text.strip_prefix("static:").and_then(|count| count.parse().ok());
                requests.filter(|&requests| 0 < requests).map(Self::Static).ok_or(ParseModeError)
            }
        }
    }
}

/// One value for each priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByPriority<T> {
    /// For [`Priority::Flex`].
    pub flex: T,
    /// For [`Priority::Default`].
    pub default: T,
    /// For [`Priority::Priority`].
    pub priority: T,
}

impl<T: Copy> ByPriority<T> {
    /// The value for one of them.
    pub const fn of(&self, priority: Priority) -> T {
        match priority {
            Priority::Flex => self.flex,
            Priority::Default => self.default,
            Priority::Priority => self.priority,
        }
    }
}

/// When a worker takes one more request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmitSettings {
    /// What decides.
    pub mode: Mode,
    /// A worker that reports a greater share of its cache in use, in thousandths, takes nothing of
    /// that priority.
    pub kv_threshold_permille: ByPriority<u16>,
    /// How many standard deviations of the predicted peak must fit on top of its mean, in
    /// thousandths; preemptions add to it.
    pub caution_milli: ByPriority<u16>,
    /// The share of a cache that is never promised, in thousandths.
    pub watermark_permille: u16,
    /// The most of a cache that a tenant with more than its share in flight leaves to the others, and a request to
    /// those of a greater priority, in thousandths.
    pub fair_reserve_permille: u16,
    /// How long the prompts that wait at a worker may take it, before more of them are better kept
    /// here, where their order can still be chosen.
    pub prefill_backlog: Micros,
    /// Requests in flight on a worker that does not say how much it holds; no bound unless set.
    pub requests_max: Option<u32>,
    /// A report older than this is not believed any more.
    pub stale_after: Micros,
}

impl Default for AdmitSettings {
    fn default() -> Self {
        Self {
            mode: Mode::Peak,
            kv_threshold_permille: ByPriority { flex: 850, default: 970, priority: 990 },
            caution_milli: ByPriority { flex: 625, default: 500, priority: 375 },
            watermark_permille: 20,
            fair_reserve_permille: 150,
            prefill_backlog: Micros::new(1_000_000),
            requests_max: None,
            stale_after: Micros::new(5_000_000),
        }
    }
}

impl AdmitSettings {
    /// Every request is started at once.
    pub fn off() -> Self {
        Self { mode: Mode::Off, ..Self::default() }
    }
}

/// How much may wait. What may wait in time follows from how fast the line moves; this bounds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Requests, at most; `flex` may fill a half of it and `default` seven eighths.
    pub requests: usize,
    /// Tokens of theirs, prompts and expected answers, at most; shared out in the same way.
    pub tokens: u64,
    /// Requests of one tenant, at most.
    pub per_tenant: usize,
    /// Requests that are held while no worker of their model is up, at most.
    pub held: usize,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { requests: 65_536, tokens: 1 << 40, per_tenant: 32_768, held: 1_024 }
    }
}
