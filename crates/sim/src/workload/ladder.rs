//! Ladder of rates: a load in stages, each with a rate of its own, with gaps and an uncounted warm-up.

use overdraft_units::{Instant, Micros};

use super::{Session, Sessions, Stage, WorkloadError};
use crate::Draws;
use crate::float_conversion::{float, length};

/// Stages of a ladder at most.
pub const STAGES_MAX: usize = 64;

/// Seconds of a stage at most, thirty years: all stages together fit the clock.
const STAGE_SECONDS_MAX: f64 = 1e9;

/// One rate for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rung {
    /// Requests a second; above zero.
    pub per_second: f64,
    /// How long they come.
    pub span: Micros,
}

/// A load in stages, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Ladder {
    /// What comes first and is not counted.
    pub warm_up: Option<Rung>,
    /// The stages, [`STAGES_MAX`] at most.
    pub rungs: Vec<Rung>,
    /// How long nothing comes between two of them.
    pub gap: Micros,
    /// How even arrivals are: 1 is Poisson.
    pub burstiness: f64,
}

/// Why a text is no ladder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LadderError {
    /// Not a rate, or not with a time.
    #[error(
        "`{0}` is no stage; expected RATE or RATE:SECONDS, numbers above zero, as in `3,10,15:60s`, the last one \
         with its seconds"
    )]
    Rung(String),
    /// More than are told apart.
    #[error("`{0}` stages; expected {STAGES_MAX} or fewer")]
    Many(usize),
}

impl Rung {
    /// Reads `15:60s`, or `15` where a span is known.
    fn parse(text: &str, known: Option<Micros>) -> Result<Self, LadderError> {
        let wrong = || LadderError::Rung(text.to_owned());
        let number = |text: &str| {
            text.trim().parse::<f64>().ok().filter(|one| 0.0 < *one && one.is_finite())
        };
        let (rate, span) = match text.split_once(':') {
            None => (text, known),
            Some((rate, span)) => {
                let span = span.trim();
                let seconds = number(span.strip_suffix('s').unwrap_or(span));
                let seconds = seconds.filter(|seconds| *seconds <= STAGE_SECONDS_MAX);
                (rate, Some(super::seconds(seconds.ok_or_else(wrong)?)))
            }
        };
        let span = span.filter(|span| Micros::ZERO < *span).ok_or_else(wrong)?;
        Ok(Self { per_second: number(rate).ok_or_else(wrong)?, span })
    }

    /// Reads a warm-up, which has a rate and a time.
    ///
    /// # Errors
    /// When it does not.
    pub fn warm_up(text: &str) -> Result<Self, LadderError> {
        Self::parse(text, None)
    }
}

impl Ladder {
    /// Reads `3,10,15:60s`: a rate without a time has that of the next one that has one.
    ///
    /// # Errors
    /// When it is not that.
    pub fn parse(text: &str) -> Result<Self, LadderError> {
        let mut rungs = Vec::new();
        let mut span = None;
        for part in text.rsplit(',') {
            let rung = Rung::parse(part, span)?;
            span = Some(rung.span);
            rungs.push(rung);
        }
        rungs.reverse();
        if STAGES_MAX < rungs.len() {
            return Err(LadderError::Many(rungs.len()));
        }
        Ok(Self { warm_up: None, rungs, gap: Micros::ZERO, burstiness: 1.0 })
    }

    /// What stages are called: by their rates, and by their numbers as well where a rate comes again.
    pub fn names(&self) -> Vec<String> {
        let rate = |rung: &Rung| format!("{}/s", rung.per_second);
        let rates: Vec<String> = self.rungs.iter().map(rate).collect();
        let name = |(number, rate): (usize, &String)| {
            let is_alone = rates.iter().filter(|other| *other == rate).count() == 1;
            if is_alone { rate.clone() } else { format!("{rate} (stage {number})") }
        };
        (1..).zip(&rates).map(name).collect()
    }

    /// The sessions at the ladder's times; where they run out, it ends early.
    pub fn apply(&self, sessions: Sessions, seed: u64) -> Sessions {
        let numbered = (0..).map(Stage::Numbered).zip(self.rungs.iter().copied());
        let steps: Vec<_> =
            self.warm_up.map(|rung| (Stage::WarmUp, rung)).into_iter().chain(numbered).collect();
        Box::new(Climb {
            sessions,
            steps: steps.into_iter(),
            gap: self.gap,
            burstiness: self.burstiness,
            draws: Draws::new(seed, 0x6c61_6464),
            step: None,
            begins: Instant::ORIGIN,
            at: Instant::ORIGIN,
            is_broken: false,
        })
    }
}

