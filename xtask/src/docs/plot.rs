//! Charts as SVG: lines or bars on two axes, readable on light and dark pages.

use std::fmt::Write as _;

const WIDTH: f64 = 740.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 268.0;

/// Colours that are told apart by those who see few (Okabe and Ito), in the order of the series.
const COLOURS: [&str; 5] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a8a8a"];

/// Colours of text and grid; a page in the dark has light text.
const STYLE: &str = "<style>text{fill:#1f2328}.grid{stroke:#d1d9e0}\
    @media (prefers-color-scheme:dark){text{fill:#d1d7e0}.grid{stroke:#3d444d}}</style>";

/// One direction of a chart.
pub(super) struct Axis {
    pub(super) label: &'static str,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<Tick>,
}

/// A place on an axis that has a name.
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) name: String,
}

/// A value at a place.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) across: f64,
    pub(super) up: f64,
}

/// Values of one kind.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<Point>,
    pub(super) mark: Mark,
}

/// How values are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Line,
    Bars,
    /// A line with a dot at each value, but for the last, which is a dot alone.
    Dots,
}

/// A chart with what it shows in a sentence, for those who cannot see it.
pub(super) struct Chart {
    pub(super) about: String,
    pub(super) across: Axis,
    pub(super) up: Axis,
    pub(super) series: Vec<Series>,
}

impl Axis {
    /// An axis from 0 with a tick at each step.
    pub(super) fn steps(label: &'static str, high: f64, step: f64, unit: &str) -> Self {
        let mut ticks = Vec::new();
        let mut at = 0.0;
        while at <= high {
            ticks.push(Tick { at, name: format!("{at}{unit}") });
            at += step;
        }
        Self { label, low: 0.0, high, ticks }
    }

    fn part(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

impl Chart {
    /// The chart as a document.
    pub(super) fn svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"{}\">{STYLE}\n",
            escaped(&self.about)
        );
        for tick in &self.up.ticks {
            let y = self.y(tick.at);
            put(
                &mut svg,
                format_args!(
                    "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
                ),
            );
            put(
                &mut svg,
                format_args!(
                    "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                    LEFT - 6.0,
                    y + 4.0,
                    tick.name
                ),
            );
        }
        for tick in &self.across.ticks {
            let (x, y) = (self.x(tick.at), BOTTOM + 16.0);
            put(
                &mut svg,
                format_args!(
                    "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>\n",
                    tick.name
                ),
            );
        }
        for (series, colour) in self.series.iter().zip(COLOURS) {
            self.draw(&mut svg, series, colour);
        }
        self.legend(&mut svg);
        let (middle, low) = (f64::midpoint(LEFT, RIGHT), BOTTOM + 38.0);
        put(
            &mut svg,
            format_args!(
                "<text x=\"{middle}\" y=\"{low}\" text-anchor=\"middle\">{}</text>",
                self.across.label
            ),
        );
        let middle = f64::midpoint(TOP, BOTTOM);
        put(
            &mut svg,
            format_args!(
                "<text transform=\"translate(14 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                self.up.label
            ),
        );
        svg.push_str("</svg>\n");
        svg
    }

    fn draw(&self, svg: &mut String, series: &Series, colour: &str) {
        let points = &series.points;
        if series.mark == Mark::Bars {
            for point in points {
                let (x, y) = (self.x(point.across) - 20.0, self.y(point.up));
                let height = BOTTOM - y;
                put(
                    svg,
                    format_args!(
                        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"40\" height=\"{height:.1}\" fill=\"{colour}\"/>\n"
                    ),
                );
            }
            return;
        }
        let line = if series.mark == Mark::Dots {
            points.split_last().map_or(&[][..], |(_, line)| line)
        } else {
            points
        };
        let joined: Vec<String> = line
            .iter()
            .map(|it| format!("{:.1},{:.1}", self.x(it.across), self.y(it.up)))
            .collect();
        put(
            svg,
            format_args!(
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\n",
                joined.join(" ")
            ),
        );
        if series.mark == Mark::Dots {
            for point in points {
                let (x, y) = (self.x(point.across), self.y(point.up));
                put(
                    svg,
                    format_args!(
                        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>\n"
                    ),
                );
            }
        }
    }

    fn legend(&self, svg: &mut String) {
        let mut y = TOP + 12.0;
        for (series, colour) in self.series.iter().zip(COLOURS) {
            let (x, box_y) = (RIGHT + 14.0, y - 9.0);
            put(
                svg,
                format_args!(
                    "<rect x=\"{x}\" y=\"{box_y}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>"
                ),
            );
            put(
                svg,
                format_args!(
                    "<text x=\"{}\" y=\"{y}\">{}</text>\n",
                    x + 16.0,
                    escaped(&series.name)
                ),
            );
            y += 20.0;
        }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * self.across.part(value)
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * self.up.part(value)
    }
}

fn put(svg: &mut String, part: std::fmt::Arguments<'_>) {
    svg.write_fmt(part).expect("a string takes all of it");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
