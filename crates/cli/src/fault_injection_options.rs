//! Fault injection flags: which faults a simulated worker has, and how often.

use std::time::Duration;

use overdraft_units::Tokens;
use overdraft_wire::ErrorKind;
use overdraft_worker::{FAULTS_MAX, FaultSettings};

use crate::fault::Fault;

/// What a status that a worker may fail with is called on the wire.
const ERRORS: [(u16, ErrorKind); 8] = [
    (400, ErrorKind::InvalidRequest),
    (401, ErrorKind::InvalidApiKey),
    (404, ErrorKind::ModelNotFound),
    (429, ErrorKind::RateLimited),
    (500, ErrorKind::ServerError),
    (502, ErrorKind::Upstream),
    (503, ErrorKind::Overloaded),
    (504, ErrorKind::Timeout),
];

#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Fault injection")]
pub(crate) struct FaultInjectionOptions {
    /// Share of requests that are answered with an error instead, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, requires = "simulate")]
    error_rate: u32,
    /// The status of those errors: 400, 401, 404, 429, 500, 502, 503 or 504
    #[arg(long, value_name = "STATUS", default_value = "500", value_parser = error, requires = "simulate")]
    error_status: ErrorKind,
    /// Share of requests whose answer stops coming while the connection stays open
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, requires = "simulate")]
    stall_rate: u32,
    /// How long it stops; by default until the client has gone
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "simulate")]
    stall_seconds: Option<Duration>,
    /// Share of requests whose connection is cut in the middle of the answer
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, requires = "simulate")]
    cut_rate: u32,
    /// Tokens of a streamed answer that are told before it stalls or is cut; a shorter one stays whole
    #[arg(long, value_name = "COUNT", default_value_t = 4, requires = "simulate")]
    fault_after: u32,
}

impl FaultInjectionOptions {
    /// What was asked for; `None` is nothing. `seed` decides which requests.
    ///
    /// # Errors
    /// Shares that are more than all requests together.
    pub(crate) fn settings(&self, seed: u64) -> Result<Option<FaultSettings>, Fault> {
        let shares = [self.error_rate, self.stall_rate, self.cut_rate];
        let sum: u32 = shares.iter().sum();
        if FAULTS_MAX < sum {
            let [errors, stalls, cuts] = shares.map(told);
            return Err(Fault::input(format!(
                "`--error-rate {errors}`, `--stall-rate {stalls}` and `--cut-rate {cuts}` come to {}; \
                 expected 1 or less together",
                told(sum)
            )));
        }
        let settings = FaultSettings {
            errors: self.error_rate,
            error: self.error_status,
            stalls: self.stall_rate,
            stall: self.stall_seconds,
            cuts: self.cut_rate,
            after: Tokens::new(self.fault_after),
            seed,
        };
        Ok((0 < sum).then_some(settings))
    }
}

/// Millionths as the share that was typed.
fn told(millionths: u32) -> f64 {
    f64::from(millionths) / f64::from(FAULTS_MAX)
}

/// A share in millionths.
fn share(text: &str) -> Result<u32, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    let share = share.ok_or("expected a share from 0 to 1, as in `0.05`")?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to a million")]
    let millionths = (share * f64::from(FAULTS_MAX)).round() as u32;
    Ok(millionths)
}

fn error(text: &str) -> Result<ErrorKind, String> {
    let found = ERRORS.iter().find(|(status, _)| text.parse() == Ok(*status));
    found.map(|(_, kind)| *kind).ok_or_else(|| {
        let known: Vec<String> = ERRORS.iter().map(|(status, _)| status.to_string()).collect();
        format!("expected one of {}", known.join(", "))
    })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| 0.0 <= *seconds);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| "expected seconds, as in `2.5`".to_owned())
}
