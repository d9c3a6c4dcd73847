//! Whatever happens in whatever order, the fleet's books balance and routing keeps its word.

use overdraft_core::admit::{AdmitSettings, Portion, Priority, Prospect};
use overdraft_core::breaker::{BreakerSettings, Grants, Standing};
use overdraft_core::fleet::{
    Acceptance, Attempt, Booked, Demand, Ending, Failure, Fleet, Probe, Turn, Worker, WorkerId,
};
use overdraft_core::route::{
    Ask, Choice, Count, Decision, Ejections, Policy, RouteSettings, Tried, decide,
};
use overdraft_units::{Instant, Micros, Tokens};
use proptest::prelude::*;

const WORKERS: usize = 4;
const MODELS: [&str; 2] = ["small", "large"];

/// Failures of requests that reached no worker.
const UNCONNECTED: [Failure; 3] = [Failure::Unreachable, Failure::NoConnection, Failure::Local];

/// One thing that may happen.
#[derive(Clone, Debug)]
enum Step {
    Send { model: usize, tokens: u32, failed_by: Vec<usize> },
    FirstToken(usize),
    End { which: usize, ending: Ending },
    Probe { worker: usize, seen: Seen },
    Drain(usize),
    Rejoin(usize),
}

#[derive(Clone, Debug)]
enum Seen {
    Ready(Vec<usize>),
    Unready,
    Silent,
    Unreachable,
    NoConnection,
}

fn step() -> impl Strategy<Value = Step> {
    let ending = prop_oneof![
        4 => Just(Ending::Answered),
        1 => Just(Ending::Declined),
        1 => Just(Ending::Abandoned),
        2 => prop::sample::select(&UNCONNECTED[..]).prop_map(Ending::Failed),
        1 => Just(Ending::Failed(Failure::Broken)),
        1 => Just(Ending::Failed(Failure::Silent)),
        1 => Just(Ending::Failed(Failure::Saturated)),
        1 => Just(Ending::Failed(Failure::Misconfigured)),
        1 => Just(Ending::Failed(Failure::Disputed)),
        1 => Just(Ending::Failed(Failure::Faulty)),
    ];
    let seen = prop_oneof![
        4 => prop::collection::vec(0..MODELS.len(), 0..3).prop_map(Seen::Ready),
        1 => Just(Seen::Unready),
        2 => Just(Seen::Silent),
        1 => Just(Seen::Unreachable),
        1 => Just(Seen::NoConnection),
    ];
    prop_oneof![
        6 => (0..MODELS.len(), 0..5_000_u32, prop::collection::vec(0..WORKERS, 0..3))
            .prop_map(|(model, tokens, failed_by)| Step::Send { model, tokens, failed_by }),
        3 => any::<usize>().prop_map(Step::FirstToken),
        6 => (any::<usize>(), ending).prop_map(|(which, ending)| Step::End { which, ending }),
        4 => (0..WORKERS, seen).prop_map(|(worker, seen)| Step::Probe { worker, seen }),
        1 => (0..WORKERS).prop_map(Step::Drain),
        1 => (0..WORKERS).prop_map(Step::Rejoin),
    ]
}

/// The fleet under test beside a ledger kept by other means: the receipts themselves.
struct World {
    fleet: Fleet,
    ids: Vec<WorkerId>,
    receipts: Vec<(Attempt, u32)>,
    policy: Policy,
    now: Instant,
    told: Vec<String>,
}

impl World {
    fn new(policy: Policy) -> Self {
        let mut fleet = Fleet::new();
        // So that they open often.
        let failures_in_a_row = 1;
        fleet.set_breakers(BreakerSettings { failures_in_a_row, ..Default::default() });
        let ids = (0..WORKERS).map(|_| fleet.join(1).expect("there is room for four")).collect();
        let now = Instant::ORIGIN;
        Self { fleet, ids, receipts: Vec::new(), policy, now, told: Vec::new() }
    }

    fn take(&mut self, step: &Step) {
        self.now = self.now + Micros::new(700_000);
        match step {
            Step::Send { model, tokens, failed_by } => self.send(*model, *tokens, failed_by),
            Step::FirstToken(which) if !self.receipts.is_empty() => {
                let count = self.receipts.len();
                self.fleet.first_token(&mut self.receipts[which % count].0, self.now);
            }
            Step::End { which, ending } if !self.receipts.is_empty() => {
                let (attempt, _) = self.receipts.swap_remove(which % self.receipts.len());
                let change = self.fleet.end(attempt, *ending, self.now);
                self.told.push(format!("{change:?}"));
            }
            Step::End { .. } | Step::FirstToken(_) => {}
            Step::Probe { worker, seen } => self.probe(*worker, seen),
            Step::Drain(worker) => self.fleet.drain(self.ids[*worker]),
            Step::Rejoin(worker) => self.fleet.rejoin(self.ids[*worker]),
        }
    }

    fn probe(&mut self, worker: usize, seen: &Seen) {
        let models: Vec<String> = match seen {
            Seen::Ready(models) => models.iter().map(|&model| MODELS[model].to_owned()).collect(),
            _ => Vec::new(),
        };
        let probe = match seen {
            Seen::Ready(_) => Probe::Ready(&models),
            Seen::Unready => Probe::Unready,
            Seen::Silent => Probe::Silent,
            Seen::Unreachable => Probe::Unreachable,
            Seen::NoConnection => Probe::NoConnection,
        };
        let change = self.fleet.probed(self.ids[worker], probe, self.now);
        self.told.push(format!("{change:?}"));
    }

