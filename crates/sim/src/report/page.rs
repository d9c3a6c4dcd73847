//! HTML report: one self-contained page with tables and plots.

use std::fmt::Write as _;

use super::plot::{Plot, Scale, escaped};
use super::summary::{FIGURES, quantile};
use super::{Fate, Origin, Report, Run, Sample, breakdown, table};
use crate::float_conversion::float;

/// Points of a curve of shares.
const SHARES: u32 = 200;

const STYLE: &str = "\
:root{--fg:#1b1f24;--bg:#fff;--soft:#667;--line:#dde}\
@media(prefers-color-scheme:dark){:root{--fg:#e6e8eb;--bg:#14171a;--soft:#9aa;--line:#333a40}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:1200px;\
margin:2rem auto;padding:0 1rem}h1{font-size:1.4rem}table{border-collapse:collapse;margin:1rem 0}\
td,th{padding:.2rem .8rem;border-bottom:1px solid var(--line);text-align:right;\
font-variant-numeric:tabular-nums}td:first-child,th:first-child{text-align:left}\
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1.5rem}\
figure{margin:0}figcaption{font-weight:600}svg{width:100%;height:auto}\
svg text{font-size:11px;fill:var(--soft)}.grid{stroke:var(--line)}\
polyline{fill:none;stroke-width:1.8;stroke-linejoin:round}\
.legend span{margin-right:1rem;white-space:nowrap}.legend i{display:inline-block;width:.8rem;\
height:.8rem;border-radius:2px;margin-right:.3rem;vertical-align:-1px}\
.simulated{background:#b45309;color:#fff;padding:.4rem .8rem;border-radius:4px}\
.soft{color:var(--soft)}";

pub(super) fn html(report: &Report) -> String {
    let mut page = opened(&report.title);
    if report.origin == Origin::Simulated {
        page.push_str(
            "<p class=\"simulated\">Simulated: all figures are those of a model. Nothing was \
             measured.</p>\n",
        );
    }
    figures(&mut page, report);
    for label in report.labels() {
        let runs: Vec<&Run> = report.labelled(label).collect();
        breakdown::html(&mut page, label, &runs, &report.objectives);
    }
    draw(&mut page, &plots(report));
    settings(&mut page, report);
    page.push_str("</body></html>\n");
    page
}

/// One page of pictures under a title and a sentence about them, which needs nothing else.
pub fn page_of_plots(title: &str, sentence: &str, plots: &[Plot]) -> String {
    let mut page = opened(title);
    let _written = writeln!(page, "<p class=\"soft\">{}</p>", escaped(sentence));
    draw(&mut page, plots);
    page.push_str("</body></html>\n");
    page
}

/// The same with a table that was laid out for a terminal.
pub fn page_of_table(title: &str, sentence: &str, table: &str, plots: &[Plot]) -> String {
    let mut page = opened(title);
    let _written = writeln!(page, "<p class=\"soft\">{}</p>", escaped(sentence));
    let _written = writeln!(page, "<pre>{}</pre>", escaped(table));
    draw(&mut page, plots);
    page.push_str("</body></html>\n");
    page
}

fn opened(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\n\
         <h1>{0}</h1>\n",
        escaped(title)
    )
}

fn draw(page: &mut String, plots: &[Plot]) {
    page.push_str("<div class=\"plots\">\n");
    for plot in plots {
        page.push_str(&plot.svg());
        page.push('\n');
    }
    page.push_str("</div>\n");
}

