//! Model section: aliases and overrides of one model.

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::cache::Reuse;
use super::maintenance::Hook;
use super::routing::{Canary, Policy, Sticky};
use crate::quantity::TimeLimit;

/// Settings of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// Other names that clients may use for the model. A name that ends with `*`, as `claude-*`, stands for all names
    /// with that beginning, and is not listed.
    pub aliases: Vec<String>,
    /// Tokenizer that counts its tokens. `worker` asks a worker for its tokenizer, or for the tokens of each prompt
    /// where the worker reports its cache. `off` estimates from bytes. Anything else is the path of a GGUF file or of
    /// a folder with `tokenizer.json`.
    pub tokenizer: Tokenizer,
    /// Routing policy of its requests, instead of `routing.policy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Share of its requests that another policy routes, instead of `routing.canary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// Sticky sessions, which keep a client's requests on one worker, instead of `routing.sticky`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sticky: Option<Sticky>,
    /// Stored answers that may be given again, instead of `cache.reuse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Reuse>,
    /// Revision of weights, quantisation and chat template behind the name. Answers of another revision are not given
    /// again, so change it when these change under the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Models that are asked instead, in this order, when no worker can serve this one, or when a prompt is too long
    /// for it; at most 4. `x-overdraft-served-by` names the model that answered. A fallback never happens in the
    /// middle of an answer, nor for requests with a seed.
    pub fallback: Vec<String>,
    /// Treatment of requests in other dialects than OpenAI's chats and completions.
    #[serde(skip_serializing_if = "Dialects::is_default")]
    pub dialects: Dialects,
    /// Service that can start a worker of the model, or wake a sleeping engine. It gets a POST when no worker of the
    /// model is up and requests are held (`admission.hold`) or a cascade would ask the model first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake: Option<Hook>,
    /// Time limits of its answers, instead of `timeouts`.
    #[serde(skip_serializing_if = "ModelTimeouts::is_empty")]
    pub timeouts: ModelTimeouts,
}

/// Treatment of a model's requests in each dialect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dialects {
    /// Requests at `/v1/messages`, Anthropic's dialect.
    pub messages: DialectWay,
    /// Requests at `/v1/responses`, OpenAI's dialect.
    pub responses: DialectWay,
}

impl Dialects {
    /// Whether all are translated.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Form in which a request of a dialect reaches a worker.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DialectWay {
    /// Translated to a chat completion.
    #[default]
    Translate,
    /// Passed on unchanged. All workers of the model must serve the path themselves.
    Pass,
}

/// Time limits of one model.
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
