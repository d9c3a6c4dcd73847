//! Event loop of the simulation: pops the next event and applies it.

use overdraft_core::fleet::WorkerId;
use overdraft_gpu_model::Profile;
use overdraft_units::{Instant, Micros, Tokens};

use super::bounds::{GATEWAYS_MAX, WORKERS_MAX};
use super::cascade::Course;
use super::cascade_scenario::RequestKind;
use super::draft_gate::{Drafts, Gatekeeper};
use super::draft_model::Guesses;
use super::error::SimulateError;
use super::event_queue::{Agenda, Event, FlightId};
use super::gateway::Gateway;
use super::hedging::Hedges;
use super::miss_attribution::Ledger;
use super::refusal::groups_of;
use super::request_slab::{Flight, Origin, Places, Role, Visit};
use super::response_cache::Answers;
use super::scenario::{Pace, Scenario};
use super::time_series::Watch;
use super::worker::Worker;
use crate::float_conversion::length;
use crate::report::{Belongs, Counts, Fate, Groups, Missed, PoolTold, Recorder, Sample, Series};
use crate::workload::{Session, Sessions};

/// Events between two reports of progress.
const LOOK_EVERY: u64 = 1 << 14;

/// What came of it.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// What happened to the requests.
    pub recorder: Recorder,
    /// What was seen over time.
    pub series: Vec<Series>,
    /// Dollars for all workers from the first request to the last answer.
    pub cost: f64,
    /// Times a sequence lost its pages.
    pub preemptions: u64,
    /// Pages that were given to others while their content could still be found.
    pub evictions: u64,
    /// Times a worker died for want of pages.
    pub crashes: u64,
    /// Attempts that were made again on another worker.
    pub retries: u64,
    /// Second attempts for late first tokens.
    pub hedges: Hedges,
    /// Requests that were answered with an answer of before, and the tokens of those answers.
    pub reused: (u64, u64),
    /// What was guessed ahead.
    pub guesses: Guesses,
    /// What the draft pool was asked, and what came of it.
    pub drafts: Drafts,
    /// Prompt tokens that were not found in caches, by cause, where the scenario asks for it.
    pub missed: Missed,
    /// What requests belong to.
    pub groups: Groups,
}

impl Simulated {
    /// What the fleet counted, for a report.
    pub const fn counts(&self) -> Counts {
        Counts {
            preemptions: self.preemptions,
            evictions: self.evictions,
            crashes: self.crashes,
            retries: self.retries,
            hedges: self.hedges.sent,
            hedges_won: self.hedges.won,
            hedge_tokens: self.hedges.tokens,
            reused: self.reused.0,
            drafted: self.guesses.drafted,
            right: self.guesses.right,
            drafts_asked: self.drafts.asked,
            drafts_served: self.drafts.served,
            drafts_worse: self.drafts.worse,
            missed: self.missed,
        }
    }
}

/// Runs a workload through a fleet. `watch` is told how many requests have ended, now and then.
///
/// # Errors
/// When the workload has a fault or the fleet cannot be.
pub fn simulate(
    scenario: &Scenario,
    sessions: Sessions,
    seed: u64,
    watch: &mut dyn FnMut(u64),
) -> Result<Simulated, SimulateError> {
    let mut simulation = Simulation::new(scenario, sessions, seed)?;
    simulation.begin()?;
    let mut events = 0_u64;
    while simulation.advance()? {
        events += 1;
        if events.is_multiple_of(LOOK_EVERY) {
            watch(length(simulation.recorder.samples().len()));
        }
    }
    Ok(simulation.result())
}

