//! `overdraft tune`: computes a static speculation depth table for a vLLM worker from its metrics.
//!
//! vLLM takes a table of depths by batch size when it starts, and cannot change it afterwards. The
//! command reads the worker's counters under its normal load; another worker of the same model
//! without speculation gives the step times without drafts. The scheduler's `tune` module computes
//! the table; nothing is changed anywhere.

use std::fmt::Write as _;
use std::time::Duration;

use http::StatusCode;
use overdraft_scheduler::speculate::{
    Advised, Counts, DEPTH_MAX, Evidence, SEQUENCES_MAX, TuneError,
};
use overdraft_telemetry::Clock;
use overdraft_units::Instant;
use overdraft_wire::prometheus::PAGE_BYTES_MAX;
use overdraft_wire::prometheus::engine::{WorkerReport, report};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::ask::{Address, Want, get};
use crate::fault::Fault;
use crate::format::Format;
use crate::url_option::UrlOption;

/// Minimum milliseconds between two samples.
const EVERY_MIN: u64 = 50;
/// Maximum samples.
const LOOKS_MAX: u64 = 100_000;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The worker with speculative decoding: vLLM, or another server with its metrics
    #[arg(value_name = "URL", required_unless_present = "url_flag")]
    url: Option<String>,
    #[command(flatten)]
    url_option: UrlOption,
    /// A worker of the same model on the same hardware without speculation; not needed where
    /// the first one's own table has a depth of zero at two batch sizes
    #[arg(long, value_name = "URL")]
    plain: Option<String>,
    /// Seconds to watch for
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    seconds: u64,
    /// Milliseconds between two scrapes
    #[arg(long, default_value_t = 1_000, value_name = "MILLISECONDS")]
    every: u64,
    /// The worker's `--max-num-seqs`: how far the table goes
    #[arg(long, default_value_t = 256, value_name = "COUNT")]
    max_num_seqs: u32,
    /// The deepest draft to consider
    #[arg(long, default_value_t = DEPTH_MAX, value_name = "COUNT")]
    max_depth: usize,
    /// How the table is printed
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

const EXAMPLES: &str = "\
Examples:
  overdraft tune http://10.0.0.5:8000 --plain http://10.0.0.6:8000
      two workers of one fleet under the same load, the second without --speculative-config
  overdraft tune URL --plain URL --seconds 600 --max-num-seqs 512
  overdraft tune URL --plain URL --output json | jq .num_speculative_tokens_per_batch_size

Both workers must be busy while they are watched, at more than one batch size: real traffic tells
how often guesses are right. `overdraft bench URL --users 32` sends a load.

vLLM from 0.24 on takes the table when it starts. It has no way to change it while it runs, and
nothing here tries to. Workers of our own need none: their default policy measures as it goes.

Exit codes: 0 there is a table, 1 a worker cannot be read or did too little, 2 the input cannot be
used.";

/// Watches, reckons and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Fault> {
    arguments.check()?;
    let evidence = crate::runtime::runtime()?.block_on(watch(arguments))?;
    let table = evidence
        .table(arguments.max_num_seqs, arguments.max_depth)
        .map_err(|error| Fault::running(error.to_string()).hint(hint(error)))?;
    let text = match arguments.output {
        Format::Table => told(&evidence, &table),
        Format::Json => format!("{:#}\n", as_json(&evidence, &table)),
    };
    crate::config::print(&text)
}

impl Arguments {
    fn check(&self) -> Result<(), Fault> {
        let refuse = |flag: &str, value: u64, expected: String| {
            Err(Fault::input(format!("`{flag} {value}` is out of range; expected {expected}")))
        };
        let looks = self.seconds.saturating_mul(1_000) / self.every.max(1);
        if self.every < EVERY_MIN {
            return refuse("--every", self.every, format!("at least {EVERY_MIN}"));
        }
        if looks == 0 || LOOKS_MAX < looks {
            return refuse("--seconds", self.seconds, format!("1 to {LOOKS_MAX} looks"));
        }
        if !(1..=SEQUENCES_MAX).contains(&self.max_num_seqs) {
            let count = u64::from(self.max_num_seqs);
            return refuse("--max-num-seqs", count, format!("1 to {SEQUENCES_MAX}"));
        }
        if !(1..=DEPTH_MAX).contains(&self.max_depth) {
            return refuse("--max-depth", self.max_depth as u64, format!("1 to {DEPTH_MAX}"));
        }
        Ok(())
    }
}

/// What to do about too little.
fn hint(error: TuneError) -> &'static str {
    match error {
        TuneError::Drafts { .. } => {
            "is the worker busy, and was it started with --speculative-config? `--seconds` watches longer"
        }
        TuneError::PlainSizes { .. } => {
            "name a worker without speculative decoding with `--plain`, and vary its load"
        }
        _ => {
            "its load must stay the same from one look to the next; look more often with `--every`"
        }
    }
}

