//! Histogram buckets: vLLM's boundaries, so that quantiles compare.

use overdraft_units::Micros;

/// Time to the first token, seconds.
pub(super) const FIRST_TOKEN: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];

/// Time between tokens, seconds.
pub(super) const NEXT_TOKEN: [f64; 19] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];

/// Whole requests and their phases, seconds.
pub(super) const REQUEST: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];

/// Tokens of one step.
pub(super) const STEP: [f64; 13] =
    [1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];

/// The `n` of a request.
pub(super) const CHOICES: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];

/// Preemptions of one request.
pub(super) const PREEMPTIONS: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0];

/// Requests at the gateway, seconds: `OpenTelemetry`'s doubling lines.
pub(super) const GATEWAY: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// Requests where there is a cache, seconds: the write-up's lines, and some on both sides of them.
pub(super) const CACHED: [f64; 13] =
    [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

/// One, two and five times every power of ten up to `limit`.
pub(super) fn one_two_five(limit: u32) -> Vec<f64> {
    let mut lines = Vec::new();
    let mut power = 1_u32;
    loop {
        for digit in [1, 2, 5] {
            let Some(line) = power.checked_mul(digit).filter(|&line| line <= limit) else {
                return lines;
            };
            lines.push(f64::from(line));
        }
        let Some(next) = power.checked_mul(10) else {
            return lines;
        };
        power = next;
    }
}

/// A span as Prometheus counts it.
#[expect(clippy::cast_precision_loss, reason = "exact up to 285 years")]
pub(super) fn seconds(span: Micros) -> f64 {
    span.get() as f64 / 1e6
}
