//! Supervised engine check: what its supervisor says of the engine's environment and flags.

use bytes::Bytes;
use http::StatusCode;
use overdraft_config::{Restart, Worker};
use serde::Deserialize;

use super::finding::{Finding, Verdict};
use crate::ask::{self, Address, AskError, Want};

/// Bytes of a supervisor's advice.
const ADVICE_BYTES_MAX: usize = 64 * 1024;

/// What `GET /advice` answers.
#[derive(Debug, Deserialize)]
struct Advice {
    environment: Vec<String>,
    flags: Vec<String>,
}

/// Asks the supervisor of a worker; nothing where it has none.
pub(super) async fn findings(worker: &Worker) -> Vec<Finding> {
    let Some(Restart::Supervise(hook)) = &worker.restart else { return Vec::new() };
    let address = match Address::of_url(&hook.url) {
        Ok(address) => address,
        Err(error) => return told(&Err(AskError::Unreachable(error))),
    };
    let answer = ask::get(&address, "/advice", Want::Body(ADVICE_BYTES_MAX)).await;
    told(&answer)
}

fn told(answer: &Result<(StatusCode, Bytes), AskError>) -> Vec<Finding> {
    let unasked = |why: String| {
        let message = format!("its supervisor cannot be reached: {why}");
        vec![Finding::new("supervisor", Verdict::Warn, message).hint(
            "`overdraft supervise` has to run there, of this version or a newer one, or nobody restarts the worker",
        )]
    };
    let advice = match answer {
        Ok((StatusCode::OK, body)) => serde_json::from_slice::<Advice>(body),
        Ok((status, _)) => return unasked(format!("/advice answers {status}")),
        Err(error) => return unasked(error.to_string()),
    };
    let Ok(advice) = advice else { return unasked("/advice is no advice".to_owned()) };
    let environment = advice.environment.into_iter().map(|one| {
        Finding::new("engine environment", Verdict::Warn, one)
            .hint("leave the variable to `overdraft supervise`, or say it with `--env`")
    });
    let flags = advice.flags.into_iter().map(|one| {
        Finding::new("engine flags", Verdict::Warn, one)
            .hint("correct the command behind `overdraft supervise --`, and restart it")
    });
    let mut findings: Vec<Finding> = environment.chain(flags).collect();
    if findings.is_empty() {
        findings.push(Finding::new("supervisor", Verdict::Ok, "supervised"));
    }
    findings
}
