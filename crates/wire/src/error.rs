//! OpenAI error object: what a client gets when its request cannot be served.
//!
//! [`ErrorKind`] is the one table from a refusal to its status, type and code; clients match on
//! those, people read the message. **Invariant:** every error has a message that says what is wrong
//! and what was expected; none carries text from another request.

use overdraft_units::Tokens;
use serde::Serialize;

/// A class of refusal: fixes HTTP status, `error.type` and `error.code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A field has the wrong type or an impossible value.
    InvalidRequest,
    /// The body is not JSON.
    InvalidJson,
    /// Prompt and completion do not fit the model's context.
    ContextLengthExceeded,
    /// No key, or an unknown one.
    InvalidApiKey,
    /// The key may not do this.
    PermissionDenied,
    /// No such path.
    NotFound,
    /// No such model.
    ModelNotFound,
    /// The response that a request goes on from is not kept.
    PreviousResponseNotFound,
    /// A message is to begin or go on a conversation that the server keeps.
    ThreadUnsupported,
    /// The path exists, not for this method.
    MethodNotAllowed,
    /// The client was too slow to send its request.
    RequestTimeout,
    /// The body is larger than the server takes.
    RequestTooLarge,
    /// The body comes in a form that the server does not understand.
    UnsupportedMediaType,
    /// The client sends more than it may.
    RateLimited,
    /// The request's head is larger than the server takes.
    HeadTooLarge,
    /// The server failed; the request was fine.
    ServerError,
    /// A worker failed or answered nonsense.
    Upstream,
    /// Nothing can serve the request at the moment.
    Overloaded,
    /// The answer took too long.
    Timeout,
}

impl ErrorKind {
    /// Every kind, for catalogues and metric labels.
    pub const ALL: [Self; 19] = [
        Self::InvalidRequest,
        Self::InvalidJson,
        Self::ContextLengthExceeded,
        Self::InvalidApiKey,
        Self::PermissionDenied,
        Self::NotFound,
        Self::ModelNotFound,
        Self::PreviousResponseNotFound,
        Self::ThreadUnsupported,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::RequestTooLarge,
        Self::UnsupportedMediaType,
        Self::RateLimited,
        Self::HeadTooLarge,
        Self::ServerError,
        Self::Upstream,
        Self::Overloaded,
        Self::Timeout,
    ];

    /// Status, type and code. OpenAI gives malformed requests no code.
    const fn row(self) -> (u16, &'static str, Option<&'static str>) {
        const INVALID: &str = "invalid_request_error";
        match self {
            Self::InvalidRequest => (400, INVALID, None),
            Self::InvalidJson => (400, INVALID, Some("invalid_json")),
            Self::ContextLengthExceeded => (400, INVALID, Some("context_length_exceeded")),
            Self::InvalidApiKey => (401, INVALID, Some("invalid_api_key")),
            Self::PermissionDenied => (403, INVALID, Some("permission_denied")),
            Self::NotFound => (404, INVALID, Some("not_found")),
            Self::ModelNotFound => (404, INVALID, Some("model_not_found")),
            Self::PreviousResponseNotFound => (404, INVALID, Some("previous_response_not_found")),
            Self::ThreadUnsupported => (400, INVALID, Some("thread_unsupported_request")),
            Self::MethodNotAllowed => (405, INVALID, Some("method_not_allowed")),
            Self::RequestTimeout => (408, INVALID, Some("request_timeout")),
            Self::RequestTooLarge => (413, INVALID, Some("request_too_large")),
            Self::UnsupportedMediaType => (415, INVALID, Some("unsupported_media_type")),
            Self::RateLimited => (429, "rate_limit_error", Some("rate_limit_exceeded")),
            Self::HeadTooLarge => (431, INVALID, Some("head_too_large")),
            Self::ServerError => (500, "server_error", Some("server_error")),
            Self::Upstream => (502, "server_error", Some("upstream_error")),
            Self::Overloaded => (503, "overloaded_error", Some("overloaded")),
            Self::Timeout => (504, "server_error", Some("timeout")),
        }
    }

    /// HTTP status.
    pub const fn status(self) -> u16 {
        self.row().0
    }

    /// `error.type`.
    pub const fn error_type(self) -> &'static str {
        self.row().1
    }

    /// `error.code`.
    pub const fn code(self) -> Option<&'static str> {
        self.row().2
    }
}

/// A refusal, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Its class.
    pub kind: ErrorKind,
    /// For people: what is wrong and what was expected.
    pub message: String,
    /// The field at fault, as in `messages[0].role`.
    pub param: Option<String>,
}