/// Looks at the workers' counters again and again.
async fn watch(arguments: &Arguments) -> Result<Evidence, Fault> {
    let drafting = arguments.url_option.given(arguments.url.as_deref());
    let urls = [drafting, arguments.plain.as_deref()].into_iter().flatten();
    let workers: Vec<(&str, Address)> = urls
        .map(|url| {
            let address = Address::of_url(url);
            Ok((url, address.map_err(|error| Fault::input(format!("`{url}`: {error}")))?))
        })
        .collect::<Result<_, Fault>>()?;
    let clock = Clock::start();
    let mut evidence = Evidence::default();
    let mut before: Vec<Option<(Instant, Counts)>> = vec![None; workers.len()];
    let mut ticks = interval(Duration::from_millis(arguments.every));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..=arguments.seconds.saturating_mul(1_000) / arguments.every {
        ticks.tick().await;
        for ((url, address), before) in workers.iter().zip(&mut before) {
            let counts = look(url, address).await?;
            let now = clock.now();
            if let Some((then, earlier)) = before.replace((now, counts)) {
                evidence.observe(&earlier, &counts, now.since(then));
            }
        }
    }
    Ok(evidence)
}

async fn look(url: &str, address: &Address) -> Result<Counts, Fault> {
    let failed = |why: String| Fault::running(format!("{url} cannot be read: {why}"));
    let asked = get(address, "/metrics", Want::Body(PAGE_BYTES_MAX)).await;
    let (status, page) = asked.map_err(|error| {
        failed(error.to_string())
            .hint("is the worker running there? expected one with vLLM's metrics")
    })?;
    if status != StatusCode::OK {
        return Err(failed(format!("/metrics answers {status}")));
    }
    counts(&report(&page).map_err(|error| failed(error.to_string()))?).map_err(failed)
}

fn counts(report: &WorkerReport) -> Result<Counts, String> {
    let generated = report.generation_tokens;
    let generated =
        generated.ok_or("its metrics lack `vllm:generation_tokens_total`".to_owned())?;
    let mut accepted_at = [0; DEPTH_MAX];
    for (place, count) in accepted_at.iter_mut().zip(&report.accepted_by_position) {
        *place = *count;
    }
    Ok(Counts {
        running: report.running,
        waiting: report.waiting,
        generated,
        drafts: report.drafts.unwrap_or(0),
        drafted: report.draft_tokens.unwrap_or(0),
        accepted: report.accepted_tokens.unwrap_or(0),
        accepted_at,
    })
}

/// The table in vLLM's words.
fn ranges(table: &[Advised]) -> Value {
    table.iter().map(|line| json!([line.first, line.last, line.depth])).collect()
}

fn deepest(table: &[Advised]) -> usize {
    table.iter().map(|line| line.depth).max().unwrap_or(0)
}

fn as_json(evidence: &Evidence, table: &[Advised]) -> Value {
    let survival = evidence.survival();
    let survival = survival.iter().map(|share| share.factor());
    let line = |line: &Advised| {
        json!({
            "first": line.first, "last": line.last, "depth": line.depth,
            "beside_none": f64::from(line.permille) / 1e3, "measured": line.seen,
            "contradicted_depth": line.contradicted,
        })
    };
    json!({
        "pays": 0 < deepest(table),
        "num_speculative_tokens": deepest(table),
        "num_speculative_tokens_per_batch_size": ranges(table),
        "lines": table.iter().map(line).collect::<Vec<_>>(),
        "drafts": evidence.drafts,
        "present": evidence.present().iter().map(|now| json!({
            "sequences": now.sequences, "depth": now.depth,
            "beside_none": f64::from(now.permille) / 1e3,
        })).collect::<Vec<_>>(),
        "right_up_to_position": survival.collect::<Vec<_>>(),
    })
}

/// What the write-up's rule of thumb makes of the accepted share of drafted tokens, in hundredths: start with 4, below a
/// fifth go down, above half go up. It knows nothing of what steps cost, which the table does.
fn write_up(evidence: &Evidence) -> (u64, &'static str) {
    let accepted: u64 = evidence.accepted.iter().sum();
    let drafted = evidence.drafts.saturating_mul(evidence.depth as u64).max(1);
    let says = match accepted.saturating_mul(100) / drafted {
        0..15 => "which is too few: no speculation",
        15..20 => "so depth 2 or 3",
        20..=50 => "so depth 4",
        _ => "so depth 5",
    };
    (accepted.saturating_mul(100) / drafted, says)
}

