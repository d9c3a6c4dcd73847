//! Workload generators: tenants, chats, documents, agents, coding sessions, unshared prompts, bursts.
//!
//! All kinds are one generator with other defaults: a prompt is what all share, then what a group shares,
//! then the turns so far, then what is new: a question, or the results of tools. The defaults follow the
//! loads that routing results are published for; those of coding sessions follow recorded ones.

use std::collections::VecDeque;

use overdraft_units::{Instant, Micros, Tokens};

use super::error::WorkloadError;
use super::knobs::Values;
use super::{
    PROMPT_TOKENS_MAX, Piece, Sender, Session, Stage, TURNS_MAX, Turn, Voice, named, seconds,
};
use crate::float_conversion::{float, length, whole, whole32};
use crate::random::{Draws, Ranks};

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Preset {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) values: Values,
}

/// All kinds. Values: rate, common, groups, prefix, skew, question, output, spread, turns, think, swing,
/// period, questions, repeat; with tools: calls, tool, result, parallel, pauses, window.
pub(super) const PRESETS: [Preset; 7] = [
    Preset {
        name: "tenants",
        meaning: "applications that each have a long system prompt and many users",
        values: Values::without_tools([
            8.0, 0.0, 64.0, 6_000.0, 0.0, 400.0, 150.0, 0.0, 1.0, 0.0, 1.0, 60.0, 0.0, 0.0,
        ]),
    },
    Preset {
        name: "chat",
        meaning: "conversations of several turns under one system prompt",
        values: Values::without_tools([
            8.0, 200.0, 1.0, 0.0, 0.0, 120.0, 200.0, 0.7, 5.0, 10.0, 1.0, 60.0, 0.0, 0.0,
        ]),
    },
    Preset {
        name: "documents",
        meaning: "questions about long documents, some of them asked about more often",
        values: Values::without_tools([
            8.0, 100.0, 120.0, 10_000.0, 0.6, 200.0, 60.0, 0.3, 1.0, 0.0, 1.0, 60.0, 0.0, 0.0,
        ]),
    },
    Preset {
        name: "agents",
        meaning: "agents of a few kinds: long tool descriptions, many short steps",
        values: Values::without_tools([
            4.0, 0.0, 4.0, 14_000.0, 0.0, 700.0, 220.0, 0.8, 30.0, 2.0, 1.0, 60.0, 0.0, 0.0,
        ]),
    },
    Preset {
        name: "coding",
        meaning: "coding agents: rounds of tool calls, a person who thinks between them, a history that grows",
        values: Values::with_tools(
            [1.0, 0.0, 4.0, 14_300.0, 0.0, 2_000.0, 480.0, 1.2, 10.0, 160.0, 1.0, 60.0, 0.0, 0.0],
            [3.3, 27.0, 1_600.0, 1.0, 1.2, 100_000.0],
        ),
    },
    Preset {
        name: "unique",
        meaning: "prompts that have nothing in common: the control",
        values: Values::without_tools([
            8.0, 0.0, 1.0, 0.0, 0.0, 1_000.0, 200.0, 0.3, 1.0, 0.0, 1.0, 60.0, 0.0, 0.0,
        ]),
    },
    Preset {
        name: "bursts",
        meaning: "the same, in waves",
        values: Values::without_tools([
            8.0, 0.0, 1.0, 0.0, 0.0, 1_000.0, 200.0, 0.3, 1.0, 0.0, 4.0, 60.0, 0.0, 0.0,
        ]),
    },
];

/// Sessions that may be asked again: beyond them, the one that was asked first is forgotten.
const REPEATABLE_MAX: usize = 4_096;

/// Tools called at once at most.
const PARALLEL_MAX: u64 = 64;

/// A summary's length, as a share of the longest prompt that is kept.
const SUMMARY_SHARE: f64 = 0.05;

/// What a turn adds to its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// A person asks.
    Question,
    /// So many tools have been called at once and tell their results.
    Results(u64),
}

