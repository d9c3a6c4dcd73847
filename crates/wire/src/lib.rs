//! Wire formats: OpenAI objects, server-sent events, KV events and metrics, without any I/O.
//!
//! There are two readers of a request. The *worker* needs every field and parses it into checked
//! types ([`request`]); the *gateway* needs a few fields and must keep the rest byte for byte, so it
//! scans the bytes once and patches them ([`json`]). **Invariant:** whatever a client sends, the
//! answer is a value or an [`ApiError`] that names the field; nothing here panics or reads a clock.

pub mod answer;
pub mod dialect;
mod endpoint;
pub mod error;
pub mod form;
pub mod json;
pub mod kv_blocks;
pub mod kv_events;
pub mod prometheus;
mod refusal;
pub mod request;
pub mod response;
pub mod resume;
pub mod scoring;
pub mod sse;
pub mod zmtp;

pub use self::endpoint::{Endpoint, Generation};
pub use self::error::{ApiError, ErrorKind, names_out_of_memory};
pub use self::json::{JsonError, Object, Patch, RequestPeek};
pub use self::refusal::refuses_member;
pub use self::request::{ChatRequest, CompletionRequest, DetokenizeRequest, TokenizeRequest};
