//! Model section: aliases and overrides of one model.

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::cache::Reuse;
use super::maintenance::Hook;
use super::routing::{Canary, Policy, Sticky};
use crate::quantity::TimeLimit;

/// What is special about one model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// Other names that clients may use for it. One that ends with `*`, as `claude-*`, stands for all
    /// names that begin so and is not listed.
    pub aliases: Vec<String>,
    /// What counts its tokens. `worker` asks a worker for its tokenizer, or for the tokens of each
    /// prompt where it reports its cache; `off` estimates from bytes; anything else is the path of
    /// a GGUF file or of a folder with `tokenizer.json`.
    pub tokenizer: Tokenizer,
    /// How its workers are chosen, instead of `routing.policy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// A share of its requests that is routed by another policy, instead of `routing.canary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// What keeps a client's requests on one worker, instead of `routing.sticky`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sticky: Option<Sticky>,
    /// Which of its answers are given again, instead of `cache.reuse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Reuse>,
    /// Names the weights, quantisation and chat template behind the name. Answers of another revision
    /// are not given again, so change it when they change under the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Models that are asked instead, in this order, when nobody can serve this one, or when a prompt is too long for it;
    /// at most 4. Told in `x-overdraft-served-by`. Never in the middle of an answer, and not for requests with a seed.
    pub fallback: Vec<String>,
    /// What becomes of requests of other dialects than OpenAI's chats and completions.
    #[serde(skip_serializing_if = "Dialects::is_default")]
    pub dialects: Dialects,
    /// Who is told by a POST when no worker of it is up while requests for it are held (`admission.hold`) or a cascade
    /// would ask it first: a service that can start one, or wake an engine that sleeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake: Option<Hook>,
    /// How long its answers may take, instead of `timeouts`.
    #[serde(skip_serializing_if = "ModelTimeouts::is_empty")]
    pub timeouts: ModelTimeouts,
}

/// What becomes of a model's requests of each dialect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dialects {
    /// Of those at `/v1/messages`, Anthropic's.
    pub messages: DialectWay,
    /// Of those at `/v1/responses`, OpenAI's.
    pub responses: DialectWay,
}

impl Dialects {
    /// Whether all are translated.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How a request of a dialect reaches a worker.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DialectWay {
    /// As a chat completion.
    #[default]
    Translate,
    /// As it came, to workers that serve its path themselves; all workers of the model must.
    Pass,
}

/// Limits of time that differ for one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelTimeouts {
    /// Instead of `timeouts.first_byte`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<TimeLimit>,
    /// Instead of `timeouts.idle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<TimeLimit>,
    /// Instead of `timeouts.total`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<TimeLimit>,
}

impl ModelTimeouts {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What counts a model's tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tokenizer {
    /// The tokenizer that a worker hands out, where one does.
    #[default]
    Worker,
    /// None: tokens are estimated from bytes.
    Off,
    /// A GGUF file, or a folder with `tokenizer.json`.
    Path(PathBuf),
}

impl<'de> Deserialize<'de> for Tokenizer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(match text.as_str() {
            "worker" => Self::Worker,
            "off" => Self::Off,
            "" => {
                return Err(serde::de::Error::custom(
                    "the text is empty; expected `worker`, `off` or a path",
                ));
            }
            _ => Self::Path(PathBuf::from(text)),
        })
    }
}

impl Serialize for Tokenizer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Worker => serializer.serialize_str("worker"),
            Self::Off => serializer.serialize_str("off"),
            Self::Path(path) => path.serialize(serializer),
        }
    }
}

impl JsonSchema for Tokenizer {
    fn schema_name() -> Cow<'static, str> {
        "Tokenizer".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`worker`, `off`, or the path of a folder with `tokenizer.json`.",
            "type": "string",
            "minLength": 1
        })
    }
}
