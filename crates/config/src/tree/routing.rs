//! Routing section: the policy, sticky sessions and the prefix index.

use std::borrow::Cow;

use overdraft_core::route;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quantity::{ByteSize, Factor, Share, TimeSpan};

/// Routing policy.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The least expected time to the first token, plus the delay of other requests.
    #[default]
    Cost,
    /// A weighted sum of free cache and free token budget.
    FitScore,
    /// The worker that holds the longest prefix.
    PrefixAffinity,
    /// The worker with the fewest requests in flight.
    LeastLoad,
    /// The less loaded of two drawn at random.
    TwoChoices,
    /// The least recently used worker.
    RoundRobin,
    /// Every worker with the same chance.
    Random,
    /// As vllm-router and sglang-router decide, for comparison.
    CacheAware,
    /// As NVIDIA Dynamo decides, for comparison.
    Dynamo,
    /// As llm-d decides, for comparison.
    LlmD,
}

/// As the core has it.
impl From<Policy> for route::Policy {
    fn from(named: Policy) -> Self {
        match named {
            Policy::Cost => Self::Cost,
            Policy::FitScore => Self::FitScore,
            Policy::PrefixAffinity => Self::PrefixAffinity,
            Policy::LeastLoad => Self::LeastLoad,
            Policy::TwoChoices => Self::TwoChoices,
            Policy::RoundRobin => Self::RoundRobin,
            Policy::Random => Self::Random,
            Policy::CacheAware => Self::CacheAware,
            Policy::Dynamo => Self::Dynamo,
            Policy::LlmD => Self::LlmD,
        }
    }
}

/// Choice of workers, for every model without its own setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Routing {
    /// Routing policy.
    pub policy: Policy,
    /// Share of the requests that another policy routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// Sticky sessions, which keep a client's requests on one worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sticky: Option<Sticky>,
    /// Whether prompts are tokenized before they are routed.
    pub tokenize: Tokenize,
    /// Index of the prefixes that each worker holds.
    pub prefix: Prefix,
    /// Bytes of a prompt in one block of a prefix, where tokens are not known.
    pub text_chunk: ByteSize,
    /// How long a worker that came up gets less than its full share (slow start); `0s` switches this off.
    pub slow_start: TimeSpan,
    /// The weights of the policy `fit-score`.
    pub fit_score: FitScore,
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            canary: None,
            sticky: None,
            tokenize: Tokenize::default(),
            prefix: Prefix::default(),
            text_chunk: ByteSize::from_bytes(512),
            slow_start: TimeSpan::from_secs(10),
            fit_score: FitScore::default(),
        }
    }
}

/// Share of the requests that another policy routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Canary {
    /// The policy on trial.
    pub policy: Policy,
    /// Its share of the requests.
    pub share: Share,
}

/// Sticky sessions, which keep a client's requests on one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sticky {
    /// The header that names the session; the word `user` stands for the request's own `user`.
    pub header: StickyKey,
    /// Maximum load of a worker, as a multiple of the mean, before sessions go to the next worker.
    #[serde(default = "load_factor")]
    pub load_factor: Factor,
}

const fn load_factor() -> Factor {
    Factor::from_permille(1_250)
}

/// What names a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StickyKey {
    /// The field `user` of the request.
    User,
    /// This header, in lower case.
    Header(String),
}

impl<'de> Deserialize<'de> for StickyKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?.to_lowercase();
        if text == "user" {
            return Ok(Self::User);
        }
        if http::HeaderName::from_bytes(text.as_bytes()).is_err() {
            return Err(serde::de::Error::custom(format!(
                "`{text}` is not a header's name; expected one such as `x-session-id`, or `user`"
            )));
        }
        Ok(Self::Header(text))
    }
}

impl Serialize for StickyKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::User => "user",
            Self::Header(name) => name,
        })
    }
}

impl JsonSchema for StickyKey {
    fn schema_name() -> Cow<'static, str> {
        "StickyKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A header's name, or `user` for the request's field of that name.",
            "type": "string",
            "minLength": 1
        })
    }
}

/// Whether prompts are tokenized before they are routed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Tokenize {
    /// If a tokenizer is known and the policy uses it.
    #[default]
    Auto,
    /// Whenever a tokenizer is known.
    Always,
    /// Not at all: prefixes are compared as text.
    Never,
}

/// Index of the prefixes that each worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prefix {
    /// Maximum blocks of prompts in the index; about 40 bytes each.
    pub keys_max: u32,
}

impl Default for Prefix {
    fn default() -> Self {
        Self { keys_max: 1_048_576 }
    }
}

/// The weights of the policy `fit-score`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FitScore {
    /// Weight of the reported free share of a worker's cache; the free share of its token budget has the rest.
    pub kv_weight: Share,
    /// The same for prompts of more than `long_prompt_tokens`.
    pub kv_weight_long: Share,
    /// A prompt with more tokens than this is long.
    pub long_prompt_tokens: u32,
    /// Maximum tokens that a worker may hold, as vLLM's `max_num_batched_tokens`; by default the capacity that it
    /// reports, or 8,192 if it reports none. The tokens that it reports as in use, and those that it was sent since,
    /// are subtracted. A worker without room for the prompt is skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<u32>,
}

impl Default for FitScore {
    fn default() -> Self {
        let share = |permille| Share::from_permille(permille).unwrap_or_default();
        Self {
            kv_weight: share(800),
            kv_weight_long: share(950),
            long_prompt_tokens: 2_048,
            token_budget: None,
        }
    }
}
