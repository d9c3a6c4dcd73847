//! Answer chunks: what one event of a stream, or one whole answer, says.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Letters of a finish reason at most; what is longer is no reason.
const REASON_LETTERS_MAX: usize = 32;

/// How a choice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It did not, as far as this chunk says.
    Running,
    /// As engines end a choice: `stop`, `length`, `tool_calls`, a word of their own.
    Ended,
    /// It was given up: vLLM's `abort` on shutdown or eviction, `error` of others. No answer at all.
    Aborted,
}

impl Finish {
    /// Reads a reason. An empty one, which some servers put on every chunk, ends nothing.
    fn of(reason: &str) -> Self {
        let is_word = reason.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        match reason {
            "abort" | "error" => Self::Aborted,
            "" => Self::Running,
            word if is_word && word.len() <= REASON_LETTERS_MAX => Self::Ended,
            _ => Self::Running,
        }
    }
}

/// Token counts as a worker tells them, in any spelling of numbers; what is null or none is not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageTold {
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Of those, found in the worker's cache.
    pub cached: Option<u32>,
    /// Tokens of all choices.
    pub completion: u32,
}

/// One choice in a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkChoice<'a> {
    /// Which of the choices that were asked for.
    pub index: u32,
    /// Text for the reader.
    pub text: Cow<'a, str>,
    /// Whether something was made that a reader waits for: text, thoughts, a tool call, a refusal.
    pub has_content: bool,
    /// Whether it ended.
    pub finish: Finish,
}

/// What an event's data or a whole answer says, as far as anybody between worker and client must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerChunk<'a> {
    /// The choices in it; none where it says nothing of choices.
    pub choices: Option<Vec<ChunkChoice<'a>>>,
    /// Token counts.
    pub usage: Option<UsageTold>,
    /// The message of an error that was sent in place of an answer.
    pub error: Option<String>,
}

/// It is no object that an OpenAI server would send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no answer: {0}")]
pub struct NotAnAnswer(String);

impl From<serde_json::Error> for NotAnAnswer {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

impl<'a> AnswerChunk<'a> {
    /// Reads an event's data or a whole answer.
    ///
    /// ```
    /// use overdraft_wire::answer::{AnswerChunk, Finish};
    ///
    /// let data = br#"{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}"#;
    /// let chunk = AnswerChunk::parse(data).unwrap();
    /// let choice = &chunk.choices.unwrap()[0];
    /// assert_eq!((&*choice.text, choice.finish), ("hi", Finish::Ended));
    /// ```
    ///
    /// # Errors
    /// [`NotAnAnswer`] where it is no JSON, or not of that shape.
    pub fn parse(data: &'a [u8]) -> Result<Self, NotAnAnswer> {
        let raw: Raw<'a> = serde_json::from_slice(data).map_err(NotAnAnswer::from)?;
        // vLLM's older servers sent the error's fields at the top, under `"object": "error"`.
        let is_error = raw.object.as_deref() == Some("error");
        let bare = is_error.then(|| raw.message.unwrap_or_else(unsaid));
        Ok(Self {
            choices: raw
                .choices
                .map(|choices| choices.into_iter().map(ChunkChoice::from).collect()),
            usage: raw.usage.and_then(Counts::told),
            error: raw.error.map(Failure::into_message).or(bare),
        })
    }

    /// Whether something was made that a reader waits for, or a choice ended.
    pub fn has_progress(&self) -> bool {
        let mut choices = self.choices.iter().flatten();
        choices.any(|choice| choice.has_content || choice.finish != Finish::Running)
    }

    /// Whether it tells token counts and nothing else.
    pub fn is_usage_only(&self) -> bool {
        self.usage.is_some() && self.choices.as_ref().is_none_or(Vec::is_empty)
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    object: Option<Cow<'a, str>>,
    message: Option<String>,
    #[serde(borrow)]
    choices: Option<Vec<RawChoice<'a>>>,
    usage: Option<Counts>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct RawChoice<'a> {
    #[serde(default)]
    index: Number,
    #[serde(borrow)]
    finish_reason: Option<Reason<'a>>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    delta: Option<RawDelta<'a>>,
    #[serde(borrow)]
    message: Option<RawDelta<'a>>,
}

#[derive(Deserialize)]
struct RawDelta<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<Content<'a>>,
    #[serde(borrow)]
    reasoning: Option<Content<'a>>,
    #[serde(borrow)]
    refusal: Option<Content<'a>>,
    tool_calls: Option<Filled>,
    function_call: Option<IgnoredAny>,
    audio: Option<IgnoredAny>,
}

impl<'a> From<RawChoice<'a>> for ChunkChoice<'a> {
    fn from(raw: RawChoice<'a>) -> Self {
        let delta = raw.delta.or(raw.message);
        let is_told =
            |content: &Option<Content<'a>>| content.as_ref().is_some_and(Content::is_told);
        let made = delta.as_ref().is_some_and(|delta| {
            is_told(&delta.content)
                || is_told(&delta.reasoning_content)
                || is_told(&delta.reasoning)
                || is_told(&delta.refusal)
                || delta.tool_calls.as_ref().is_some_and(|calls| calls.0)
                || delta.function_call.is_some()
                || delta.audio.is_some()
        });
        let content = delta.and_then(|delta| delta.content).and_then(Content::into_text);
        let text = content.or(raw.text).unwrap_or_default();
        let finish = match raw.finish_reason {
            Some(Reason::Word(word)) => Finish::of(&word),
            Some(Reason::Other) | None => Finish::Running,
        };
        Self { index: raw.index.0, has_content: made || !text.is_empty(), text, finish }
    }
}

