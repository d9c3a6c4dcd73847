//! Streamed response: one request, and when each part of its answer came.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use overdraft_sim::report::{Cause, Fate};
use overdraft_telemetry::Clock;
use overdraft_units::Instant;
use overdraft_wire::answer::{AnswerChunk, Finish, UsageTold};
use overdraft_wire::sse::{Event, Splitter};
use serde::Deserialize;
use tokio::time::timeout;

use crate::pool::Pool;
use crate::progress::Progress;

/// Bytes of one event at most.
const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of an answer that is read whole at most.
pub(crate) const WHOLE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Characters of a refusal that are told.
const TOLD_MAX: usize = 160;

/// What came of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// When each piece of text came.
    pub(crate) pieces: Vec<Instant>,
    pub(crate) text: String,
    /// What the endpoint says of tokens, if it does.
    pub(crate) usage: Option<UsageTold>,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// As reports count it.
    pub(crate) cause: Cause,
    /// As a person is told it.
    pub(crate) why: String,
}

impl Wrong {
    pub(crate) fn new(cause: Cause, why: impl Into<String>) -> Self {
        Self { cause, why: why.into() }
    }

    /// No connection came about, or one broke.
    fn lost(why: impl Into<String>) -> Self {
        Self::new(Cause::WorkerLost, why)
    }

    /// What came is an error, or no answer in this API's form.
    fn error(why: impl std::fmt::Display) -> Self {
        Self::new(Cause::ErrorAnswer, why.to_string())
    }

    /// How the request ended: refused where there was no room.
    pub(crate) fn fate(&self) -> Fate {
        if self.cause == Cause::TurnedAway { Fate::Refused } else { Fate::Failed }
    }
}

/// Asks and reads the stream to its end; tells `progress` of its tokens when they come.
pub(crate) async fn stream(
    pool: &Pool,
    request: Request<Full<Bytes>>,
    clock: Clock,
    progress: &Progress,
) -> Result<Answer, Wrong> {
    let mut connection = pool.take().await.map_err(Wrong::lost)?;
    let broken = |error: hyper::Error| Wrong::lost(format!("the answer broke off: {error}"));
    let response = connection.send_request(request).await.map_err(broken)?;
    let status = response.status();
    if status != StatusCode::OK {
        let wrong = refusal(status, response.into_body()).await;
        pool.give_back(connection);
        return Err(wrong);
    }
    let mut body = response.into_body();
    let mut splitter = Splitter::new(EVENT_BYTES_MAX);
    let mut answer = Answer::default();
    let mut done = false;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(broken)?;
        let Some(bytes) = frame.data_ref() else { continue };
        let now = clock.now();
        splitter.push(bytes);
        loop {
            let event = splitter.next_event().map_err(Wrong::error)?;
            let Some(event) = event else { break };
            let (count, last) = (answer.pieces.len(), answer.pieces.last().copied());
            done |= answer.take(&event, now)?;
            match last {
                _ if answer.pieces.len() == count => {}
                Some(last) => progress.gap(now.since(last)),
                None => progress.first_token(),
            }
        }
    }
    if !done {
        return Err(Wrong::lost("the stream ended without `[DONE]`"));
    }
    pool.give_back(connection);
    Ok(answer)
}

impl Answer {
    /// Takes an event in; says whether it was the last.
    fn take(&mut self, event: &Event, now: Instant) -> Result<bool, Wrong> {
        if event.is_done() {
            return Ok(true);
        }
        let Some(data) = event.data() else { return Ok(false) };
        let chunk = AnswerChunk::parse(&data).map_err(Wrong::error)?;
        if let Some(message) = chunk.error {
            return Err(Wrong::error(message.chars().take(TOLD_MAX).collect::<String>()));
        }
        self.usage = chunk.usage.or(self.usage);
        for choice in chunk.choices.unwrap_or_default() {
            if choice.finish == Finish::Aborted {
                return Err(Wrong::error("the endpoint gave up in the middle of the answer"));
            }
            if choice.has_content {
                self.pieces.push(now);
            }
            self.text.push_str(&choice.text);
        }
        Ok(false)
    }
}

/// Asks and reads an answer that comes whole, and within `patience`: an endpoint that accepts and says nothing would
/// else be waited for without end.
pub(crate) async fn whole(
    pool: &Pool,
    request: Request<Full<Bytes>>,
    patience: Duration,
) -> Result<(StatusCode, Bytes), String> {
    match timeout(patience, read_whole(pool, request)).await {
        Ok(answered) => answered,
        Err(_elapsed) => Err(format!("no whole answer within {patience:?}")),
    }
}

async fn read_whole(
    pool: &Pool,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), String> {
    let mut connection = pool.take().await?;
    let response = connection.send_request(request).await.map_err(|error| error.to_string())?;
    let status = response.status();
    let body = Limited::new(response.into_body(), WHOLE_BYTES_MAX).collect().await;
    let body = body.map_err(|error| format!("the answer broke off: {error}"))?.to_bytes();
    pool.give_back(connection);
    Ok((status, body))
}

async fn refusal(status: StatusCode, body: Incoming) -> Wrong {
    let body = Limited::new(body, WHOLE_BYTES_MAX).collect().await;
    let text = body.map_or_else(|_| String::new(), |body| told(&body.to_bytes()));
    let why = format!("{status}: {text}");
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Wrong::new(Cause::TurnedAway, why)
        }
        _ => Wrong::error(why),
    }
}

/// The message of an error object, or the beginning of whatever it is.
pub(crate) fn told(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        error: Why,
    }
    #[derive(Deserialize)]
    struct Why {
        message: String,
    }
    let message = serde_json::from_slice::<Refusal>(body).map(|refusal| refusal.error.message);
    let text = message.unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned());
    text.chars().take(TOLD_MAX).collect()
}
