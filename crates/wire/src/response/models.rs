//! Small answers: the list of models, tokens of a text, text of tokens, the version.

use serde::Serialize;

/// `/v1/models`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelList {
    object: &'static str,
    /// The models served.
    pub data: Vec<ModelCard>,
}

impl ModelList {
    /// The list of `data`.
    pub const fn new(data: Vec<ModelCard>) -> Self {
        Self { object: "list", data }
    }
}

/// `/v1/models/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelCard {
    /// The name that requests use.
    pub id: String,
    object: &'static str,
    /// Since when it is served, in seconds since 1970.
    pub created: u64,
    /// Whose it is.
    pub owned_by: String,
    /// Where it was loaded from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Positions it can attend over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u32>,
}

impl ModelCard {
    /// A model of ours.
    pub fn new(id: impl Into<String>, created: u64) -> Self {
        Self {
            id: id.into(),
            object: "model",
            created,
            owned_by: "overdraft".to_owned(),
            root: None,
            max_model_len: None,
        }
    }
}

/// `/tokenize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TokenizeResponse {
    /// How many tokens.
    pub count: usize,
    /// Positions the model can attend over.
    pub max_model_len: u32,
    /// Their ids.
    pub tokens: Vec<u32>,
    /// Their texts, when asked for; null otherwise.
    pub token_strs: Option<Vec<String>>,
}

/// `/detokenize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DetokenizeResponse {
    /// The text.
    pub prompt: String,
}
