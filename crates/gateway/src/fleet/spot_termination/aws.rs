//! AWS spot interruption notices: polls the EC2 instance metadata service (`IMDSv2`).
//!
//! Version 2 requires a token, fetched with `PUT` and sent with every request.
//! `spot/instance-action` is missing until two minutes before the instance is interrupted. The
//! rebalance recommendation is not polled: it says that the risk is raised, may come without an
//! interruption ever following, and draining on it would give capacity away.
//!
//! Source: "Spot Instance interruption notices" in the EC2 user guide.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use serde::Deserialize;

use super::metadata::{Metadata, Question, text};
use super::{Fate, Notice, NoticeError, TerminationNotice};
use crate::settings::Cloud;

const TOKEN: &str = "/latest/api/token";
const ACTION: &str = "/latest/meta-data/spot/instance-action";
const TOKEN_TTL: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token");

/// The token's lifetime in seconds; the server refuses a token that has expired.
const TOKEN_SECONDS: HeaderValue = HeaderValue::from_static("21600");

/// Two minutes, for all actions but hibernation, which begins at once.
const AHEAD: Duration = Duration::from_mins(2);

/// An EC2 instance.
#[derive(Debug)]
pub(super) struct Aws {
    metadata: Metadata,
    token: Option<HeaderValue>,
}

#[derive(Deserialize)]
struct Action {
    action: String,
    time: String,
}

impl Aws {
    pub(super) const fn new(metadata: Metadata) -> Self {
        Self { metadata, token: None }
    }

    async fn token(&mut self) -> Result<HeaderValue, NoticeError> {
        if let Some(token) = &self.token {
            return Ok(token.clone());
        }
        let header = (TOKEN_TTL, TOKEN_SECONDS);
        let question = Question { method: Method::PUT, path: TOKEN, header };
        let answered = self.metadata.text(question).await?;
        let unfit = |_| NoticeError::Answer { path: TOKEN, expected: "a token" };
        let mut token = HeaderValue::from_str(answered.trim()).map_err(unfit)?;
        token.set_sensitive(true);
        self.token = Some(token.clone());
        Ok(token)
    }

    async fn action(&mut self) -> Result<Response<Bytes>, NoticeError> {
        let header = (TOKEN_HEADER, self.token().await?);
        self.metadata.ask(Question { method: Method::GET, path: ACTION, header }).await
    }
}

impl TerminationNotice for Aws {
    async fn poll(&mut self) -> Result<Option<Notice>, NoticeError> {
        let mut answer = self.action().await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            // The token has ended.
            self.token = None;
            answer = self.action().await?;
        }
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::OK => read(&text(ACTION, &answer)?).map(Some),
            status => Err(NoticeError::Status { path: ACTION, status }),
        }
    }
}

fn read(text: &str) -> Result<Notice, NoticeError> {
    let unfit = NoticeError::Answer {
        path: ACTION,
        expected: "an object with `action`, which is `terminate`, `stop` or `hibernate`, and `time`",
    };
    let Ok(Action { action, time }) = serde_json::from_str(text) else { return Err(unfit) };
    let (fate, ahead) = match action.as_str() {
        "terminate" => (Fate::Terminated, AHEAD),
        "stop" => (Fate::Stopped, AHEAD),
        "hibernate" => (Fate::Stopped, Duration::ZERO),
        _ => return Err(unfit),
    };
    let id = format!("{action} {time}");
    Ok(Notice { cloud: Cloud::Aws, fate, id, at: Some(time), ahead })
}
