//! Simulation report: latency percentiles, goodput and cache hits of one or several runs.
//!
//! A [`Recorder`] collects one [`Sample`] per request; a [`Run`] is all samples under a label; a
//! [`Report`] compares runs: for the terminal in the words of vLLM's benchmark, as JSON under the
//! same names, and as one self-contained HTML page. Simulated figures are marked as such
//! everywhere.
//!
//! **Invariant:** times count from when a request was meant to be sent, so a client that falls
//! behind hides nothing (no coordinated omission); goodput counts over all offered requests,
//! refused ones included.

mod breakdown;
mod cause;
mod comparison;
mod counts;
mod groups;
mod histogram;
mod missed;
mod objectives;
mod page;
mod plot;
mod recorder;
mod requests;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod timeline;

use std::io::{self, Write};

use serde_json::{Value, json};

pub use self::cause::{Cause, Causes};
pub use self::counts::Counts;
pub use self::groups::{Belongs, Groups, PoolTold, WorkerTold};
pub use self::missed::Missed;
pub use self::objectives::{ObjectiveError, Objectives};
pub use self::page::{page_of_plots, page_of_table};
pub use self::plot::{Plot, Scale};
pub use self::recorder::{Fate, Recorder, SAMPLES_MAX, Sample};
use self::summary::FIGURES;
pub use self::summary::{Spread, Summary};
pub use self::timeline::Series;
use crate::float_conversion;

/// How figures came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Requests were sent to an endpoint, and a clock was read.
    Measured,
    /// Nothing was sent: all of it is the result of a model.
    Simulated,
}

/// One workload under one policy with one seed.
#[derive(Clone, Debug)]
pub struct Run {
    /// What sets it apart: the policy, the endpoint. Runs of one label are seeds of the same.
    pub label: String,
    /// What decided its draws.
    pub seed: u64,
    /// What happened.
    pub recorder: Recorder,
    /// What else was observed over time, such as the use of caches.
    pub series: Vec<Series>,
    /// Dollars for all of it, where somebody reckons them.
    pub cost: Option<f64>,
    /// What the fleet counted, where it was simulated.
    pub counts: Option<Counts>,
    /// What its requests belong to.
    pub groups: Groups,
}

/// Runs side by side.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was done, in a line.
    pub title: String,
    /// How figures came about.
    pub origin: Origin,
    /// What was set, as names and values.
    pub settings: Vec<(String, String)>,
    /// What a request has to meet to be good.
    pub objectives: Objectives,
    /// The runs; those of one label follow each other.
    pub runs: Vec<Run>,
}

/// A figure over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of the interval that holds the mean with 95 % confidence; none for a single seed, or where the seed
    /// changes nothing.
    pub half: Option<f64>,
}

impl Report {
    /// All that was done, for a terminal.
    pub fn text(&self) -> String {
        table::text(self)
    }

    /// All of it as one HTML page.
    pub fn html(&self) -> String {
        page::html(self)
    }

    /// All figures, under the names of vLLM's benchmark.
    pub fn json(&self) -> Value {
        let runs = self.runs.iter().map(|run| {
            let mut told = run.summary(&self.objectives).json();
            told.insert("label".to_owned(), run.label.clone().into());
            told.insert("seed".to_owned(), run.seed.into());
            if self.origin == Origin::Simulated {
                told.insert("digest".to_owned(), run.digest().into());
            }
            told.extend(breakdown::json_of(run, &self.objectives));
            told.insert("series".to_owned(), run.series_json());
            Value::Object(told)
        });
        let settings =
            self.settings.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        json!({
            "title": self.title,
            "simulated": self.origin == Origin::Simulated,
            "settings": settings.collect::<serde_json::Map<_, _>>(),
            "goodput_objectives": self.objectives.to_string(),
            "runs": runs.collect::<Vec<_>>(),
            "estimates": self.estimates_json(),
            "comparisons": comparison::json_of(self),
        })
    }

    /// Writes a line for each request, as comma-separated values under a header.
    ///
    /// # Errors
    /// What the writer's errors are.
    pub fn write_requests(&self, to: &mut dyn Write) -> io::Result<()> {
        requests::write(self, to)
    }

