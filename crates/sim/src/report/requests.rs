//! Requests as comma-separated values, a line each.

use std::io::{self, Write};

use super::{Fate, Report, Run, Sample};
use crate::float_conversion::float;

/// Columns, in their order.
const HEADER: &str = "label,seed,due_s,sent_s,first_token_s,ended_s,ttft_ms,tpot_ms,e2el_ms,prompt_tokens,\
                      cached_tokens,output_tokens,outcome,reason,worker,pool,priority,tenant,stage";

/// Writes all requests of all runs; times count from the beginning of the run.
///
/// # Errors
/// What the writer's errors are.
pub(super) fn write(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "{HEADER}")?;
    for run in &report.runs {
        for sample in run.recorder.samples() {
            line(run, sample, to)?;
        }
    }
    Ok(())
}

fn line(run: &Run, sample: &Sample, to: &mut dyn Write) -> io::Result<()> {
    let seconds = |time: overdraft_units::Instant| {
        format!("{:.6}", float(time.since(overdraft_units::Instant::ORIGIN).get()) / 1e6)
    };
    let ms = |micros: f64| format!("{:.3}", micros / 1e3);
    let or_empty = |text: Option<String>| text.unwrap_or_default();
    let (outcome, is_whole) = match sample.fate {
        Fate::Completed => ("completed", true),
        Fate::Refused => ("refused", false),
        Fate::Failed => ("failed", false),
    };
    let belongs = sample.belongs;
    let tenant = belongs.tenant.map(|place| run.groups.tenant(usize::from(place)));
    let stage = belongs.stage.map(|place| run.groups.stage(usize::from(place)));
    let pool = belongs.pool.and_then(|place| run.groups.pools.get(usize::from(place)));
    let cells = [
        quoted(&run.label),
        run.seed.to_string(),
        seconds(sample.intended),
        seconds(sample.sent),
        or_empty(sample.first_token.map(seconds)),
        seconds(sample.ended),
        or_empty(sample.ttft().map(|time| ms(float(time.get())))),
        or_empty(sample.tpot_us().filter(|_| is_whole).map(ms)),
        ms(float(sample.latency().get())),
        sample.prompt.get().to_string(),
        or_empty(sample.cached.map(|tokens| tokens.get().to_string())),
        sample.output.get().to_string(),
        outcome.to_owned(),
        or_empty(sample.cause().map(|cause| cause.name().to_owned())),
        or_empty(belongs.worker.map(|worker| worker.to_string())),
        or_empty(pool.map(|pool| quoted(&pool.name))),
        or_empty(belongs.priority.map(|priority| priority.name().to_owned())),
        or_empty(tenant.map(|name| quoted(&name))),
        or_empty(stage.map(|name| quoted(&name))),
    ];
    writeln!(to, "{}", cells.join(","))
}

/// A text as one cell (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
