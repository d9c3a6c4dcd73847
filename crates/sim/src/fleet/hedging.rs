//! Hedging in the simulation: second attempts for late first tokens, as the core says, and the end of the loser.

use overdraft_core::hedge::Watch;

use super::event_loop::Simulation;
use super::event_queue::{Event, FlightId};
use super::life_cycle::{request, unsent};
use super::request_slab::{Flight, Role};

/// What second attempts came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hedges {
    /// Those that were sent.
    pub sent: u64,
    /// Those whose first token came first.
    pub won: u64,
    /// Prompt tokens that they computed, and tokens that losers said.
    pub tokens: u64,
}

impl Simulation<'_> {
    /// A request was sent: it is looked at when its first token is late.
    pub(super) fn watch_for_lateness(&mut self, id: FlightId) {
        let flight = self.flights.of(id);
        let watch = flight.placed.as_ref().and_then(|placed| placed.watch());
        let is_alone = flight.role == Role::Target && flight.course.is_none();
        if let Some(watch) = watch.filter(|_| is_alone && flight.other.is_none())
            && let Some(due) = watch.due()
        {
            self.agenda.enter(due, Event::Late(id, Box::new(watch), 0));
        }
    }

    /// A first token is late, unless it has come: the core may send a second attempt.
    pub(super) fn hedge(&mut self, id: FlightId, watch: Watch, looks: u32) {
        let Some(flight) = self.flights.get(id) else { return };
        let own = flight.placed.as_ref().and_then(|placed| placed.watch());
        let (true, Some(visit)) = (own == Some(watch) && flight.other.is_none(), flight.visit)
        else {
            return;
        };
        let mut twin = Flight { visit: None, other: Some(id), leads: false, ..unsent(flight) };
        self.spell_again(&mut twin, visit);
        let (chunk, gateway) = (self.chunk(), twin.gateway);
        let router = &mut self.gateways[gateway].router;
        let asked = request(&twin, chunk);
        let Ok(mut placed) = router.hedge(asked, &self.scenario.routing, watch, self.now) else {
            if let Some(at) = watch.next_look(looks + 1) {
                self.agenda.enter(at, Event::Late(id, Box::new(watch), looks + 1));
            }
            return;
        };
        router.remember(&mut placed, asked.prompt, self.now);
        self.hedges.sent += 1;
        self.hedges.tokens += u64::from(placed.demand().prefill().get());
        let twin = self.flights.add(twin);
        self.flights.of(id).other = Some(twin);
        self.send(twin, placed);
    }

    /// A first token has come: the other attempt at the same request is left, and its worker told.
    pub(super) fn win(&mut self, id: FlightId) {
        let Some(other) = self.flights.of(id).other.take() else { return };
        let loser = self.flights.of(other);
        (loser.other, loser.role) = (None, Role::Left);
        let (visit, leads) = (loser.visit.take(), std::mem::take(&mut loser.leads));
        let (worker, said, last) = (loser.worker, loser.said, loser.last);
        self.hedges.tokens += u64::from(said);
        self.workers[worker].cancel(other);
        self.agenda.enter(last.max(self.now), Event::Ended(other));
        if visit.is_some() {
            self.hedges.won += 1;
            let winner = self.flights.of(id);
            (winner.visit, winner.leads) = (visit, leads);
        }
    }

    /// An attempt failed: where another one goes on with the request, it is the only one from now on.
    pub(super) fn hand_on(&mut self, flight: &mut Flight) -> bool {
        let Some(other) = flight.other.take() else { return false };
        let other = self.flights.of(other);
        other.other = None;
        if flight.visit.is_some() {
            (other.visit, other.leads) = (flight.visit.take(), flight.leads);
        }
        true
    }

    /// Whether an attempt is one that is left: it computes nothing more.
    pub(super) fn is_left(&self, id: FlightId) -> bool {
        self.flights.get(id).is_none_or(|flight| flight.role == Role::Left)
    }
}

#[cfg(test)]
mod tests {
    use overdraft_core::hedge::{HedgeSettings, Mode};
    use overdraft_core::route::{Policy, RouteSettings};
    use overdraft_gpu_model::Catalogue;

    use crate::fleet::{Scenario, Simulated, simulate};
    use crate::report::{Fate, Objectives, Summary};
    use crate::workload::{Pacing, Source};

    fn run(stalls: &[&str], mode: Mode) -> Simulated {
        let profile = Catalogue::builtin().find("h100-tp1/llama-3-8b-bf16").unwrap();
        let routing = RouteSettings { policy: Policy::Cost, ..RouteSettings::default() };
        let mut scenario = Scenario::new(profile, 4, routing);
        scenario.stalls = stalls.iter().map(|text| text.parse().unwrap()).collect();
        scenario.hedging = HedgeSettings { mode, ..HedgeSettings::default() };
        let source = Source::parse("unique:question=1000,output=100,rate=16").unwrap();
        let sessions = source.open(1).unwrap().sessions;
        let pacing = Pacing { requests_max: Some(6_000), ..Pacing::default() };
        simulate(&scenario, pacing.apply(sessions, 1), 1, &mut |_| {}).unwrap()
    }

    fn p99(simulated: &Simulated) -> f64 {
        let samples = simulated.recorder.samples();
        assert_eq!(samples.len(), 6_000);
        assert!(samples.iter().all(|sample| sample.fate == Fate::Completed));
        Summary::of(&simulated.recorder, &Objectives::default()).ttft.p99
    }

    fn tokens(simulated: &Simulated) -> u64 {
        let of = |sample: &crate::report::Sample| sample.prompt.get() + sample.output.get();
        simulated.recorder.samples().iter().map(of).map(u64::from).sum()
    }

    /// One of four workers that stands still for a sixth of the time: about one request of 25 meets it.
    const ONE: [&str; 1] = ["1:8:1.3"];
    const ALL: [&str; 4] = ["0:8:1.3", "1:8:1.3", "2:8:1.3", "3:8:1.3"];

    #[test]
    fn one_slow_worker_of_four_is_hedged_within_the_budget() {
        let (alone, hedged) = (run(&ONE, Mode::Off), run(&ONE, Mode::On));
        assert_eq!(alone.hedges, super::Hedges::default());
        let (before, after) = (p99(&alone), p99(&hedged));
        assert!(after < 0.7 * before, "{before} {after} {:?}", hedged.hedges);
        let (cost, all) = (hedged.hedges.tokens, tokens(&hedged));
        assert!(cost * 100 <= all * 5, "{cost} of {all}");
        assert!(0 < hedged.hedges.won, "{:?}", hedged.hedges);
    }

    #[test]
    fn a_fleet_that_is_slow_as_a_whole_gets_no_more_work() {
        let hedged = run(&ALL, Mode::On);
        p99(&hedged);
        let (sent, cost) = (hedged.hedges.sent, hedged.hedges.tokens);
        assert!(sent * 200 <= 6_000, "{sent} of 6000");
        assert!(cost * 200 <= tokens(&hedged), "{cost}");
    }

    #[test]
    fn hedged_histories_repeat() {
        let digest = || run(&ONE, Mode::On).recorder.digest();
        assert_eq!(digest(), digest());
    }
}