    fn send(&mut self, model: usize, tokens: u32, failed_by: &[usize]) {
        let mut tried = Tried::default();
        for &worker in failed_by {
            tried.add(self.ids[worker]);
        }
        let model = MODELS[model];
        let demand = Demand { prompt: Tokens::new(tokens), ..Demand::default() };
        let ask = Ask {
            model,
            prompt: demand.prompt,
            count: Count::Counted,
            completion: Tokens::ZERO,
            priority: Priority::Default,
            portion: Portion::Within,
            prospect: Prospect::default(),
            session: None,
            dice: u64::from(tokens),
        };
        let slow_start = Micros::ZERO;
        let admission = AdmitSettings::off();
        let policy = self.policy;
        let settings = RouteSettings { policy, slow_start, admission, ..Default::default() };
        let mut decision = Decision::default();
        decide(&self.fleet, ask, &tried, &settings, self.now, &mut decision);
        let choice = decision.choice;
        self.told.push(format!("{choice:?}"));
        self.judge(model, failed_by, (choice, decision.ejections == Ejections::Waived));
        if let Choice::Send(id) = choice {
            let turn = if failed_by.is_empty() { Turn::First } else { Turn::Again };
            self.receipts.push((self.fleet.start(id, demand, turn, self.now), tokens));
        }
    }

    /// The promises of routing, checked without looking at how it decides.
    fn judge(&self, model: &str, failed_by: &[usize], (choice, panic): (Choice, bool)) {
        let open = |id: WorkerId, worker: &Worker| {
            worker.health().is_up()
                && worker.breaker().is_closed()
                && worker.refusals().acceptance(self.now) == Acceptance::Accepting
                && !worker.is_draining()
                && worker.models().iter().any(|served| served == model)
                && !failed_by.contains(&id.index())
        };
        let best = self.fleet.workers().filter(|(id, worker)| open(*id, worker));
        let least = best.map(|(_, worker)| worker.requests()).min();
        let again = !failed_by.is_empty();
        match (choice, least) {
            (Choice::Send(id), Some(least)) => {
                let chosen = self.fleet.worker(id);
                // One that is out may be asked as a trial, or because too few others can be; one that refuses as
                // a trial only.
                let out = chosen.health().is_up() && !chosen.breaker().is_closed();
                let due = chosen.refusals().acceptance(self.now) == Acceptance::Due && !again;
                assert!(out || due || open(id, chosen), "{id:?} was chosen while another was up");
                if out {
                    self.judge_one_that_is_out(model, failed_by, id, panic);
                } else if !due && !again && !panic && self.policy == Policy::LeastLoad {
                    assert_eq!(chosen.requests(), least);
                }
            }
            (Choice::Send(id), None) => {
                let chosen = self.fleet.worker(id);
                let refuses = chosen.refusals().acceptance(self.now) != Acceptance::Accepting;
                let out = chosen.health().is_up() && (!chosen.breaker().is_closed() || refuses);
                assert!((out || chosen.health().is_last_resort()) && !chosen.is_draining());
                assert!(!failed_by.contains(&id.index()));
            }
            (refused, Some(_)) => panic!("{refused:?} while a worker was up"),
            (Choice::UnknownModel, None) => assert!(self.fleet.serving(model).is_none()),
            (Choice::NoneUp | Choice::NoneLeft, None) => {}
            (Choice::NoRoom { .. } | Choice::Saturated { .. }, None) => {
                panic!("nobody has said how much it holds")
            }
        }
    }

    fn judge_one_that_is_out(&self, model: &str, failed_by: &[usize], id: WorkerId, panic: bool) {
        let standing = self.fleet.worker(id).breaker().standing(Grants::Own, self.now);
        let trial = standing == Standing::Due && failed_by.is_empty();
        let serving = self.fleet.workers().filter(|(_, worker)| {
            !worker.is_draining() && worker.models().iter().any(|served| served == model)
        });
        let (all, askable) = serving.fold((0, 0), |(all, askable), (_, worker)| {
            let can = worker.health().is_up() && worker.breaker().is_closed();
            (all + 1, askable + usize::from(can))
        });
        assert!(trial || (panic && askable * 2 < all), "{id:?} is out and was chosen");
    }

    fn balance(&self) {
        for (id, worker) in self.fleet.workers() {
            let own = self.receipts.iter().filter(|(attempt, _)| attempt.worker() == id);
            let (mut requests, mut tokens) = (0, 0);
            for (_, booked) in own {
                requests += 1;
                tokens += u64::from(*booked);
            }
            assert_eq!((worker.requests(), worker.tokens()), (requests, tokens));
            assert!(worker.booked().prefill_tokens <= tokens);
            assert!(worker.booked().prefilling <= requests);
            if requests == 0 {
                assert_eq!(worker.booked(), Booked::default());
            }
        }
        assert_eq!(self.fleet.active() as usize, self.receipts.len());
        assert!(self.fleet.retrying() <= self.fleet.active());
    }
}

proptest! {
    #[test]
    fn books_balance_and_routing_keeps_its_word(
        steps in prop::collection::vec(step(), 1..200),
        policy in prop::sample::select(&Policy::ALL[..]),
    ) {
        let mut world = World::new(policy);
        for step in &steps {
            world.take(step);
            world.balance();
        }
        while let Some((attempt, _)) = world.receipts.pop() {
            world.fleet.end(attempt, Ending::Answered, world.now);
        }
        world.balance();
        prop_assert_eq!((world.fleet.active(), world.fleet.retrying()), (0, 0));
    }

    #[test]
    fn the_same_reports_give_the_same_decisions(
        steps in prop::collection::vec(step(), 1..100),
        policy in prop::sample::select(&Policy::ALL[..]),
    ) {
        let tell = || {
            let mut world = World::new(policy);
            for step in &steps {
                world.take(step);
            }
            world.told
        };
        prop_assert_eq!(tell(), tell());
    }
}