fn figures(page: &mut String, report: &Report) {
    page.push_str("<table><tr><th></th>");
    let labels: Vec<&str> = report.labels().collect();
    for label in &labels {
        let _written = write!(page, "<th>{}</th>", escaped(label));
    }
    page.push_str("</tr>\n");
    let columns: Vec<_> = labels.iter().map(|label| report.estimates(label)).collect();
    for (place, figure) in FIGURES.iter().enumerate() {
        if columns.iter().all(|column| figure.leaves_out(&column[place].to_string())) {
            continue;
        }
        let _written = write!(page, "<tr><td>{}</td>", figure.title);
        for column in &columns {
            let _written = write!(page, "<td>{}</td>", column[place]);
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
    if let Some(means) = table::means(report) {
        let _written = writeln!(page, "<p class=\"soft\">Means over {}.</p>", escaped(&means));
    }
    for note in table::notes(report) {
        let _written = writeln!(page, "<p>{}</p>", escaped(&note));
    }
    if !report.objectives.is_empty() {
        let _written = writeln!(
            page,
            "<p class=\"soft\">Good is what meets {} (milliseconds), counted over all offered \
             requests, refused ones included.</p>",
            report.objectives
        );
    }
    page.push_str("<p class=\"soft\">Times count from when a request was meant to be sent.</p>\n");
}

fn settings(page: &mut String, report: &Report) {
    page.push_str("<h2>Settings</h2>\n<table>");
    for (name, value) in &report.settings {
        let (name, value) = (escaped(name), escaped(value));
        let _written = writeln!(page, "<tr><td>{name}</td><td>{value}</td></tr>");
    }
    page.push_str("</table>\n");
}

fn plots(report: &Report) -> Vec<Plot> {
    let ms = |micros: u64| float(micros) / 1e3;
    let ttft = |sample: &Sample| sample.ttft().map(|time| ms(time.get()));
    let tpot = |sample: &Sample| sample.tpot_us().map(|time| time / 1e3);
    let latency = |sample: &Sample| Some(ms(sample.latency().get()));
    let mut plots = vec![
        shares(report, "Time to first token", &ttft),
        shares(report, "Time per output token", &tpot),
        shares(report, "Latency to the end", &latency),
        density(report, "Distribution of time to first token", &ttft),
        density(report, "Distribution of time per output token", &tpot),
        over_time(report, "Output throughput", "tokens a second", |run| {
            run.recorder.tokens.rates()
        }),
    ];
    if 2 < report.runs.len() {
        plots.push(throughput_against_latency(report));
    }
    let first = report.runs.first().map(|run| run.series.as_slice()).unwrap_or_default();
    for (place, series) in first.iter().enumerate() {
        let points = |run: &Run| {
            run.series.get(place).map(|series| series.points.clone()).unwrap_or_default()
        };
        plots.push(over_time(report, series.name, series.name, points));
    }
    plots
}

/// Of all runs of a label together, sorted.
fn pooled(report: &Report, label: &str, of: &dyn Fn(&Sample) -> Option<f64>) -> Vec<f64> {
    let completed = |run: &Run| -> Vec<f64> {
        let samples = run.recorder.samples.iter();
        samples.filter(|sample| sample.fate == Fate::Completed).filter_map(of).collect()
    };
    let mut values: Vec<f64> = report.labelled(label).flat_map(completed).collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Which share of requests took no longer.
fn shares(report: &Report, title: &str, of: &dyn Fn(&Sample) -> Option<f64>) -> Plot {
    let line = |label: &str| {
        let values = pooled(report, label, of);
        let point = |step: u32| {
            let share = f64::from(step) / f64::from(SHARES);
            (quantile(&values, share), share * 100.0)
        };
        (label.to_owned(), (0..=SHARES).map(point).collect())
    };
    Plot {
        title: format!("{title}: share of requests within"),
        x: ("milliseconds", Scale::Logarithmic),
        y: "% of completed requests".to_owned(),
        lines: report.labels().map(line).collect(),
    }
}

/// How often each duration comes, in steps of equal factors.
fn density(report: &Report, title: &str, of: &dyn Fn(&Sample) -> Option<f64>) -> Plot {
    /// Steps to a factor of ten.
    const STEPS: f64 = 12.0;
    let line = |label: &str| {
        let values = pooled(report, label, of);
        let count = float(crate::float_conversion::length(values.len())).max(1.0);
        let step = |value: f64| (value.max(1e-3).log10() * STEPS).floor();
        let mut points: Vec<(f64, f64)> = Vec::new();
        for group in values.chunk_by(|one, other| step(*one).total_cmp(&step(*other)).is_eq()) {
            let middle = 10_f64.powf((step(group[0]) + 0.5) / STEPS);
            let share = float(crate::float_conversion::length(group.len())) / count;
            points.push((middle, share * 100.0));
        }
        (label.to_owned(), points)
    };
    Plot {
        title: title.to_owned(),
        x: ("milliseconds", Scale::Logarithmic),
        y: "% of completed requests".to_owned(),
        lines: report.labels().map(line).collect(),
    }
}

/// What was seen in the first run of each label.
fn over_time(
    report: &Report,
    title: &str,
    unit: &str,
    points: impl Fn(&Run) -> Vec<(f64, f64)>,
) -> Plot {
    let line = |label: &str| {
        let first = report.labelled(label).next();
        (label.to_owned(), first.map(&points).unwrap_or_default())
    };
    Plot {
        title: format!("{title} over time"),
        x: ("seconds", Scale::Linear),
        y: unit.to_owned(),
        lines: report.labels().map(line).collect(),
    }
}

fn throughput_against_latency(report: &Report) -> Plot {
    let line = |label: &str| {
        let point = |run: &Run| {
            let summary = run.summary(&report.objectives);
            (summary.ttft.p95, summary.output_throughput())
        };
        let mut points: Vec<(f64, f64)> = report.labelled(label).map(point).collect();
        points.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        (label.to_owned(), points)
    };
    Plot {
        title: "Throughput against latency, a mark for each run".to_owned(),
        x: ("P95 time to first token, milliseconds", Scale::Logarithmic),
        y: "output tokens a second".to_owned(),
        lines: report.labels().map(line).collect(),
    }
}
