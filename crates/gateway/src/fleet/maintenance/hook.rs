//! Restart hook: a webhook or a command that restarts a worker.
//!
//! The gateway does not restart workers itself; a webhook or a program does. Either reports when
//! the old process has ended, so that probes do not mistake it for the new one.

use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use overdraft_core::memory_drift::Hooked;
use serde::Serialize;
use tokio::process::Command;
use tokio::time::timeout;

use crate::settings::{RestartHook, WebhookSettings};
use crate::upstream::{HttpCall, HttpCallError};

/// Maximum bytes of a hook's answer; they are discarded.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Why the hook failed, so that as far as we know nothing was restarted.
#[derive(Debug, thiserror::Error)]
enum HookError {
    #[error(transparent)]
    HttpCall(#[from] HttpCallError),
    #[error("the hook answered {0}; expected 200 once the old process has ended, or 202")]
    Status(StatusCode),
    #[error("`{program}` could not be started: {error}")]
    Start { program: String, error: std::io::Error },
    #[error("`{program}` ended with {status}; expected success once the old process has ended")]
    Ended { program: String, status: std::process::ExitStatus },
    #[error("`{program}` had not ended after {after:?}")]
    TimedOut { program: String, after: Duration },
}

/// The parameters that a hook gets.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Occasion {
    pub(super) worker: String,
    pub(super) url: String,
    pub(super) pool: &'static str,
    pub(super) reason: &'static str,
}

/// Calls a hook and says what came of it.
pub(super) async fn call(hook: &RestartHook, occasion: &Occasion) -> Hooked {
    let called = match hook {
        RestartHook::Webhook(webhook) => post(webhook, occasion).await,
        RestartHook::Command { argv, timeout } => command(argv, *timeout, occasion).await,
    };
    called.unwrap_or_else(|error| {
        tracing::error!(worker = occasion.worker, %error, "worker could not be restarted");
        Hooked::Failed
    })
}

async fn post(webhook: &WebhookSettings, occasion: &Occasion) -> Result<Hooked, HookError> {
    let body = serde_json::to_vec(occasion).expect("an occasion has string keys");
    let call = HttpCall {
        place: &webhook.place,
        tls: None,
        method: Method::POST,
        token: webhook.token.as_ref(),
        body: Bytes::from(body),
        timeout: webhook.timeout,
        answer_bytes: ANSWER_BYTES_MAX,
    };
    match call.run().await?.0 {
        StatusCode::ACCEPTED => Ok(Hooked::Accepted),
        status if status.is_success() => Ok(Hooked::Gone),
        status => Err(HookError::Status(status)),
    }
}

async fn command(
    argv: &[String],
    patience: Duration,
    occasion: &Occasion,
) -> Result<Hooked, HookError> {
    let (program, arguments) = argv.split_first().expect("settings are checked to name a program");
    let spawned = Command::new(program)
        .args(arguments)
        .env("OVERDRAFT_WORKER", &occasion.worker)
        .env("OVERDRAFT_WORKER_URL", &occasion.url)
        .env("OVERDRAFT_POOL", occasion.pool)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    let program = program.clone();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Err(HookError::Start { program, error }),
    };
    match timeout(patience, child.wait()).await {
        Ok(Ok(status)) if status.success() => Ok(Hooked::Gone),
        Ok(Ok(status)) => Err(HookError::Ended { program, status }),
        Ok(Err(error)) => Err(HookError::Start { program, error }),
        Err(_elapsed) => Err(HookError::TimedOut { program, after: patience }),
    }
}
