//! Admission section: admission mode, wait queue limits and overload thresholds.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::keys::Priority;
use crate::quantity::{Share, TimeSpan};

/// Which requests are taken on, and which wait for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admission {
    /// What tells that a worker can take no more: `peak` predicts the most cache its requests
    /// will need at once, `reserve` sets aside all that they may, `threshold` goes by the cache in
    /// use alone, `static:N` takes N requests, `off` takes everything.
    pub mode: AdmissionMode,
    /// In mode `threshold`: a worker whose cache is used more than this takes nothing of that priority.
    pub kv_threshold: KvThreshold,
    /// The share of a worker's cache that is kept free of what is predicted.
    pub watermark: Share,
    /// The most of a worker's cache that is left to those with a greater claim who are there: tenants
    /// within their share, beside one that asks for more, and greater priorities. What is left is
    /// what they ask for. More of it lets modest tenants wait less, and answers fewer tokens.
    pub fair_reserve: Share,
    /// How much prompt a worker may have before it, in time to compute it, while a request of a
    /// greater priority waits; what is beyond waits here, where its turn is fair.
    pub prefill_backlog: TimeSpan,
    /// Requests in flight on a worker that does not tell how much its cache holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_max: Option<u32>,
    /// How much may wait, as a bound of memory: who could not be started in time is refused anyway.
    pub queue: AdmissionQueue,
    /// How long a request may wait before it is refused; up to twice as long while its line moves fast enough.
    pub first_token: FirstTokenWait,
    /// How long a request is held while no worker of its model is up, as when the fleet is scaled from zero; `0s` tells
    /// the client at once. Only for models that are configured or were served before, and that name no `fallback`.
    pub hold: TimeSpan,
    /// How often a stream that is held is sent a comment, so that nobody between closes its connection. From the first
    /// on its status is 200, and a refusal is told as an error event; `0s` sends none.
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

/// The share of a worker's cache in use from which it takes nothing more of a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KvThreshold {
    /// For those that may wait.
    pub flex: Share,
    /// For most.
    pub default: Share,
    /// For those that go first.
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

/// How much may wait for a worker. What may wait in time follows from how fast requests are started; this bounds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdmissionQueue {
    /// Requests; `flex` may fill half of it and `default` seven eighths.
    pub requests: u32,
    /// Tokens of their prompts and expected answers, shared out in the same way.
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

/// How long a request may wait before it is refused; up to twice as long while its line moves fast enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FirstTokenWait {
    /// One that may.
    pub flex: TimeSpan,
    /// As most are.
    pub default: TimeSpan,
    /// One that goes first.
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

/// What tells that a worker can take no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmissionMode {
    /// The most cache its requests are predicted to need at once.
    #[default]
    Peak,
    /// The cache in use, as it says itself.
    Threshold,
    /// All that its requests may come to.
    Reserve,
    /// So many requests.
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