/// Sessions without end.
#[derive(Debug)]
pub(super) struct Generator {
    values: Values,
    draws: Draws,
    ranks: Ranks,
    seed: u64,
    at: Instant,
    count: u64,
    /// What was asked, where it may be asked again.
    asked: VecDeque<Session>,
}

impl Generator {
    pub(super) fn new(values: Values, seed: u64) -> Self {
        let ranks = Ranks::new(whole(values.of("groups")), values.of("skew"));
        let draws = Draws::new(seed, 0x6765_6e65);
        Self { values, draws, ranks, seed, at: Instant::ORIGIN, count: 0, asked: VecDeque::new() }
    }

    /// A length around a mean.
    fn length(&mut self, mean: f64) -> Tokens {
        let drawn = self.draws.lognormal(mean, self.values.of("spread"));
        Tokens::new(whole32(drawn.clamp(1.0, float(PROMPT_TOKENS_MAX))).max(1))
    }

    /// When a session with this many turns comes: requests keep the rate, however many turns there are.
    fn arrive(&mut self, turns: u64) -> Instant {
        let (rate, swing) = (self.values.of("rate"), self.values.of("swing"));
        let mut left = seconds(self.draws.exponential(float(turns) / rate));
        if swing <= 1.0 {
            self.at = self.at + left;
            return self.at;
        }
        // All of it comes in the first part of each period, the faster the shorter that is.
        let period = seconds(self.values.of("period")).get().max(1);
        let wave = whole(float(period) / swing).clamp(1, period);
        left = Micros::new(whole(float(left.get()) / swing));
        let into = self.at.since(Instant::ORIGIN).get();
        let (periods, within) = (into / period, (into % period).min(wave));
        let busy = periods * wave + within + left.get();
        self.at = Instant::ORIGIN + Micros::new(busy / wave * period + busy % wave);
        self.at
    }

    fn session(&mut self) -> Session {
        let turns = self.turns();
        let (name, at) = (self.count, self.arrive(length(turns.len())));
        self.count += 1;
        let group = self.ranks.draw(&mut self.draws);
        let mut history = self.front(group);
        let again = self.known_question();
        let mut asked = Vec::new();
        for (number, says) in (0..).zip(turns) {
            let added = self.added(says);
            let output = self.length(self.values.of("output"));
            let think = if number == 0 { Micros::ZERO } else { self.pause(says) };
            let content = match again {
                None => named(&[self.seed, 1, name, number]),
                // The same whatever the seed, as groups are.
                Some(known) => named(&[5, group, known, number]),
            };
            if 0 < number && self.is_full(&history, added) {
                history = self.front(group);
                history.push(self.summary(name, number));
            }
            history.push(Piece::said(content, added));
            let content = named(&[self.seed, 2, name, number]);
            let answer = Piece { content, tokens: output, voice: Voice::Assistant };
            let turn = Turn { think, prompt: history.clone(), answer };
            let length = u64::from(turn.prompt_tokens().get()) + u64::from(output.get());
            if 0 < number && PROMPT_TOKENS_MAX < length {
                break;
            }
            asked.push(turn);
            history.push(answer);
        }
        let (sender, stage) = (Sender::default(), Stage::default());
        let session = Session { at, name, sender, stage, turns: asked };
        if 0.0 < self.values.of("repeat") {
            if self.asked.len() == REPEATABLE_MAX {
                self.asked.pop_front();
            }
            self.asked.push_back(session.clone());
        }
        session
    }

    /// What the turns of a session say: questions, and after each the results of as many rounds of tools.
    fn turns(&mut self) -> Vec<Says> {
        let questions = self.counted(self.values.of("turns"), TURNS_MAX);
        let (calls, parallel) = (self.values.of("calls"), self.values.of("parallel"));
        let mut turns = Vec::new();
        for _ in 0..questions {
            turns.push(Says::Question);
            if calls <= 0.0 {
                continue;
            }
            // A round less than the rounds and the question together, which are one at least.
            for _ in 1..self.counted(calls + 1.0, TURNS_MAX) {
                turns.push(Says::Results(self.counted(parallel, PARALLEL_MAX)));
            }
        }
        turns.truncate(usize::try_from(TURNS_MAX).unwrap_or(usize::MAX));
        turns
    }

