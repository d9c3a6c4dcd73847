//! Admission section: admission mode, wait queue limits and overload thresholds.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::keys::Priority;
use crate::quantity::{Share, TimeSpan};

/// Admission of requests: which start, and which wait for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admission {
    /// Rule that decides when a worker is full. `peak` predicts the most cache that its requests will need at once,
    /// and `reserve` sets aside all that they may need. `threshold` uses the cache in use alone, `static:N` takes N
    /// requests, and `off` takes everything.
    pub mode: AdmissionMode,
    /// In mode `threshold`: a worker with a larger share of its cache in use takes no request of that priority.
    pub kv_threshold: KvThreshold,
    /// Share of a worker's cache that stays free beside the predicted peak.
    pub watermark: Share,
    /// Maximum share of a worker's cache that is kept free for requests with a greater claim: those of tenants within
    /// their share, beside a tenant above it, and those of greater priorities. As much is kept free as these ask for.
    /// With a larger value, modest tenants wait less and the fleet answers fewer tokens.
    pub fair_reserve: Share,
    /// Maximum time to compute the prompts at a worker while a request of a greater priority is there. Further
    /// prompts wait in the gateway, whose queue is fair.
    pub prefill_backlog: TimeSpan,
    /// Maximum requests in flight on a worker that does not report the capacity of its cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_max: Option<u32>,
    /// Maximum size of the wait queue, as a bound of memory. A request that could not start in time is refused in any
    /// case.
    pub queue: AdmissionQueue,
    /// How long a request may wait before it is refused; up to twice as long while its queue moves fast enough.
    pub first_token: FirstTokenWait,
    /// How long a request is held while no worker of its model is up, for example when the fleet is scaled from zero;
    /// `0s` refuses it at once. The model must name no `fallback`. It must be configured or have been served before,
    /// unless no worker has reported its models yet.
    pub hold: TimeSpan,
    /// Time between two comments to a held stream, so that no proxy closes its connection. From the first comment on
    /// the status is 200, and a refusal is an error event; `0s` sends no comments.
    pub keep_alive: TimeSpan,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            mode: AdmissionMode::default(),
            kv_threshold: KvThreshold::default(),
            watermark: Share::from_permille(20).unwrap_or_default(),
            fair_reserve: Share::from_permille(150).unwrap_or_default(),
            prefill_backlog: TimeSpan::from_secs(1),
            requests_max: None,
            queue: AdmissionQueue::default(),
            first_token: FirstTokenWait::default(),
            hold: TimeSpan::from_secs(0),
            keep_alive: TimeSpan::from_secs(15),
        }
    }
}

/// Share of a worker's cache in use above which it takes no request of a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KvThreshold {
    /// For priority `flex`.
    pub flex: Share,
    /// For priority `default`.
    pub default: Share,
    /// For priority `priority`.
    pub priority: Share,
}

impl Default for KvThreshold {
    fn default() -> Self {
        let share = |permille| Share::from_permille(permille).unwrap_or_default();
        Self { flex: share(850), default: share(970), priority: share(990) }
    }
}

impl KvThreshold {
    /// That of one priority.
    pub const fn of(&self, priority: Priority) -> Share {
        match priority {
            Priority::Flex => self.flex,
            Priority::Default => self.default,
            Priority::Priority => self.priority,
        }
    }
}

/// Maximum size of the wait queue. The pace at which requests start limits the waiting time; these values bound
/// memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdmissionQueue {
    /// Requests; `flex` may fill half of the queue and `default` seven eighths.
    pub requests: u32,
    /// Tokens of their prompts and expected answers, with the same shares.
    pub tokens: u64,
    /// Requests of one tenant.
    pub per_tenant: u32,
    /// Requests that are held while no worker of their model is up (`admission.hold`).
    pub held: u32,
}

impl Default for AdmissionQueue {
    fn default() -> Self {
        Self { requests: 65_536, tokens: 1 << 40, per_tenant: 32_768, held: 1_024 }
    }
}

/// How long a request may wait before it is refused; up to twice as long while its queue moves fast enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FirstTokenWait {
    /// A request of priority `flex`.
    pub flex: TimeSpan,
    /// A request of priority `default`.
    pub default: TimeSpan,
    /// A request of priority `priority`.
    pub priority: TimeSpan,
}

impl Default for FirstTokenWait {
    fn default() -> Self {
        Self {
            flex: TimeSpan::from_secs(30),
            default: TimeSpan::from_secs(30),
            priority: TimeSpan::from_secs(30),
        }
    }
}

impl FirstTokenWait {
    /// That of one priority.
    pub const fn of(&self, priority: Priority) -> TimeSpan {
        match priority {
            Priority::Flex => self.flex,
            Priority::Default => self.default,
            Priority::Priority => self.priority,
        }
    }
}

/// Rule that decides when a worker is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmissionMode {
    /// The predicted peak of the cache that its requests need.
    #[default]
    Peak,
    /// The cache in use, as the worker reports it.
    Threshold,
    /// Everything that its requests may need.
    Reserve,
    /// A number of requests.
    Static(u32),
    /// Nothing.
    Off,
}

impl FromStr for AdmissionMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = |digits: &str| digits.parse().ok().filter(|count| *count > 0);
        match text.trim() {
            "peak" => Ok(Self::Peak),
            "threshold" => Ok(Self::Threshold),
            "reserve" => Ok(Self::Reserve),
            "off" => Ok(Self::Off),
            other => {
                other.strip_prefix("static:").and_then(count).map(Self::Static).ok_or_else(|| {
                    format!(
                        "`{other}` is not a mode; expected `peak`, `threshold`, `reserve`, \
                         `off`, or a number of requests as in `static:64`"
                    )
                })
            }
        }
    }
}

impl fmt::Display for AdmissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peak => f.write_str("peak"),
            Self::Threshold => f.write_str("threshold"),
            Self::Reserve => f.write_str("reserve"),
            Self::Static(count) => write!(f, "static:{count}"),
            Self::Off => f.write_str("off"),
        }
    }
}

impl<'de> Deserialize<'de> for AdmissionMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for AdmissionMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for AdmissionMode {
    fn schema_name() -> Cow<'static, str> {
        "AdmissionMode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`peak`, `threshold`, `reserve`, `off`, or `static:N`.",
            "type": "string",
            "pattern": "^(peak|threshold|reserve|off|static:[1-9][0-9]*)$"
        })
    }
}
