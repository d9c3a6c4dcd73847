//! Log probabilities in the three forms clients know: chat's, completions', and vLLM's for prompts.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// The lowest log probability on the wire: JSON has no infinity, and vLLM sends this.
pub const LOGPROB_MIN: f32 = -9999.0;

/// A natural logarithm of a probability; serialises as a finite number, at least [`LOGPROB_MIN`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logprob(pub f32);

impl Serialize for Logprob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // `max` ignores a NaN; a positive infinity cannot be a probability either.
        let finite = self.0.max(LOGPROB_MIN);
        serializer.serialize_f32(if finite.is_finite() { finite } else { LOGPROB_MIN })
    }
}

/// Chat's form.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChatLogprobs {
    /// One per token.
    pub content: Vec<ChatTokenLogprob>,
}

/// A chosen token and its rivals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatTokenLogprob {
    /// Its text.
    pub token: String,
    /// How likely it was.
    pub logprob: Logprob,
    /// Its bytes, which need not be whole characters.
    pub bytes: Option<Vec<u8>>,
    /// The likeliest tokens, best first.
    pub top_logprobs: Vec<ChatTopLogprob>,
}

/// A token that was likely.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatTopLogprob {
    /// Its text.
    pub token: String,
    /// How likely it was.
    pub logprob: Logprob,
    /// Its bytes, which need not be whole characters.
    pub bytes: Option<Vec<u8>>,
}

/// Completions' form: four lists of the same length.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CompletionLogprobs {
    /// Where each token begins in the text, in characters.
    pub text_offset: Vec<u32>,
    /// How likely each was; nothing for the first token of an echoed prompt.
    pub token_logprobs: Vec<Option<Logprob>>,
    /// Their texts.
    pub tokens: Vec<String>,
    /// The likeliest tokens at each place.
    pub top_logprobs: Vec<Option<TopLogprobs>>,
}

/// Tokens with their log probabilities, best first; an object on the wire. Two tokens may have the
/// same text: the likelier one is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopLogprobs(pub Vec<(String, Logprob)>);

impl Serialize for TopLogprobs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (index, (token, logprob)) in self.0.iter().enumerate() {
            // At most LOGPROBS_MAX + 1 entries: looking back beats a set.
            if self.0[..index].iter().all(|(earlier, _)| earlier != token) {
                map.serialize_entry(token, logprob)?;
            }
        }
        map.end()
    }
}

/// vLLM's form for prompts: one entry per token, the first being null.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PromptLogprobs(pub Vec<Option<PromptPosition>>);

/// The tokens considered at one place of the prompt, the one that stands there first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptPosition(pub Vec<PromptLogprob>);

/// A token considered at a place of the prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptLogprob {
    /// Which.
    pub id: u32,
    /// How likely it was.
    pub logprob: Logprob,
    /// Its place among all tokens, the likeliest being one.
    pub rank: u32,
    /// Its text.
    pub decoded_token: String,
}

impl Serialize for PromptPosition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Entry<'a> {
            logprob: Logprob,
            rank: u32,
            decoded_token: &'a str,
        }
        let mut map = serializer.serialize_map(None)?;
        for (index, token) in self.0.iter().enumerate() {
            if self.0[..index].iter().any(|earlier| earlier.id == token.id) {
                continue;
            }
            let entry = Entry {
                logprob: token.logprob,
                rank: token.rank,
                decoded_token: &token.decoded_token,
            };
            map.serialize_entry(&token.id, &entry)?;
        }
        map.end()
    }
}