    /// A count around a mean, one at least.
    fn counted(&mut self, mean: f64, most: u64) -> u64 {
        if self.values.of("spread") > 0.0 {
            self.draws.geometric(mean, most)
        } else {
            whole(mean).min(most)
        }
    }

    /// Tokens that a turn adds.
    fn added(&mut self, says: Says) -> Tokens {
        match says {
            Says::Question => self.length(self.values.of("question")),
            Says::Results(tools) => {
                let result = self.values.of("result");
                let tokens = (0..tools).fold(Tokens::ZERO, |sum, _| sum + self.length(result));
                tokens.min(Tokens::new(whole32(float(PROMPT_TOKENS_MAX))))
            }
        }
    }

    /// How long after the last answer it is said: who asks thinks, and tools that run at once are waited for.
    fn pause(&mut self, says: Says) -> Micros {
        let (mean, times) = match says {
            Says::Question => (self.values.of("think"), 1),
            Says::Results(tools) => (self.values.of("tool"), tools),
        };
        let longest = (0..times).map(|_| self.pause_of(mean)).fold(0.0, f64::max);
        seconds(longest)
    }

    /// Seconds around a mean.
    fn pause_of(&mut self, mean: f64) -> f64 {
        let deviation = self.values.of("pauses");
        if deviation > 0.0 {
            self.draws.lognormal(mean, deviation)
        } else {
            self.draws.exponential(mean)
        }
    }

    /// Whether a prompt would be longer than is kept.
    fn is_full(&self, history: &[Piece], added: Tokens) -> bool {
        let window = self.values.of("window");
        let tokens: u64 = history.iter().map(|piece| u64::from(piece.tokens.get())).sum();
        0.0 < window && window < float(tokens + u64::from(added.get()))
    }

    /// What stands for a history that was too long: the model's own words.
    fn summary(&self, name: u64, number: u64) -> Piece {
        let tokens = whole32(self.values.of("window") * SUMMARY_SHARE).max(1);
        let content = named(&[self.seed, 6, name, number]);
        Piece { content, tokens: Tokens::new(tokens), voice: Voice::Assistant }
    }

    /// A session that asks what was asked before, in as many of all as are to.
    fn repeated(&mut self) -> Option<Session> {
        let share = self.values.of("repeat");
        if share <= 0.0 || self.asked.is_empty() || share <= self.draws.share() {
            return None;
        }
        let place = self.draws.below(length(self.asked.len()));
        let asked = self.asked.get(usize::try_from(place).ok()?)?.clone();
        let (name, at) = (self.count, self.arrive(length(asked.turns.len())));
        self.count += 1;
        Some(Session { at, name, ..asked })
    }

    /// Which of a group's questions is asked, where they are asked over and over.
    fn known_question(&mut self) -> Option<u64> {
        let questions = whole(self.values.of("questions"));
        (0 < questions).then(|| self.draws.below(questions))
    }

    /// What stands before the first turn. Groups are the same whatever the seed.
    fn front(&self, group: u64) -> Vec<Piece> {
        let piece = |content, tokens: f64| Piece {
            content,
            tokens: Tokens::new(whole32(tokens)),
            voice: Voice::System,
        };
        let common = piece(named(&[3]), self.values.of("common"));
        let own = piece(named(&[4, group]), self.values.of("prefix"));
        [common, own].into_iter().filter(|piece| Tokens::ZERO < piece.tokens).collect()
    }
}

impl Iterator for Generator {
    type Item = Result<Session, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let session = match self.repeated() {
            Some(session) => session,
            None => self.session(),
        };
        Some(Ok(session))
    }
}