/// A finish reason, or whatever stands in its place.
enum Reason<'a> {
    Word(Cow<'a, str>),
    Other,
}

/// Text, or parts of a content that is none.
enum Content<'a> {
    Text(Cow<'a, str>),
    Other,
}

impl<'a> Content<'a> {
    fn is_told(&self) -> bool {
        !matches!(self, Self::Text(text) if text.is_empty())
    }

    fn into_text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other => None,
        }
    }
}

/// Whether a list has anything in it.
pub(super) struct Filled(pub(super) bool);

/// A whole number in any spelling; zero where it is none.
#[derive(Clone, Copy, Default)]
struct Number(u32);

macro_rules! lenient_text {
    ($name:ident, $word:ident) => {
        impl<'de: 'a, 'a> Deserialize<'de> for $name<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Lenient;
                impl<'de> Visitor<'de> for Lenient {
                    type Value = $name<'de>;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("anything")
                    }

                    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                        Ok($name::$word(Cow::Borrowed(text)))
                    }

                    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                        Ok($name::$word(Cow::Owned(text.to_owned())))
                    }

                    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                        Ok($name::Other)
                    }

                    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                        Ok($name::Other)
                    }

                    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                        Ok($name::Other)
                    }

                    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                        Ok($name::Other)
                    }

                    fn visit_seq<A: SeqAccess<'de>>(
                        self,
                        mut seq: A,
                    ) -> Result<Self::Value, A::Error> {
                        while seq.next_element::<IgnoredAny>()?.is_some() {}
                        Ok($name::Other)
                    }

                    fn visit_map<A: MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Self::Value, A::Error> {
                        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                        Ok($name::Other)
                    }
                }
                deserializer.deserialize_any(Lenient)
            }
        }
    };
}

lenient_text!(Reason, Word);
lenient_text!(Content, Text);

impl<'de> Deserialize<'de> for Filled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Filled;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Filled, A::Error> {
                let mut filled = false;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    filled = true;
                }
                Ok(Filled(filled))
            }
        }
        deserializer.deserialize_seq(Any)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
                Ok(Number(u32::try_from(number).unwrap_or(u32::MAX)))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
                Ok(Number(u32::try_from(number).unwrap_or(0)))
            }

            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "floats saturate"
            )]
            fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
                Ok(Number(number as u32))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Number, E> {
                Ok(Number(0))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Chats have the first names, pictures and recordings the second.
#[derive(Deserialize)]
struct Counts {
    prompt_tokens: Option<Number>,
    completion_tokens: Option<Number>,
    prompt_tokens_details: Option<PromptDetails>,
    input_tokens: Option<Number>,
    output_tokens: Option<Number>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<Number>,
}

impl Counts {
    /// The counts; nothing where neither of both is told.
    fn told(self) -> Option<UsageTold> {
        let prompt = self.prompt_tokens.or(self.input_tokens);
        let completion = self.completion_tokens.or(self.output_tokens);
        if prompt.is_none() && completion.is_none() {
            return None;
        }
        let cached = self.prompt_tokens_details.and_then(|details| details.cached_tokens);
        Some(UsageTold {
            prompt: prompt.unwrap_or_default().0,
            cached: cached.map(|Number(cached)| cached),
            completion: completion.unwrap_or_default().0,
        })
    }
}

/// An error object: OpenAI's, or the bare string that some servers send.
#[derive(Deserialize)]
#[serde(untagged)]
enum Failure {
    Object { message: String },
    Text(String),
    Other(IgnoredAny),
}

impl Failure {
    fn into_message(self) -> String {
        match self {
            Self::Object { message } | Self::Text(message) => message,
            Self::Other(_) => unsaid(),
        }
    }
}

fn unsaid() -> String {
    "it did not say why".to_owned()
}
