//! Cascade section: draft and target models, allowed loss and modes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quantity::{Price, Share};

/// A small model (draft) that is asked first, and a large one (target) that answers if the draft's answer is not
/// good enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cascade {
    /// The draft: the model that is asked first, by the name under which workers serve it.
    pub draft: String,
    /// The target: the model that answers otherwise; by default the model with the cascade's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// `gate` gives the draft's answer if it is predicted to be good enough. `verify` gives only tokens that the
    /// target would have generated itself. `shadow` only learns, and `off` asks the target alone.
    #[serde(default)]
    pub mode: CascadeMode,
    /// Allowed loss of quality: the share of all requests that may get a worse answer than the target's.
    #[serde(default = "loss")]
    pub loss: Share,
    /// Minimum probability of being good enough at which a draft's answer is given. `auto` finds it by comparing
    /// answers in the background, and gives no draft's answer until then.
    #[serde(default)]
    pub threshold: CascadeThreshold,
    /// How much longer clients may wait on average than for the target alone, for the first token of a stream and for
    /// whole answers. If the draft takes longer, it is not asked first. With `any` it may take any time, and only its
    /// cost counts.
    #[serde(default)]
    pub slowdown: CascadeSlowdown,
    /// Sizes of the windows in which a streamed draft is judged.
    #[serde(default)]
    pub window: CascadeWindow,
    /// API by which the target scores drafts, with `mode: verify`. `auto` uses the cheapest API of each worker. A
    /// worker that refuses an API is asked by `completions`.
    #[serde(default)]
    pub scoring: CascadeScoring,
    /// Whether both models must make the same tokens of a text. `same` refuses to run the cascade otherwise; `any`
    /// lets the draft answer all the same, except with `mode: verify`.
    #[serde(default)]
    pub tokenizers: CascadeTokenizers,
    /// Minimum length of a prompt, in tokens, at which the target computes the prompt while the draft still runs.
    /// Then an answer of the target begins sooner. Without this key, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill_from: Option<u32>,
    /// Comparisons of answers in the background.
    #[serde(default)]
    pub shadow: CascadeShadow,
    /// Prices of tokens, for the cost record and for the break-even of `overdraft check`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<CascadePrices>,
    /// Tenants whose requests always go to the target.
    #[serde(default)]
    pub tenants_out: Vec<String>,
}

const fn loss() -> Share {
    match Share::from_permille(10) {
        Some(share) => share,
        None => panic!("10 is not above 1,000"),
    }
}

/// Use of a draft's answer.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CascadeMode {
    /// Only the target is asked.
    Off,
    /// The draft's answer is given if it is predicted to be good enough.
    #[default]
    Gate,
    /// The draft's tokens are given as far as the target would have generated them.
    Verify,
    /// The draft's answer is compared in the background and never given.
    Shadow,
}

/// Whether the models of a cascade must make the same tokens.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CascadeTokenizers {
    /// Vocabulary, special tokens and chat template must be equal.
    #[default]
    Same,
    /// They may differ.
    Any,
}

/// API by which a worker scores a draft.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CascadeScoring {
    /// The cheapest API of the worker.
    #[default]
    Auto,
    /// `/v1/completions` with `prompt_logprobs`: any vLLM and our own worker.
    Completions,
    /// `/inference/v1/generate` with `prompt_logprob_token_ids`: vLLM from 0.31 on with its V2 model runner.
    Generate,
    /// `/generate` with `logprob_start_len`: `SGLang`.
    Sglang,
}

/// Draft tokens that are held back until they have been judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CascadeWindow {
    /// Draft tokens that are held back before the first is sent.
    pub first: u32,
    /// Draft tokens in each further window.
    pub next: u32,
}

impl Default for CascadeWindow {
    fn default() -> Self {
        Self { first: 24, next: 48 }
    }
}

/// Comparisons of answers in the background, which show how good drafts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CascadeShadow {
    /// Share of requests that are compared at first; `0%` compares none.
    pub share: Share,
    /// Share of requests that are compared when enough is known.
    pub floor: Share,
    /// Maximum comparisons at once; further ones are skipped.
    pub at_once: u32,
    /// How an answer is judged. `match` accepts the same text, or the same JSON; `judge` asks the target which of two
    /// different answers is better.
    pub labels: CascadeLabels,
}

/// How a draft's answer is judged in a comparison.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CascadeLabels {
    /// Its text, or its JSON, is the target's.
    #[default]
    Match,
    /// The target decides which of two answers is better.
    Judge,
}

impl Default for CascadeShadow {
    fn default() -> Self {
        let share = |permille| Share::from_permille(permille).unwrap_or_default();
        Self { share: share(50), floor: share(10), at_once: 4, labels: CascadeLabels::default() }
    }
}

/// Prices of tokens, in dollars per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CascadePrices {
    /// Prices of the draft model.
    pub draft: TokenPrices,
    /// Prices of the target model.
    pub target: TokenPrices,
}

/// Prices of a model's tokens, in dollars per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenPrices {
    /// Price of prompt tokens.
    pub prompt: Price,
    /// Price of prompt tokens that were in the worker's cache; by default the same as `prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<Price>,
    /// Price of answer tokens.
    pub completion: Price,
}

/// How much longer clients may wait for the draft's sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CascadeSlowdown {
    /// As long as it takes.
    Any,
    /// By this share of the target's own time.
    Share(Share),
}

impl Default for CascadeSlowdown {
    /// 3 %.
    fn default() -> Self {
        Share::from_permille(30).map_or(Self::Any, Self::Share)
    }
}

impl fmt::Display for CascadeSlowdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Share(share) => share.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for CascadeSlowdown {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        written(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for CascadeSlowdown {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "any" {
            return Ok(Self::Any);
        }
        text.parse().map(Self::Share).map_err(|_| {
            format!("`{text}` is not a slowdown; expected `any`, or a share as in `3%`")
        })
    }
}

impl Serialize for CascadeSlowdown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for CascadeSlowdown {
    fn schema_name() -> Cow<'static, str> {
        "CascadeSlowdown".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`any`, or a share as in `3%`.",
            "type": ["string", "number"]
        })
    }
}

/// A word or a number, as text.
fn written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Number(f64),
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::Text(text) => text,
        Written::Number(number) => number.to_string(),
    })
}

/// From which probability on a draft's answer is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CascadeThreshold {
    /// As comparisons show.
    #[default]
    Auto,
    /// Always from here on.
    Fixed(Share),
}

impl fmt::Display for CascadeThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(share) => share.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for CascadeThreshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = written(deserializer)?;
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Fixed).map_err(|_| {
            serde::de::Error::custom(format!(
                "`{text}` is not a threshold; expected `auto`, or a share as in `60%`"
            ))
        })
    }
}

impl Serialize for CascadeThreshold {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for CascadeThreshold {
    fn schema_name() -> Cow<'static, str> {
        "CascadeThreshold".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`auto`, or a share as in `60%`.",
            "type": ["string", "number"]
        })
    }
}
