//! The curves of S1 as a picture.

use std::fmt::Write as _;

use overdraft_claims::as_float;

use super::curve::Curve;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 350.0;

/// Accuracy over the share that never touches the target, one line a rule.
pub(crate) fn svg(curve: &Curve) -> String {
    let random: Vec<f64> = (0..=100).map(|percent| curve.random(f64::from(percent))).collect();
    let lines: [(&str, &str, &[f64]); 4] = [
        ("oracle", "#777777", &curve.oracle),
        ("gate", "#0072b2", &curve.gate),
        ("mean log probability", "#d55e00", &curve.mean_logprob),
        ("random mixing", "#009e73", &random),
    ];
    let all = || lines.iter().flat_map(|line| line.2.iter().copied());
    let low = (all().fold(f64::INFINITY, f64::min) / 5.0).floor() * 5.0;
    let high = (all().fold(f64::NEG_INFINITY, f64::max) / 5.0).ceil() * 5.0;
    let across = |percent: f64| LEFT + (RIGHT - LEFT) * percent / 100.0;
    let up = |accuracy: f64| BOTTOM - (BOTTOM - TOP) * (accuracy - low) / (high - low).max(1.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\"><rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    );
    for percent in (0..=100).step_by(20).map(f64::from) {
        let _written = write!(
            svg,
            "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\" stroke=\"#ddd\"/>\
             <text x=\"{0:.1}\" y=\"{1}\" text-anchor=\"middle\">{percent} %</text>",
            across(percent),
            BOTTOM + 16.0
        );
    }
    let mut accuracy = low;
    while accuracy <= high {
        let _written = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{accuracy} %</text>",
            up(accuracy),
            LEFT - 6.0,
            up(accuracy) + 4.0
        );
        accuracy += 5.0;
    }
    for (place, (name, colour, values)) in lines.into_iter().enumerate() {
        let points = values.iter().enumerate().map(|(percent, accuracy)| {
            format!("{:.1},{:.1}", across(as_float(percent)), up(*accuracy))
        });
        let points = points.collect::<Vec<_>>().join(" ");
        let _written = write!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{points}\"/>\
             <text x=\"{}\" y=\"{}\" fill=\"{colour}\">{name}</text>",
            LEFT + 12.0,
            BOTTOM - 66.0 + 16.0 * as_float(place)
        );
    }
    let _written = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">requests that never touch the target</text>\
         <text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">right answers</text></svg>",
        f64::midpoint(LEFT, RIGHT),
        BOTTOM + 38.0,
        f64::midpoint(TOP, BOTTOM)
    );
    svg
}
