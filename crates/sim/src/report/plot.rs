//! SVG line plots.

use std::fmt::Write as _;

use crate::float_conversion::{float, length};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
/// Left, right, top, bottom.
const MARGIN: (f64, f64, f64, f64) = (64.0, 14.0, 14.0, 44.0);
/// Colours that also those tell apart who see few of them (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#777777"];
/// Marks on an axis, about.
const TICKS: f64 = 5.0;

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// By differences.
    Linear,
    /// By factors; what is not above zero is left out.
    Logarithmic,
}

/// Lines, and what they mean.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// What stands on the axis to the right, and how it is divided.
    pub x: (&'static str, Scale),
    /// What stands on the axis upwards, from zero.
    pub y: String,
    /// Labels and points.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// From values to places of the picture.
#[derive(Clone, Copy)]
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            low = low.min(value);
            high = high.max(value);
        }
        match scale {
            Scale::Linear => {
                low = low.min(0.0);
                if high <= low {
                    high = low + 1.0;
                }
            }
            Scale::Logarithmic => {
                if !low.is_finite() {
                    (low, high) = (1.0, 10.0);
                }
                if high < low * 2.0 {
                    (low, high) = (low / 1.5, low * 3.0);
                }
            }
        }
        Self { scale, low, high, from, to }
    }

    fn place(self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share * (self.to - self.from)
    }

    fn ticks(self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = round_step((self.high - self.low) / TICKS);
                let first = (self.low / step).ceil();
                let count = ((self.high - first * step) / step).floor().max(0.0);
                (0..=crate::float_conversion::whole(count))
                    .map(|n| (first + float(n)) * step)
                    .collect()
            }
            Scale::Logarithmic => {
                /// More than can be told apart.
                const DECADES_MAX: i32 = 15;
                let decades = (-DECADES_MAX..=DECADES_MAX).map(|power| 10_f64.powi(power));
                let wide = 1e3 < self.high / self.low;
                let steps: &[f64] = if wide { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let all = decades.flat_map(|decade| steps.iter().map(move |step| decade * step));
                all.filter(|tick| (self.low..=self.high).contains(tick)).collect()
            }
        }
    }
}

/// One, two or five times a power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| step <= factor * power);
    factor.unwrap_or(10.0) * power
}

impl Plot {
    pub(super) fn svg(&self) -> String {
        let (left, right, top, bottom) = MARGIN;
        let kept: Vec<(&str, Vec<(f64, f64)>)> =
            self.lines.iter().map(|(label, points)| (label.as_str(), self.shown(points))).collect();
        let all = || kept.iter().flat_map(|(_, points)| points.iter());
        let x = Axis::new(self.x.1, all().map(|point| point.0), left, WIDTH - right);
        let y = Axis::new(Scale::Linear, all().map(|point| point.1), HEIGHT - bottom, top);
        let mut svg = format!(
            "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{}\">",
            escaped(&self.title),
            escaped(&self.title)
        );
        axes(&mut svg, x, y);
        for ((_, points), colour) in kept.iter().zip(COLOURS.iter().cycle()) {
            line(&mut svg, points, colour, x, y);
        }
        let middle = f64::midpoint(left, WIDTH - right);
        let _written = write!(
            svg,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(13 {}) rotate(-90)\" text-anchor=\"middle\">{}</text></svg>",
            HEIGHT - 8.0,
            escaped(self.x.0),
            f64::midpoint(top, HEIGHT - bottom),
            escaped(&self.y)
        );
        legend(&mut svg, &kept);
        svg.push_str("</figure>");
        svg
    }

    fn shown(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let positive = self.x.1 == Scale::Logarithmic;
        let drawn = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite() && (!positive || 0.0 < *x);
        points.iter().copied().filter(drawn).collect()
    }
}

fn axes(svg: &mut String, x: Axis, y: Axis) {
    for tick in x.ticks() {
        let place = x.place(tick);
        let _written = write!(
            svg,
            "<line class=\"grid\" x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
             <text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            y.from,
            y.to,
            y.from + 15.0,
            short(tick)
        );
    }
    for tick in y.ticks() {
        let place = y.place(tick);
        let _written = write!(
            svg,
            "<line class=\"grid\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{place:.1}\" y2=\"{place:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            x.from,
            x.to,
            x.from - 6.0,
            place + 4.0,
            short(tick)
        );
    }
}

/// A line of at most so many points is also a row of marks.
const MARKED_MAX: u64 = 12;

fn line(svg: &mut String, points: &[(f64, f64)], colour: &str, x: Axis, y: Axis) {
    let _written = write!(svg, "<polyline stroke=\"{colour}\" points=\"");
    for point in points {
        let _written = write!(svg, "{:.1},{:.1} ", x.place(point.0), y.place(point.1));
    }
    svg.push_str("\"/>");
    if length(points.len()) <= MARKED_MAX {
        for point in points {
            let (x, y) = (x.place(point.0), y.place(point.1));
            let _written =
                write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
    }
}

fn legend(svg: &mut String, lines: &[(&str, Vec<(f64, f64)>)]) {
    svg.push_str("<div class=\"legend\">");
    for ((label, _), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let _written =
            write!(svg, "<span><i style=\"background:{colour}\"></i>{}</span>", escaped(label));
    }
    svg.push_str("</div>");
}

/// A number in few characters.
fn short(value: f64) -> String {
    let size = value.abs();
    let told = |value: f64, unit: &str| {
        let text = format!("{value:.2}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    if 1e6 <= size {
        told(value / 1e6, "M")
    } else if 1e4 <= size {
        told(value / 1e3, "k")
    } else if size != 0.0 && size < 0.01 {
        format!("{value:.0e}")
    } else {
        told(value, "")
    }
}

/// Text that is no markup.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}