pub(super) struct Simulation<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) seed: u64,
    pub(super) sessions: Sessions,
    /// The next session of an open loop.
    pub(super) next: Option<Session>,
    pub(super) now: Instant,
    pub(super) agenda: Agenda,
    pub(super) gateways: Vec<Gateway>,
    /// By worker, and alike in every gateway.
    pub(super) ids: Vec<WorkerId>,
    pub(super) workers: Vec<Worker>,
    pub(super) flights: Places<Flight>,
    pub(super) visits: Places<Visit>,
    pub(super) recorder: Recorder,
    pub(super) watch: Watch,
    pub(super) asked: u64,
    pub(super) retried: u64,
    pub(super) hedges: Hedges,
    pub(super) answers: Option<Answers>,
    pub(super) reused: (u64, u64),
    pub(super) gatekeeper: Option<Gatekeeper>,
    pub(super) courses: Places<Course>,
    pub(super) ledger: Option<Ledger>,
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, sessions: Sessions, seed: u64) -> Result<Self, SimulateError> {
        let workers = all_workers(scenario)?;
        if !(1..=GATEWAYS_MAX).contains(&scenario.gateways) {
            return Err(SimulateError::Gateways(scenario.gateways));
        }
        let gateways: Vec<Gateway> =
            (0..scenario.gateways).map(|_| Gateway::new(scenario, &workers)).collect();
        let known = gateways.first().map(|gateway| gateway.router.fleet().workers());
        let ids = known.into_iter().flatten().map(|(id, _)| id).collect();
        Ok(Self {
            scenario,
            seed,
            sessions,
            next: None,
            now: Instant::ORIGIN,
            agenda: Agenda::default(),
            gateways,
            ids,
            workers,
            flights: Places::default(),
            visits: Places::default(),
            recorder: Recorder::new(),
            watch: Watch::default(),
            asked: 0,
            retried: 0,
            hedges: Hedges::default(),
            answers: scenario.cache.map(Answers::new),
            reused: (0, 0),
            gatekeeper: scenario.cascade.as_ref().map(Gatekeeper::new),
            courses: Places::default(),
            ledger: scenario.tells_missed.then(Ledger::default),
        })
    }

    fn begin(&mut self) -> Result<(), SimulateError> {
        self.begin_gateways();
        self.begin_refusing();
        match self.scenario.pace {
            Pace::Open => self.next = self.sessions.next().transpose()?,
            Pace::Closed(users) | Pace::Timed(users) => {
                for _ in 0..users.max(1) {
                    self.admit_next(self.now)?;
                }
            }
        }
        Ok(())
    }

    /// A user of a closed loop begins another session, if there is one, then or when the workload says.
    pub(super) fn admit_next(&mut self, at: Instant) -> Result<(), SimulateError> {
        if self.is_over(at) {
            return Ok(());
        }
        if let Some(session) = self.sessions.next().transpose()? {
            let is_timed = matches!(self.scenario.pace, Pace::Timed(_));
            let at = if is_timed { at.max(session.at) } else { at };
            self.admit(session, at);
        }
        Ok(())
    }

    /// Whether nothing new is asked any more then.
    pub(super) fn is_over(&self, at: Instant) -> bool {
        self.scenario.until.is_some_and(|until| Instant::ORIGIN + until <= at)
    }

    /// A session begins, unless its first turn would be due after the end.
    fn admit(&mut self, session: Session, at: Instant) {
        let think = session.turns.first().map_or(Micros::ZERO, |turn| turn.think);
        let due = at + think;
        if !self.is_over(due) {
            let visit = self.visits.add(Visit::new(session));
            self.agenda.enter(due, Event::Due(visit));
        }
    }

    /// Lets the next thing happen; false when nothing is left.
    fn advance(&mut self) -> Result<bool, SimulateError> {
        let begins = self.next.as_ref().map(|session| session.at);
        if let Some(at) = begins
            && self.agenda.next_at().is_none_or(|next| at <= next)
        {
            let following = self.sessions.next().transpose()?;
            if let Some(session) = std::mem::replace(&mut self.next, following) {
                self.admit(session, at);
            }
            return Ok(true);
        }
        let Some((at, event)) = self.agenda.take() else { return Ok(false) };
        self.now = at;
        match event {
            Event::Due(visit) => self.ask(visit)?,
            Event::Delivered(flight) => self.deliver(flight),
            Event::Joined(flight) => self.join_planned(flight),
            Event::Stepped(worker) => self.end_step(worker),
            Event::FirstToken(id) => {
                if self.is_left(id) {
                    return Ok(true);
                }
                let flight = self.flights.of(id);
                if let Some(placed) = &mut flight.placed {
                    let router = &mut self.gateways[flight.gateway].router;
                    router.first_token(placed, self.now);
                    router.refuted(&flight.tried, self.now);
                }
                self.win(id);
                self.tell_target_began(id);
                self.tell_missed(id);
                self.call_on();
            }
            Event::Late(id, watch, looks) => self.hedge(id, *watch, looks),
            Event::Progressed(flight, tokens) => {
                let flight = self.flights.of(flight);
                if let Some(placed) = &mut flight.placed {
                    let router = &mut self.gateways[flight.gateway].router;
                    router.progress(placed, Tokens::new(tokens), self.now);
                }
            }
            Event::Ended(flight) => {
                self.end(flight)?;
                self.call_on();
            }
            Event::Drafted(flight, dice, tokens) => self.draft_said(flight, dice, tokens)?,
            Event::Limit(course, dice) => self.give_up_draft(course, dice)?,
            Event::Returned(flight, worker) => self.return_to(flight, worker)?,
            Event::Expired => self.call_on(),
            Event::Scrape(gateway) => self.scrape(gateway),
            Event::Scraped(gateway, worker, scraped) => {
                self.gateways[gateway].router.scraped(self.ids[worker], *scraped);
                self.call_on();
            }
            Event::Told => self.tell(),
            Event::Heard(told) => self.hear(&told),
            Event::Gone(worker) => self.lose(worker),
            Event::Restarted(worker) => self.restart(worker),
            Event::CacheChanged(worker, changes) => {
                for gateway in &mut self.gateways {
                    gateway.cache_changed(self.ids[worker], self.scenario.page, &changes);
                }
            }
        }
        Ok(true)
    }

    /// The first token of a client's answer by the target has come.
    fn tell_target_began(&mut self, id: FlightId) {
        let flight = self.flights.of(id);
        let course = flight.course.filter(|_| flight.role == Role::Target);
        if let Some(course) = course.filter(|_| flight.continues == Tokens::ZERO) {
            self.report(course, overdraft_core::cascade::Event::TargetBegan);
        }
    }

    pub(super) fn record(&mut self, flight: &Flight) {
        let completed = flight.fate == Fate::Completed;
        // Who was answered from the response cache had no worker.
        let had = flight.source == Origin::Worker && flight.is_placed;
        let worker = had.then_some(flight.worker);
        self.recorder.sample(Sample {
            intended: flight.due,
            sent: flight.due,
            first_token: flight.first,
            ended: if completed { flight.last } else { self.now },
            prompt: flight.prompt_tokens.checked_sub(flight.continues).unwrap_or_default(),
            cached: (completed && flight.source == Origin::Worker).then_some(flight.cached),
            output: Tokens::new(flight.said),
            fate: flight.fate,
            cause: flight.cause,
            belongs: Belongs {
                pool: worker.map(|place| self.workers[place].pool),
                priority: flight.sender.priority,
                worker: worker.and_then(|place| u16::try_from(place).ok()),
                ..groups_of(flight)
            },
        });
    }

    /// What places in samples stand for.
    fn groups(&self) -> Groups {
        let told = |profile: &Profile, workers| PoolTold {
            name: profile.name(),
            workers,
            dollars_per_hour: profile.price_per_hour(),
        };
        let mut pools: Vec<PoolTold> =
            self.scenario.pools().map(|(profile, workers)| told(profile, workers)).collect();
        if let Some(cascade) = &self.scenario.cascade {
            let told = told(&cascade.draft, cascade.workers);
            pools.push(PoolTold { name: format!("drafts: {}", told.name), ..told });
        }
        let workers = self.workers.iter().map(Worker::told).collect();
        Groups { pools, workers, ..Groups::default() }
    }

    /// A worker that had crashed is there again, with nothing in its cache.
    fn restart(&mut self, worker: usize) {
        self.workers[worker].restart();
        for gateway in &mut self.gateways {
            gateway.restarted(self.ids[worker], &self.workers[worker], self.now);
        }
        self.call_on();
    }

    fn result(self) -> Simulated {
        let seconds = self.recorder.seconds();
        let counted = || self.workers.iter().map(Worker::counted);
        let guesses =
            self.workers.iter().map(Worker::guesses).fold(Guesses::default(), Guesses::and);
        Simulated {
            groups: self.groups(),
            missed: self.ledger.as_ref().map_or_else(Missed::default, |ledger| ledger.missed),
            series: self.watch.series(),
            cost: self.workers.iter().map(|worker| worker.profile.price_of(seconds)).sum(),
            preemptions: counted().map(|one| one.preemptions).sum(),
            evictions: counted().map(|one| one.evicted).sum(),
            crashes: self.workers.iter().map(|worker| worker.crashes).sum(),
            retries: self.retried,
            hedges: self.hedges,
            reused: self.reused,
            guesses,
            drafts: self.gatekeeper.as_ref().map_or_else(Drafts::default, |one| one.drafts),
            recorder: self.recorder,
        }
    }
}

