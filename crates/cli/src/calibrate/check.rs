//! Check of a calibration: a load of prompts and answers at once, sent to the worker and simulated by the fit.

use std::fmt;

use overdraft_core::route::{Policy, RouteSettings};
use overdraft_gpu_model::{Catalogue, Measured};
use overdraft_sim::fleet::{Pace, Scenario, simulate};
use overdraft_sim::report::Summary;
use overdraft_sim::workload::{Pacing, Source};
use overdraft_units::{Micros, Tokens};

use super::steps::{Endpoint, Extent, summary};
use crate::fault::Fault;

/// Requests of each user.
const ROUNDS: u32 = 4;

/// Users at most.
const USERS_MAX: u32 = 8;

/// The load's step of a calibration, behind all others.
const NUMBER: u64 = 999;

/// Measured and simulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked {
    /// Answer tokens a second.
    rate: [f64; 2],
    /// Milliseconds to the first token, on average.
    first: [f64; 2],
    /// Milliseconds for a token after it, half of the requests.
    token: [f64; 2],
}

/// Sends the load and simulates it.
///
/// # Errors
/// The worker does not answer, or the profile is none.
pub(super) async fn check(
    endpoint: &Endpoint,
    measured: &Measured,
    extent: &Extent,
) -> Result<Checked, Fault> {
    let users = USERS_MAX.min(extent.batch_max);
    let prompt = 400.min(extent.prompt_max);
    let workload = format!("unique:question={prompt},output=60,spread=0.3");
    let requests = users * ROUNDS;
    let sent = endpoint.send(&workload, NUMBER, users, requests).await?;
    // Simulated prompts are as long as the worker counted them on average.
    let count = u32::try_from(sent.samples().len().max(1)).unwrap_or(u32::MAX);
    let counted: u32 = sent.samples().iter().map(|sample| sample.prompt.get()).sum();
    let counted = (counted / count).max(1);
    let fault = |error: String| Fault::running(error);
    let mut catalogue = Catalogue::default();
    catalogue
        .add("the measured profile", &measured.toml())
        .map_err(|error| fault(error.to_string()))?;
    let profile = catalogue.find(&measured.name()).map_err(|error| fault(error.to_string()))?;
    let routing = RouteSettings { policy: Policy::RoundRobin, ..RouteSettings::default() };
    let half = measured.fit.per_request * 1e6 / 2.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "microseconds of a request, not below zero"
    )]
    let network = Micros::new(half as u64);
    let scenario = Scenario {
        pace: Pace::Closed(users),
        network,
        kv_tokens: Some(Tokens::new(measured.kv_tokens.get())),
        ..Scenario::new(profile, 1, routing)
    };
    let workload = format!("unique:question={counted},output=60,spread=0.3");
    let sessions = Source::parse(&workload).map_err(|error| fault(error.to_string()))?;
    // The same draws: the same lengths, but for the words that a token is.
    let seed = endpoint.seed_of(NUMBER);
    let sessions = sessions.open(seed).map_err(|error| fault(error.to_string()))?.sessions;
    let pacing = Pacing { requests_max: Some(u64::from(requests)), ..Pacing::default() };
    let told = simulate(&scenario, pacing.apply(sessions, seed), seed, &mut |_| {})
        .map_err(|error| fault(error.to_string()))?;
    let both = [summary(&sent), summary(&told.recorder)];
    let each = |of: fn(&Summary) -> f64| [of(&both[0]), of(&both[1])];
    Ok(Checked {
        rate: each(Summary::output_throughput),
        first: each(|one| one.ttft.mean),
        token: each(|one| one.tpot.median),
    })
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A simulated worker that answers nobody has no times.
        let shown = |ms: f64, digits: usize| {
            if ms.is_finite() { format!("{ms:.digits$}") } else { "-".to_owned() }
        };
        let (first, token) = (self.first.map(|ms| shown(ms, 1)), self.token.map(|ms| shown(ms, 2)));
        write!(
            f,
            "{:.1} tokens/s measured, {:.1} simulated; first token {} and {} ms; token {} and {} ms",
            self.rate[0], self.rate[1], first[0], first[1], token[0], token[1]
        )
    }
}