/// A ladder under way.
struct Climb {
    sessions: Sessions,
    /// The stages to come.
    steps: std::vec::IntoIter<(Stage, Rung)>,
    gap: Micros,
    burstiness: f64,
    draws: Draws,
    /// The stage that is under way, and when it began.
    step: Option<(Stage, Rung)>,
    begins: Instant,
    at: Instant,
    is_broken: bool,
}

impl Climb {
    /// When a session with so many turns begins, and in which stage; none when the ladder is over.
    fn place(&mut self, turns: u64) -> Option<(Stage, Instant)> {
        loop {
            let (stage, rung) = if let Some(step) = self.step {
                step
            } else {
                self.at = self.begins;
                *self.step.insert(self.steps.next()?)
            };
            // As many requests come in a second however many turns a session has.
            let gap = self.draws.gamma(self.burstiness, float(turns) / rung.per_second);
            // What is longer than the stage leads out of it, however long it is.
            self.at = self.at + super::seconds(gap).min(rung.span);
            if self.at < self.begins + rung.span {
                return Some((stage, self.at));
            }
            self.begins = self.begins + rung.span + self.gap;
            self.step = None;
        }
    }
}

impl Iterator for Climb {
    type Item = Result<Session, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_broken {
            return None;
        }
        match self.sessions.next()? {
            Ok(session) => {
                let (stage, at) = self.place(length(session.turns.len()))?;
                Some(Ok(Session { at, stage, ..session }))
            }
            Err(error) => {
                self.is_broken = true;
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Source;

    fn rungs(text: &str) -> Vec<(f64, u64)> {
        let ladder = Ladder::parse(text).unwrap();
        ladder.rungs.iter().map(|one| (one.per_second, one.span.get() / 1_000_000)).collect()
    }

    #[test]
    fn a_rate_without_a_time_has_that_of_the_next() {
        assert_eq!(rungs("3,10,15:60s"), [(3.0, 60), (10.0, 60), (15.0, 60)]);
        assert_eq!(rungs("3:20,10,15:38"), [(3.0, 20), (10.0, 38), (15.0, 38)]);
        for wrong in ["3,10", "", "3:0", "x:5", "-1:5", "3:5,10", "3::5", "inf:3", "3:1e13"] {
            let told = Ladder::parse(wrong).expect_err(wrong).to_string();
            assert!(told.contains("3,10,15:60s"), "{wrong}: {told}");
        }
        let many = vec!["1:1"; STAGES_MAX + 1].join(",");
        assert!(Ladder::parse(&many).unwrap_err().to_string().contains("64 or fewer"));
    }

    #[test]
    fn a_rate_that_brings_nothing_leaves_its_stage_empty() {
        let mut ladder = Ladder::parse("1e-18:5,100:1").unwrap();
        ladder.gap = Micros::new(1_000_000);
        let sessions = Source::parse("unique").unwrap().open(1).unwrap().sessions;
        let all: Vec<Session> = ladder.apply(sessions, 1).map(Result::unwrap).collect();
        assert!(!all.is_empty() && all.iter().all(|one| one.stage == Stage::Numbered(1)));
    }

    #[test]
    fn stages_come_at_their_rates_with_gaps_between_them_and_then_it_is_over() {
        let mut ladder = Ladder::parse("20,60:50s").unwrap();
        ladder.warm_up = Some(Rung::warm_up("10:30").unwrap());
        ladder.gap = Micros::new(20_000_000);
        let sessions = Source::parse("unique").unwrap().open(1).unwrap().sessions;
        let all: Vec<Session> = ladder.apply(sessions, 1).map(Result::unwrap).collect();
        assert!(all.is_sorted_by_key(|one| one.at));
        let of = |stage: Stage, from: u64, until: u64| {
            let second = |one: &Session| one.at.since(Instant::ORIGIN).get() / 1_000_000;
            let own: Vec<&Session> = all.iter().filter(|one| one.stage == stage).collect();
            assert!(own.iter().all(|one| (from..until).contains(&second(one))), "{stage:?}");
            own.len()
        };
        assert!((240..360).contains(&of(Stage::WarmUp, 0, 30)));
        assert!((850..1_150).contains(&of(Stage::Numbered(0), 50, 100)));
        assert!((2_750..3_250).contains(&of(Stage::Numbered(1), 120, 170)));
        assert_eq!(ladder.names(), ["20/s", "60/s"]);
        let there_and_back = Ladder::parse("5,20,5:60s").unwrap();
        assert_eq!(there_and_back.names(), ["5/s (stage 1)", "20/s", "5/s (stage 3)"]);
    }
}