impl ApiError {
    /// An error of `kind` about no field in particular.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), param: None }
    }

    /// Names the field at fault.
    #[must_use]
    pub fn with_param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// A field with a value that cannot be.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidRequest, message).with_param(param)
    }

    /// The model that was asked for is not served here.
    pub fn model_not_found(model: &str) -> Self {
        let message = format!(
            "the model `{}` does not exist; GET /v1/models lists those that do",
            clip(model)
        );
        Self::new(ErrorKind::ModelNotFound, message).with_param("model")
    }

    /// `prompt` tokens and room for `completion` more exceed `context`. The sentence is OpenAI's,
    /// because clients search it for "maximum context length".
    pub fn context_length_exceeded(prompt: Tokens, completion: Tokens, context: Tokens) -> Self {
        let (prompt, completion) = (u64::from(prompt.get()), u64::from(completion.get()));
        let message = format!(
            "this model's maximum context length is {} tokens, but {} were requested ({prompt} in \
             the messages, {completion} in the completion); shorten the messages or lower \
             `max_tokens`",
            context.get(),
            prompt + completion,
        );
        Self::new(ErrorKind::ContextLengthExceeded, message).with_param("messages")
    }

    /// The prompt alone exceeds `context`: it has `at_least` so many tokens, and was not counted
    /// further.
    pub fn prompt_too_long(at_least: Tokens, context: Tokens) -> Self {
        let message = format!(
            "this model's maximum context length is {} tokens, but at least {} were requested in \
             the messages; shorten the messages",
            context.get(),
            at_least.get(),
        );
        Self::new(ErrorKind::ContextLengthExceeded, message).with_param("messages")
    }

    /// No such path.
    pub fn not_found(method: &str, path: &str) -> Self {
        let message = format!("there is nothing at `{} {}`", clip(method), clip(path));
        Self::new(ErrorKind::NotFound, message)
    }

    /// The path exists, not for this method.
    pub fn method_not_allowed(method: &str, path: &str) -> Self {
        let message = format!("`{}` does not take the method `{}`", clip(path), clip(method));
        Self::new(ErrorKind::MethodNotAllowed, message)
    }

    /// No key, or an unknown one.
    pub fn invalid_api_key() -> Self {
        let message = "the API key is missing or unknown; send `Authorization: Bearer KEY`";
        Self::new(ErrorKind::InvalidApiKey, message)
    }

    /// The body is larger than `limit_bytes`.
    pub fn request_too_large(limit_bytes: usize) -> Self {
        let message = format!("the request body exceeds the limit of {limit_bytes} bytes");
        Self::new(ErrorKind::RequestTooLarge, message)
    }

    /// The client sends more than it may.
    pub fn rate_limited(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::RateLimited, message)
    }

    /// The server failed; the request was fine.
    pub fn server_error(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::ServerError, message)
    }

    /// A worker failed or answered nonsense.
    pub fn upstream(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Upstream, message)
    }

    /// Nothing can serve the request at the moment.
    pub fn overloaded(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Overloaded, message)
    }

    /// The answer took too long.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Timeout, message)
    }

    /// HTTP status of the reply.
    pub const fn status(&self) -> u16 {
        self.kind.status()
    }

    /// The reply's body: `{"error":{"message","type","param","code"}}`.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and options always serialise")
    }
}

impl Serialize for ApiError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Envelope<'a> {
            error: Body<'a>,
        }
        #[derive(Serialize)]
        struct Body<'a> {
            message: &'a str,
            r#type: &'static str,
            param: Option<&'a str>,
            code: Option<&'static str>,
        }
        let error = Body {
            message: &self.message,
            r#type: self.kind.error_type(),
            param: self.param.as_deref(),
            code: self.kind.code(),
        };
        Envelope { error }.serialize(serializer)
    }
}

/// Bytes of an error that are searched at most: engines put the reason first, and a trace after it.
const REASON_BYTES_MAX: usize = 16 * 1024;

/// Out-of-memory errors by the words of CUDA, HIP, `PyTorch` and allocators, in lower case.
const OUT_OF_MEMORY: [&str; 2] = ["out of memory", "outofmemory"];

/// Whether an engine's error says that a memory is full.
pub fn names_out_of_memory(error: &[u8]) -> bool {
    let start = &error[..error.len().min(REASON_BYTES_MAX)];
    let lower = start.to_ascii_lowercase();
    OUT_OF_MEMORY.iter().any(|words| memchr::memmem::find(&lower, words.as_bytes()).is_some())
}

/// Characters of a client's value that an error repeats at most.
const QUOTED_CHARS_MAX: usize = 80;

/// A client's value as errors repeat it: short and on one line.
pub(crate) fn clip(value: &str) -> String {
    let mut quoted: String = value
        .chars()
        .take(QUOTED_CHARS_MAX)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    if value.chars().nth(QUOTED_CHARS_MAX).is_some() {
        quoted.push('…');
    }
    quoted
}
