//! Tenant and priority mix: who sends the requests, where the workload does not say.
//!
//! A session has one tenant and one priority. Both are drawn by its name and the seed, so every
//! policy gets the same load.

use overdraft_core::admit::Priority;

use super::error::SimulateError;
use crate::float_conversion::float;
use crate::workload::{Sender, Session, TENANTS_MAX, named};

/// Streams of a session's draws.
const PRIORITY: u64 = 0x7072_696f;
const TENANT: u64 = 0x7465_6e61;

/// How a load is made up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mix {
    /// How often each priority comes, beside the others; where nothing is said all are of one.
    pub priorities: Vec<(Priority, f64)>,
    /// How much each tenant asks, beside the others; where nothing is said there is one.
    pub tenants: Vec<f64>,
}

impl Mix {
    /// The sender of a session. A sender that the workload names stays.
    pub(super) fn sender(&self, seed: u64, session: &Session) -> Sender {
        let draw = |stream| named(&[seed, stream, session.name]);
        let priority = || {
            let place = pick(draw(PRIORITY), self.priorities.iter().map(|(_, weight)| *weight))?;
            self.priorities.get(place).map(|(priority, _)| *priority)
        };
        let tenant = || u16::try_from(pick(draw(TENANT), self.tenants.iter().copied())?).ok();
        Sender {
            priority: session.sender.priority.or_else(priority),
            tenant: session.sender.tenant.or_else(tenant),
        }
    }

    /// # Errors
    /// More tenants than are told apart, or a weight that is none.
    pub(super) fn check(&self) -> Result<(), SimulateError> {
        if TENANTS_MAX < self.tenants.len() {
            return Err(SimulateError::Tenants(self.tenants.len()));
        }
        let priorities = self.priorities.iter().map(|(_, weight)| weight);
        let wrong = |weight: &&f64| !(weight.is_finite() && 0.0 < **weight);
        match priorities.chain(&self.tenants).find(wrong) {
            Some(weight) => Err(SimulateError::Weight(*weight)),
            None => Ok(()),
        }
    }
}

/// Which of so many, by their weights; none where there are none.
fn pick(dice: u64, mut weights: impl Iterator<Item = f64> + Clone) -> Option<usize> {
    let share = float(dice >> 11) * (f64::EPSILON / 2.0);
    let mut left = share * weights.clone().sum::<f64>();
    let count = weights.clone().count();
    let found = weights.position(|weight| {
        left -= weight;
        left < 0.0
    });
    // Rounding may leave a crumb behind the last.
    found.or_else(|| count.checked_sub(1))
}

#[cfg(test)]
mod tests {
    use overdraft_units::Instant;

    use super::*;
    use crate::workload::Stage;

    fn session(name: u64, sender: Sender) -> Session {
        let (at, stage) = (Instant::ORIGIN, Stage::default());
        Session { at, name, sender, stage, turns: Vec::new() }
    }

    #[test]
    fn senders_come_as_often_as_was_said_and_what_a_trace_says_stays() {
        let mix = Mix {
            priorities: vec![(Priority::Flex, 3.0), (Priority::Priority, 1.0)],
            tenants: vec![9.0, 1.0],
        };
        let drawn: Vec<Sender> =
            (0..4_000).map(|name| mix.sender(5, &session(name, Sender::default()))).collect();
        let count = |is: fn(&Sender) -> bool| drawn.iter().filter(|one| is(one)).count();
        assert!((2_850..3_150).contains(&count(|one| one.priority == Some(Priority::Flex))));
        assert_eq!(count(|one| one.priority == Some(Priority::Default)), 0);
        assert!((320..480).contains(&count(|one| one.tenant == Some(1))));
        let both = |one: &Sender| one.tenant == Some(1) && one.priority == Some(Priority::Flex);
        assert!((220..380).contains(&count(both)), "neither draw depends on the other");
        let told = Sender { priority: Some(Priority::Default), tenant: Some(7) };
        assert_eq!(mix.sender(5, &session(0, told)), told);
        assert_eq!(Mix::default().sender(5, &session(0, Sender::default())), Sender::default());
    }
}