    fn estimates_json(&self) -> Value {
        let of = |label: &str| -> Value {
            let figures = self.estimates(label);
            let told = FIGURES.iter().zip(figures).map(|(figure, estimate)| {
                let value = json!({ "mean": estimate.mean, "ci95": estimate.half });
                (figure.key.to_owned(), value)
            });
            Value::Object(told.collect())
        };
        self.labels().map(|label| (label.to_owned(), of(label))).collect()
    }

    /// The labels, each once.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &str> {
        let first = |place: usize| {
            self.runs[..place].iter().all(|before| before.label != self.runs[place].label)
        };
        (0..self.runs.len())
            .filter(move |&place| first(place))
            .map(|place| &*self.runs[place].label)
    }

    pub(crate) fn labelled(&self, label: &str) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.label == label)
    }

    /// All figures of a label, in the order of [`FIGURES`].
    pub(crate) fn estimates(&self, label: &str) -> Vec<Estimate> {
        let summaries: Vec<Summary> =
            self.labelled(label).map(|run| run.summary(&self.objectives)).collect();
        let is_one = self.is_one_history(label);
        let of = |figure: &summary::Figure| {
            let values = summaries.iter().map(figure.value);
            // A seed without the figure is no zero among the others.
            let estimate = Estimate::of(&values.filter(|one| one.is_finite()).collect::<Vec<_>>());
            Estimate { half: estimate.half.filter(|_| !is_one), ..estimate }
        };
        FIGURES.iter().map(of).collect()
    }

    /// Whether a label's seeds are all one history, as of a trace at its own times: no spread between them says
    /// how sure a figure is.
    pub(crate) fn is_one_history(&self, label: &str) -> bool {
        let digests: Vec<u64> = self.labelled(label).map(|run| run.recorder.digest()).collect();
        1 < digests.len() && digests.iter().all(|digest| Some(digest) == digests.first())
    }
}

impl Run {
    /// What was recorded, and nothing else.
    pub const fn new(label: String, seed: u64, recorder: Recorder) -> Self {
        let groups = Groups {
            pools: Vec::new(),
            tenants: Vec::new(),
            workers: Vec::new(),
            stages: Vec::new(),
        };
        Self { label, seed, recorder, series: Vec::new(), cost: None, counts: None, groups }
    }

    /// The figures.
    pub fn summary(&self, objectives: &Objectives) -> Summary {
        let told = Summary::of(&self.recorder, objectives);
        Summary { cost: self.cost, counts: self.counts, ..told }
    }

    /// A number that is equal only for equal histories, in hexadecimal.
    pub fn digest(&self) -> String {
        format!("{:016x}", self.recorder.digest())
    }

    /// What was seen over time, as lists of seconds and values.
    fn series_json(&self) -> Value {
        let rates = timeline::thinned(&self.recorder.tokens.rates());
        let seen =
            self.series.iter().map(|series| (series.key.to_owned(), json!(series.thinned())));
        std::iter::once(("output_tokens_per_s".to_owned(), json!(rates))).chain(seen).collect()
    }
}

impl Estimate {
    /// Of one value a seed, by Student's distribution; no number where there is no value.
    pub fn of(values: &[f64]) -> Self {
        let count = float_conversion::float(float_conversion::length(values.len()));
        let mean = values.iter().sum::<f64>() / count;
        if values.len() < 2 {
            return Self { mean, half: None };
        }
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / (count - 1.0) / count).sqrt();
        Self { mean, half: Some(student(values.len() - 1) * error) }
    }
}

/// The quantile of Student's distribution at 97.5 %, by degrees of freedom: 1 or more.
fn student(freedom: usize) -> f64 {
    /// For few of them.
    const FEW: [f64; 12] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179];
    /// The same quantile of the normal distribution.
    const NORMAL: f64 = 1.959_964;
    if let Some(quantile) = freedom.checked_sub(1).and_then(|place| FEW.get(place)) {
        return *quantile;
    }
    // Fisher and Cornish's expansion: off by less than a thousandth from here on.
    let (z, freedom) = (NORMAL, float_conversion::float(float_conversion::length(freedom)));
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    z + first / freedom + second / freedom.powi(2)
}
