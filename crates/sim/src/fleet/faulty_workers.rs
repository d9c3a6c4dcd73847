//! Faulty workers: those that refuse requests at once, or whose process is gone for a while.
//!
//! The core decides how the gateway reacts, as it does live: refusals come back at once, so a
//! worker that refuses is never busy.

use std::str::FromStr;

use overdraft_core::fleet::Failure;
use overdraft_units::{Instant, Micros};

use crate::report::Fate;

/// A worker that turns away what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusing {
    /// Which one, from 0; one that is not there changes nothing.
    pub worker: u32,
    /// What it says.
    pub manner: Manner,
    /// Since when, from the beginning of the simulation.
    pub from: Micros,
    /// Until when; by default to the end.
    pub until: Option<Micros>,
}

/// What such a worker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// That it is full (503).
    Saturated,
    /// That it does not accept the gateway (401).
    Misconfigured,
    /// That there is no such thing (404).
    Disputed,
    /// That it failed (500).
    Faulty,
    /// Nothing: its process is gone, with all that it had under way.
    Gone,
}

impl Manner {
    const ALL: [(&'static str, Self); 5] = [
        ("saturated", Self::Saturated),
        ("misconfigured", Self::Misconfigured),
        ("disputed", Self::Disputed),
        ("faulty", Self::Faulty),
        ("gone", Self::Gone),
    ];

    pub(super) const fn failure(self) -> (Fate, Failure) {
        match self {
            Self::Saturated => (Fate::Refused, Failure::Saturated),
            Self::Misconfigured => (Fate::Refused, Failure::Misconfigured),
            Self::Disputed => (Fate::Refused, Failure::Disputed),
            Self::Faulty => (Fate::Failed, Failure::Faulty),
            Self::Gone => (Fate::Failed, Failure::Unreachable),
        }
    }
}

/// `WORKER:MANNER`, `WORKER:MANNER:FROM` or `WORKER:MANNER:FROM-UNTIL`, in seconds.
impl FromStr for Refusing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            let manners = Manner::ALL.map(|(name, _)| name).join(", ");
            format!(
                "expected WORKER:MANNER:FROM-UNTIL, a worker's number from 0, one of {manners}, and seconds, as in \
                 `0:saturated:10-20`; the times may be left out"
            )
        };
        let mut parts = text.splitn(3, ':');
        let worker = parts.next().and_then(|part| part.parse().ok()).ok_or_else(expected)?;
        let named = parts.next().unwrap_or_default();
        let manner = Manner::ALL.iter().find(|(name, _)| *name == named);
        let (_, manner) = *manner.ok_or_else(expected)?;
        let (from, until) = match parts.next() {
            None => (Micros::ZERO, None),
            Some(times) => match times.split_once('-') {
                None => (seconds(times).ok_or_else(expected)?, None),
                Some((from, until)) => {
                    let until = seconds(until).ok_or_else(expected)?;
                    (seconds(from).ok_or_else(expected)?, Some(until))
                }
            },
        };
        Ok(Self { worker, manner, from, until })
    }
}

fn seconds(text: &str) -> Option<Micros> {
    let seconds = text.parse::<f64>().ok()?;
    let time = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(time.as_micros()).ok().map(Micros::new)
}

impl Refusing {
    pub(super) fn refuses(&self, worker: usize, now: Instant) -> bool {
        let since = now.since(Instant::ORIGIN);
        usize::try_from(self.worker) == Ok(worker)
            && self.manner != Manner::Gone
            && self.from <= since
            && self.until.is_none_or(|until| since < until)
    }
}

#[cfg(test)]
mod tests {
    use overdraft_core::admit::Mode;
    use overdraft_core::route::{Policy, RouteSettings};
    use overdraft_gpu_model::Catalogue;

    use super::*;
    use crate::fleet::{Scenario, Simulated, simulate};
    use crate::workload::{Pacing, Source};

    fn run(policy: Policy, refusing: &[&str], workers: u32) -> Simulated {
        let profile = Catalogue::builtin().find("h100-tp1/llama-3-8b-bf16").unwrap();
        let routing = RouteSettings { policy, ..RouteSettings::default() };
        let mut scenario = Scenario::new(profile, workers, routing);
        scenario.routing.admission.mode = Mode::Peak;
        scenario.refusing = refusing.iter().map(|text| text.parse().unwrap()).collect();
        let sessions = Source::parse("chat:rate=12").unwrap().open(1).unwrap().sessions;
        let pacing = Pacing { requests_max: Some(400), ..Pacing::default() };
        simulate(&scenario, pacing.apply(sessions, 1), 1, &mut |_| {}).unwrap()
    }

    fn lost(simulated: &Simulated) -> usize {
        let samples = simulated.recorder.samples().iter();
        samples.filter(|sample| sample.fate != Fate::Completed).count()
    }

    #[test]
    fn beside_workers_that_refuse_all_requests_are_answered() {
        for (name, _) in Manner::ALL {
            for policy in Policy::ALL {
                let [one, other] = [0, 2].map(|worker| format!("{worker}:{name}"));
                let simulated = run(policy, &[&one, &other], 3);
                let lost = lost(&simulated);
                assert!(lost <= 1, "{policy}, {name}: {lost} of 400 were lost");
            }
        }
    }

    #[test]
    fn a_request_that_all_it_asked_were_too_full_for_waits_and_is_answered() {
        for policy in [Policy::Cost, Policy::LeastLoad, Policy::RoundRobin] {
            let full: Vec<String> = (0..6).map(|worker| format!("{worker}:saturated")).collect();
            let full: Vec<&str> = full.iter().map(String::as_str).collect();
            assert_eq!(lost(&run(policy, &full, 7)), 0, "{policy}");
        }
    }

    #[test]
    fn one_that_refused_for_a_while_is_used_again() {
        for name in ["saturated", "misconfigured", "disputed", "faulty"] {
            let text = format!("0:{name}:0-5");
            let simulated = run(Policy::LeastLoad, &[&text], 2);
            let samples = simulated.recorder.samples();
            assert_eq!(lost(&simulated), 0, "{name}");
            let last = samples.iter().map(|sample| sample.ended).max().unwrap();
            assert!(Instant::ORIGIN + Micros::new(20_000_000) < last, "{name}: long enough");
            assert!(simulated.retries <= 20, "{name}: {} retries", simulated.retries);
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_an_example() {
        let read = |text: &str| text.parse::<Refusing>().ok();
        let whole = Refusing {
            worker: 3,
            manner: Manner::Gone,
            from: Micros::new(1_500_000),
            until: Some(Micros::new(20_000_000)),
        };
        assert_eq!(read("3:gone:1.5-20"), Some(whole));
        let begins = Refusing { until: None, ..whole };
        assert_eq!(read("3:gone:1.5"), Some(begins));
        assert_eq!(read("3:gone"), Some(Refusing { from: Micros::ZERO, ..begins }));
        for text in ["", "3", "3:", "x:gone", "3:away", "3:gone:soon", "3:gone:1-", "3:gone:-1"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