/// The workers of both pools.
fn all_workers(scenario: &Scenario) -> Result<Vec<Worker>, SimulateError> {
    let drafts = scenario.cascade.as_ref().map_or(0, |cascade| cascade.workers);
    let counts = scenario.pools().map(|(_, workers)| workers);
    let all = counts.clone().fold(drafts, u32::saturating_add);
    let is_empty = counts.clone().any(|workers| workers == 0);
    if is_empty || WORKERS_MAX < all {
        return Err(SimulateError::Workers(if is_empty { 0 } else { all }));
    }
    scenario.mix.check()?;
    let mut workers = Vec::new();
    for (place, (profile, count)) in (0..).zip(scenario.pools()) {
        let (first, other) = (&scenario.profile.model.name, &profile.model.name);
        if first != other {
            let (first, other) = (first.clone(), other.clone());
            return Err(SimulateError::Models { first, other });
        }
        for _ in 0..count {
            workers.push(Worker::target(scenario, profile)?.of_pool(place));
        }
    }
    if let Some(cascade) = &scenario.cascade {
        if cascade.kinds.is_empty() || !cascade.kinds.iter().all(RequestKind::is_sound) {
            return Err(SimulateError::Kinds);
        }
        for _ in 0..cascade.workers {
            let pool = u16::try_from(scenario.others.len() + 1).unwrap_or(u16::MAX);
            workers.push(Worker::draft(scenario, &cascade.draft)?.of_pool(pool));
        }
    }
    Ok(workers)
}