fn told(evidence: &Evidence, table: &[Advised]) -> String {
    let mut text = String::new();
    let survival: Vec<String> = evidence
        .survival()
        .iter()
        .take(evidence.depth)
        .map(|share| format!("{:.2}", share.factor()))
        .collect();
    let share = evidence.share().factor() * 1e2;
    let _ = writeln!(text, "share of guesses right up to position 1, 2, …: {}", survival.join(" "));
    let _ =
        writeln!(text, "drafts seen: {}, in {share:.0} % of a sequence's steps\n", evidence.drafts);
    let (accepted, says) = write_up(evidence);
    let _ =
        writeln!(text, "the write-up's rule: {accepted} % of drafted tokens accepted, {says}\n");
    for now in evidence.present() {
        let gain = f64::from(now.permille) / 1e3;
        let (sequences, depth) = (now.sequences, now.depth);
        let _ = writeln!(
            text,
            "now: {sequences} sequences at once, depth {depth}: {gain:.2} times the speed without drafts"
        );
    }
    let _ = writeln!(text, "sequences    depth      speed-up");
    for line in table {
        let range = format!("{}-{}", line.first, line.last);
        let gain = f64::from(line.permille) / 1e3;
        let how = match line.contradicted {
            Some(depth) => {
                format!("   depth {depth} was predicted to gain, but measurements show a loss")
            }
            None if line.seen => String::new(),
            None => "   predicted: no batch of this size was measured".to_owned(),
        };
        let _ = writeln!(text, "{range:<12} {:>5}   {gain:>11.2}{how}", line.depth);
    }
    text.push('\n');
    let depth = deepest(table);
    if depth == 0 {
        text.push_str(
            "Guessing does not pay on this worker at any batch size seen: start it without \
             --speculative-config.\n",
        );
        return text;
    }
    let _ = writeln!(
        text,
        "Add to what the worker is started with as --speculative-config (vLLM 0.24 or newer):\n  \
         \"num_speculative_tokens\": {depth}, \"num_speculative_tokens_per_batch_size\": {}",
        ranges(table)
    );
    if table.iter().any(|line| line.depth == 0) {
        text.push_str(
            "Measure the sizes with depth 0: some releases lost throughput there (vLLM issue 49548); \
             depth 1 is the way round it.\n",
        );
    }
    text.push_str(
        "It holds until the worker is started again; vLLM cannot change it while it runs.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use overdraft_scheduler::speculate::StepSeen;

    use super::*;

    fn evidence(right: u64) -> Evidence {
        let steps = |sequences: u32| {
            let took = 20_000_000 + 200_000 * u64::from(sequences);
            let right = right + right / 2 + right / 3 + right / 4;
            let accepted_milli = sequences * u32::try_from(right).unwrap();
            let drafted = took + 4 * 200_000 * u64::from(sequences) + 4_000_000;
            [
                StepSeen { sequences, drafted: 0, accepted_milli: 0, took },
                StepSeen { sequences, drafted: 4 * sequences, accepted_milli, took: drafted },
            ]
        };
        let mut accepted = [0; DEPTH_MAX];
        accepted[..4].copy_from_slice(&[right, right / 2, right / 3, right / 4]);
        Evidence {
            sequence_steps: 1_000,
            drafts: 1_000,
            accepted,
            depth: 4,
            steps: [1, 4, 16, 64, 256].into_iter().flat_map(steps).collect(),
        }
    }

    #[test]
    fn the_table_is_vllms_and_says_when_it_holds() {
        let evidence = evidence(800);
        let table = evidence.table(128, 8).unwrap();
        let text = told(&evidence, &table);
        assert!(
            text.contains("guesses right up to position 1, 2, …: 0.80 0.40 0.27 0.20"),
            "{text}"
        );
        assert!(text.contains("\"num_speculative_tokens_per_batch_size\": [[1,"), "{text}");
        assert!(text.contains("cannot change it while it runs"), "{text}");
        assert!(text.contains("41 % of drafted tokens accepted, so depth 4"), "{text}");
        let json = as_json(&evidence, &table);
        assert_eq!(json["pays"], true);
        assert_eq!(json["num_speculative_tokens_per_batch_size"][0][0], 1);
        // Guesses that are right half of the time do not pay where many sequences share a step.
        let evidence = self::evidence(500);
        let table = evidence.table(128, 8).unwrap();
        let text = told(&evidence, &table);
        let last = table.last().unwrap();
        assert_eq!((last.last, last.depth), (128, 0), "{text}");
        assert!(text.contains("issue 49548"), "{text}");
    }

    #[test]
    fn what_does_not_pay_is_said_to_be_left_off() {
        let evidence = evidence(20);
        let table = evidence.table(64, 8).unwrap();
        let text = told(&evidence, &table);
        assert!(text.contains("start it without --speculative-config"), "{text}");
        assert!(!text.contains("num_speculative_tokens"), "{text}");
        assert_eq!(as_json(&evidence, &table)["pays"], false);
    }

    #[test]
    fn counters_are_read_under_vllms_names() {
        let page = b"vllm:num_requests_running{engine=\"0\"} 7\n\
            vllm:num_requests_waiting{engine=\"0\"} 1\n\
            vllm:generation_tokens_total{engine=\"0\"} 900\n\
            vllm:spec_decode_num_drafts_total{engine=\"0\"} 100\n\
            vllm:spec_decode_num_draft_tokens_total{engine=\"0\"} 300\n\
            vllm:spec_decode_num_accepted_tokens_total{engine=\"0\"} 120\n\
            vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",position=\"0\"} 80\n\
            vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",position=\"1\"} 40\n";
        let read = counts(&report(page).unwrap()).unwrap();
        assert_eq!((read.running, read.waiting, read.generated), (7, 1, 900));
        assert_eq!((read.drafts, read.drafted, read.accepted), (100, 300, 120));
        assert_eq!(read.accepted_at[..3], [80, 40, 0]);
    }
}
