//! Generator parameters: name, meaning, range and default of each.

use std::fmt::Write as _;

use super::source::SourceError;

/// One parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Knob {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// All of them, in the order in which generators list their values.
pub(super) const KNOBS: [Knob; 20] = [
    knob("rate", "requests a second", 1e-6, 1e6),
    knob("common", "tokens at the front of every prompt", 0.0, 1e6),
    knob("groups", "how many prefixes there are", 1.0, 1e6),
    knob("prefix", "tokens of a group's prefix", 0.0, 1e6),
    knob("skew", "how much more often some groups come (0: all alike, 1: Zipf)", 0.0, 4.0),
    knob("question", "tokens that a turn adds", 1.0, 1e6),
    knob("output", "tokens of an answer", 1.0, 1e6),
    knob("spread", "deviation of the logarithm of lengths (0: all alike)", 0.0, 3.0),
    knob("turns", "turns of a session, on average where lengths spread", 1.0, 1e3),
    knob("think", "seconds between an answer and the next turn", 0.0, 1e5),
    knob("swing", "how many times the mean rate comes at the peaks (1: steady)", 1.0, 100.0),
    knob("period", "seconds from peak to peak", 1e-3, 1e6),
    knob("questions", "questions that a group is asked over and over (0: each is new)", 0.0, 1e6),
    knob("repeat", "share of sessions that ask what was asked before, word for word", 0.0, 1.0),
    knob("calls", "rounds of tool calls after each question, each a request (0: none)", 0.0, 1e3),
    knob("tool", "seconds that a tool takes", 0.0, 1e5),
    knob("result", "tokens of a tool's result", 1.0, 1e6),
    knob("parallel", "tools called at once in a round", 1.0, 64.0),
    knob("pauses", "deviation of the logarithm of pauses (0: exponential)", 0.0, 3.0),
    knob("window", "tokens of a prompt at which history is summed up (0: never)", 0.0, 4e6),
];

/// Of which only generators with tools have any.
const TOOL_KNOBS: [&str; 4] = ["calls", "tool", "result", "parallel"];

const fn knob(name: &'static str, meaning: &'static str, least: f64, most: f64) -> Knob {
    Knob { name, meaning, least, most }
}

/// Values of all knobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Values(pub(super) [f64; KNOBS.len()]);

impl Values {
    /// The value of the parameter `name`.
    pub(super) fn of(&self, name: &'static str) -> f64 {
        let place = KNOBS.iter().position(|knob| knob.name == name);
        place.and_then(|place| self.0.get(place)).copied().unwrap_or(0.0)
    }

    /// Those of a load without tools, pauses of which are exponential and whose history is kept.
    pub(super) const fn without_tools(values: [f64; 14]) -> Self {
        Self::with_tools(values, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0])
    }

    /// The first knobs, then the six of tools, pauses and history.
    pub(super) const fn with_tools(values: [f64; 14], tools: [f64; 6]) -> Self {
        let [rate, common, groups, prefix, skew, question, output, ..] = values;
        let [.., spread, turns, think, swing, period, questions, repeat] = values;
        let [calls, tool, result, parallel, pauses, window] = tools;
        Self([
            rate, common, groups, prefix, skew, question, output, spread, turns, think, swing,
            period, questions, repeat, calls, tool, result, parallel, pauses, window,
        ])
    }

    /// Reads `name=value,name=value` over the values that there are.
    pub(super) fn set(&mut self, text: &str) -> Result<(), SourceError> {
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(SourceError::Pair(pair.to_owned()));
            };
            let name = name.trim();
            let Some(place) = KNOBS.iter().position(|knob| knob.name == name) else {
                let known = KNOBS.iter().map(|knob| knob.name);
                return Err(SourceError::UnknownKnob {
                    name: name.to_owned(),
                    hint: super::source::similar(name, known),
                });
            };
            let Knob { name, least, most, meaning } = KNOBS[place];
            let parsed = value.trim().parse().ok();
            let Some(value) = parsed.filter(|value| (least..=most).contains(value)) else {
                let value = value.trim().to_owned();
                return Err(SourceError::Value { name, value, least, most, meaning });
            };
            self.0[place] = value;
        }
        Ok(())
    }
}

/// `rate=8,common=0,…`; what only tools have is left out where none are called.
pub(super) fn told(values: &Values) -> String {
    let mut text = String::new();
    let calls_tools = 0.0 < values.of("calls");
    for (knob, value) in KNOBS.iter().zip(values.0) {
        if !calls_tools && TOOL_KNOBS.contains(&knob.name) {
            continue;
        }
        let comma = if text.is_empty() { "" } else { "," };
        let _written = write!(text, "{comma}{}={value}", knob.name);
    }
    text
}
