//! When a request that has come to its worker is taken in.
//!
//! An engine that plans ahead has planned the next step while one is computed: who comes meanwhile takes part in
//! the step after that one. Others plan when a step has ended, and take in all who have come.

use super::event_loop::Simulation;
use super::event_queue::{Event, FlightId};

impl Simulation<'_> {
    /// A request has come to its worker.
    pub(super) fn deliver(&mut self, id: FlightId) {
        if self.is_left(id) {
            return;
        }
        let worker = self.flights.of(id).worker;
        match self.workers[worker].next_is_planned_until() {
            // Of one time, what was entered first happens first: the next step begins without it.
            Some(end) => {
                self.flights.of(id).joins = Some(end);
                self.agenda.enter(end, Event::Joined(id));
            }
            None => self.join(id),
        }
    }

    /// The step is over at whose end it was to be taken in.
    pub(super) fn join_planned(&mut self, id: FlightId) {
        if self.is_left(id) {
            return;
        }
        // Another request may have the place of one that is gone.
        let flight = self.flights.of(id);
        if flight.joins == Some(self.now) {
            flight.joins = None;
            self.join(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use overdraft_core::hedge::{HedgeSettings, Mode};
    use overdraft_core::route::{Policy, RouteSettings};
    use overdraft_gpu_model::{Catalogue, Engine};
    use overdraft_units::Micros;

    use crate::fleet::{Scenario, Simulated, simulate};
    use crate::report::{Fate, Objectives, Summary};
    use crate::workload::{Pacing, Source};

    fn scenario(engine: Engine, workers: u32) -> Scenario {
        let profile = Catalogue::builtin().find("h100-tp1/llama-3-8b-bf16").unwrap();
        let routing = RouteSettings { policy: Policy::Cost, ..RouteSettings::default() };
        Scenario::new(profile.served_by(engine), workers, routing)
    }

    fn run(scenario: &Scenario, workload: &str, requests: u64) -> Simulated {
        let sessions = Source::parse(workload).unwrap().open(1).unwrap().sessions;
        let pacing = Pacing { requests_max: Some(requests), ..Pacing::default() };
        simulate(scenario, pacing.apply(sessions, 1), 1, &mut |_| {}).unwrap()
    }

    fn summary(simulated: &Simulated) -> Summary {
        Summary::of(&simulated.recorder, &Objectives::default())
    }

    #[test]
    fn who_comes_to_an_engine_that_plans_ahead_takes_part_a_step_later() {
        let load = "unique:question=200,output=200,spread=0,rate=10";
        let [old, new] = [Engine::Vllm010, Engine::Vllm019]
            .map(|engine| summary(&run(&scenario(engine, 1), load, 600)));
        assert!(new.tpot.mean < old.tpot.mean, "the CPU's part is hidden: {:?}", new.tpot);
        let later = (new.ttft.mean - old.ttft.mean) / new.tpot.mean;
        assert!((0.7..1.3).contains(&later), "{later} steps");
        // Alone nothing has been planned.
        let load = "unique:question=200,output=20,spread=0,rate=0.1";
        let [old, new] = [Engine::Vllm010, Engine::Vllm019]
            .map(|engine| summary(&run(&scenario(engine, 1), load, 20)));
        assert!(new.ttft.mean <= old.ttft.mean, "{:?} {:?}", new.ttft, old.ttft);
    }

    #[test]
    fn what_is_shared_is_read_faster_and_the_rest_takes_as_long() {
        let mut apart = scenario(Engine::Vllm019, 1);
        let shared = apart.clone();
        apart.profile.shared_reads = 0.0;
        let mean = |scenario: &Scenario, load: &str| summary(&run(scenario, load, 400)).tpot.mean;
        let one_prefix = "tenants:groups=1,prefix=8000,question=100,output=200,rate=8";
        let (faster, slower) = (mean(&shared, one_prefix), mean(&apart, one_prefix));
        assert!(faster < 0.97 * slower, "{faster} {slower}");
        let unshared = "unique:question=1000,output=200,rate=8";
        let (same, other) = (mean(&shared, unshared), mean(&apart, unshared));
        assert!((same / other - 1.0).abs() < 0.005, "{same} {other}");
    }

    #[test]
    fn an_engine_that_computes_prompts_first_pauses_its_answers_for_them() {
        let load = "unique:question=2000,output=200,rate=10";
        let [mixed, prompts_first] = [Engine::Vllm019, Engine::Sglang05]
            .map(|engine| summary(&run(&scenario(engine, 1), load, 400)));
        let first = (mixed.ttft.mean, prompts_first.ttft.mean);
        assert!(first.1 < first.0, "no answer shares a prompt's step: {first:?}");
        let token = (mixed.tpot.mean, prompts_first.tpot.mean);
        assert!(1.01 * token.0 < token.1, "answers wait for prompts: {token:?}");
    }

    #[test]
    fn a_worker_that_had_nothing_to_do_takes_longer_for_its_next_step() {
        let at_once = scenario(Engine::Vllm010, 1);
        let mut sleepy = at_once.clone();
        sleepy.profile.wake = Micros::new(50_000);
        let later = |load: &str, requests: u64| {
            let first = |scenario| summary(&run(scenario, load, requests)).ttft.mean;
            first(&sleepy) - first(&at_once)
        };
        let alone = later("unique:question=200,output=20,spread=0,rate=0.1", 20);
        assert!((49.0..51.0).contains(&alone), "{alone} ms");
        let busy = later("unique:question=200,output=200,spread=0,rate=10", 600);
        assert!(busy < 1.0, "{busy} ms");
    }

    #[test]
    fn attempts_that_are_left_before_they_join_are_never_computed() {
        let mut scenario = scenario(Engine::Vllm019, 4);
        scenario.stalls = vec!["1:8:1.3".parse().unwrap()];
        scenario.hedging = HedgeSettings { mode: Mode::On, ..HedgeSettings::default() };
        let simulated = run(&scenario, "unique:question=1000,output=100,rate=16", 3_000);
        assert!(0 < simulated.hedges.won, "{:?}", simulated.hedges);
        let samples = simulated.recorder.samples();
        assert_eq!(samples.len(), 3_000);
        assert!(samples.iter().all(|sample| sample.fate == Fate::Completed));
        let again = run(&scenario, "unique:question=1000,output=100,rate=16", 3_000);
        assert_eq!(simulated.recorder.digest(), again.recorder.digest());
    }
}
