//! Token calibration: the endpoint's models, and tokens per word with its own tokenizer.
//!
//! Workloads are in tokens, requests in text. Two short requests whose texts differ by a known
//! number of words give the tokens per word; the tokens of the chat template are equal in both and
//! cancel out. They also show, before the load begins, whether the endpoint answers at all.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use overdraft_sim::workload::{Wording, words};
use overdraft_wire::answer::AnswerChunk;
use serde::Deserialize;

use crate::answer;
use crate::body::Asking;
use crate::pool::Pool;
use crate::target::Target;

/// Words of the two texts.
const WORDS: (u64, u64) = (24, 280);

/// A word takes no more tokens than it has bytes.
const TOKENS_PER_WORD: std::ops::RangeInclusive<f64> = 0.2..=8.0;

/// Why an endpoint cannot be tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalibrateError {
    /// It does not answer.
    #[error("the endpoint does not answer: {0}")]
    Unanswered(String),
    /// It answers with an error.
    #[error("the endpoint refuses a test request: {status}: {message}")]
    Refused {
        /// Its status.
        status: u16,
        /// What it says.
        message: String,
    },
    /// It does not tell what was asked.
    #[error("the endpoint does not tell {0}")]
    Untold(&'static str),
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

/// Asks which words it takes for how many tokens; each answer may take as long as `patience`.
///
/// # Errors
/// When it does not answer, refuses, or does not say how many tokens a prompt had.
pub async fn calibrate(
    target: &Target,
    asking: &Asking,
    patience: Duration,
) -> Result<Wording, CalibrateError> {
    let endpoint = Endpoint { pool: Pool::new(target.clone()), patience };
    let less = endpoint.prompt_tokens(asking, WORDS.0).await?;
    let more = endpoint.prompt_tokens(asking, WORDS.1).await?;
    let words = u32::try_from(WORDS.1 - WORDS.0).unwrap_or(1);
    let tokens_per_word = f64::from(more.saturating_sub(less)) / f64::from(words);
    if !TOKENS_PER_WORD.contains(&tokens_per_word) {
        return Err(CalibrateError::Untold("how many tokens a prompt has (`usage.prompt_tokens`)"));
    }
    Ok(Wording { tokens_per_word })
}

/// The first model that it lists, within `patience`.
///
/// # Errors
/// When it does not answer, refuses, or lists none.
pub async fn first_model(target: &Target, patience: Duration) -> Result<String, CalibrateError> {
    let endpoint = Endpoint { pool: Pool::new(target.clone()), patience };
    let body = endpoint.ask(Method::GET, "/models", Bytes::new()).await?;
    let models: Models = serde_json::from_slice(&body)
        .map_err(|_| CalibrateError::Untold("its models (`GET /v1/models`)"))?;
    let first = models.data.into_iter().next();
    Ok(first.ok_or(CalibrateError::Untold("any model (`GET /v1/models`)"))?.id)
}

/// An endpoint that is asked one thing after the other.
struct Endpoint {
    pool: Pool,
    /// How long each answer may take.
    patience: Duration,
}

impl Endpoint {
    async fn prompt_tokens(&self, asking: &Asking, count: u64) -> Result<u32, CalibrateError> {
        let body = asking.whole(words(count, count), 1);
        let answer = self.ask(Method::POST, asking.interface.resource(), body).await?;
        let told = AnswerChunk::parse(&answer)
            .map_err(|_| CalibrateError::Untold("what it answers in JSON"))?;
        let usage = told.usage.ok_or(CalibrateError::Untold("the tokens of a prompt (`usage`)"))?;
        Ok(usage.prompt)
    }

    async fn ask(
        &self,
        method: Method,
        resource: &str,
        body: Bytes,
    ) -> Result<Bytes, CalibrateError> {
        let target = self.pool.target();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri(target, resource)?;
        *request.headers_mut() = target.headers.clone();
        let answering = answer::whole(&self.pool, request, self.patience);
        let (status, body) = answering.await.map_err(CalibrateError::Unanswered)?;
        if status != StatusCode::OK {
            let message = answer::told(&body);
            return Err(CalibrateError::Refused { status: status.as_u16(), message });
        }
        Ok(body)
    }
}

fn uri(target: &Target, resource: &str) -> Result<http::Uri, CalibrateError> {
    target.path(resource).parse().map_err(|_| CalibrateError::Untold("anything at that path"))
}
