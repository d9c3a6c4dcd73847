//! Cascade section: draft and target models, allowed loss and modes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quantity::{Price, Share};

/// A small model that is asked first, and a large one that answers where the small one's answer is
/// not good enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cascade {
    /// The model that is asked first, by the name that workers serve it under.
    pub draft: String,
    /// The model that answers otherwise; without it the name of the cascade itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// `gate` gives the draft's answer where it looks good enough, `verify` gives no token that
    /// the target would not have said itself, `shadow` only learns, `off` asks the target alone.
    #[serde(default)]
    pub mode: CascadeMode,
    /// How much worse than the target's the answers may be: the share of all requests that get a
    /// worse one.
    #[serde(default = "loss")]
    pub loss: Share,
    /// The least probability of being good enough at which a draft's answer is given. `auto` finds
    /// it by comparing answers in the background, and gives none until it has.
    #[serde(default)]
    pub threshold: CascadeThreshold,
    /// How much longer than for the target alone clients may wait on average, for the first token of a stream and for
    /// whole answers: the draft is not asked first where it takes longer. With `any` it may take any time, and only
    /// what it costs counts.
    #[serde(default)]
    pub slowdown: CascadeSlowdown,
    /// Draft tokens that are held back before the first is given out.
    #[serde(default)]
    pub window: CascadeWindow,
    /// How the target is asked to score drafts, with `mode: verify`. `auto` asks each worker the cheapest way that it
    /// has; one that refuses another way is asked by `completions`.
    #[serde(default)]
    pub scoring: CascadeScoring,
    /// Whether both models must make the same tokens. `same` refuses to run the cascade where they do
    /// not; `any` lets the draft answer all the same, except with `mode: verify`.
    #[serde(default)]
    pub tokenizers: CascadeTokenizers,
    /// Tokens of a prompt from which the target reads it while the draft still speaks, so that an answer of its
    /// own begins sooner; without it, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill_from: Option<u32>,
    /// Answers that are compared in the background.
    #[serde(default)]
    pub shadow: CascadeShadow,
    /// What tokens cost, for the cost record and for the break-even of `overdraft check`.
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

/// What a draft's answer is good for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CascadeMode {
    /// Nothing: the target alone is asked.
    Off,
    /// It is given where it looks good enough.
    #[default]
    Gate,
    /// Its tokens are given as far as the target would have said them.
    Verify,
    /// It is compared in the background and never given.
    Shadow,
}

/// Whether the models of a cascade must make the same tokens.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CascadeTokenizers {
    /// They must: vocabulary, special tokens and chat template.
    #[default]
    Same,
    /// They need not.
    Any,
}

/// How a worker is asked to score a draft.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CascadeScoring {
    /// The cheapest way that it has.
    #[default]
    Auto,
    /// `/v1/completions` with `prompt_logprobs`: any vLLM and our own worker.
    Completions,
    /// `/inference/v1/generate` with `prompt_logprob_token_ids`: vLLM from 0.31 on with its V2 model runner.
    Generate,
    /// `/generate` with `logprob_start_len`: `SGLang`.
    Sglang,
}

/// Tokens of a draft that are held back until they have been judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CascadeWindow {
    /// Before the first is given out.
    pub first: u32,
    /// Before each further lot.
    pub next: u32,
}

impl Default for CascadeWindow {
    fn default() -> Self {
        Self { first: 24, next: 48 }
    }
}

/// Answers that are compared in the background, to learn how good drafts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CascadeShadow {
    /// The share of requests that are compared at first; `0%` compares none.
    pub share: Share,
    /// The share when enough is known.
    pub floor: Share,
    /// Comparisons at once, at most; what is drawn beyond that is left out.
    pub at_once: u32,
    /// `match` takes an answer as good that says the same, or the same JSON; `judge` asks the target
    /// which of two different answers is better.
    pub labels: CascadeLabels,
}

/// How an answer comes to be known as good.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CascadeLabels {
    /// It says what the target says.
    #[default]
    Match,
    /// The target says which of two is better.
    Judge,
}

impl Default for CascadeShadow {
    fn default() -> Self {
        let share = |permille| Share::from_permille(permille).unwrap_or_default();
        Self { share: share(50), floor: share(10), at_once: 4, labels: CascadeLabels::default() }
    }
}

/// What tokens cost, in dollars per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CascadePrices {
    /// Of the draft model.
    pub draft: TokenPrices,
    /// Of the target model.
    pub target: TokenPrices,
}

/// What a model's tokens cost, in dollars per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenPrices {
    /// Of the prompt.
    pub prompt: Price,
    /// Of the prompt, as far as it was in the worker's cache; without it as much as the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<Price>,
    /// Of the answer.
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
