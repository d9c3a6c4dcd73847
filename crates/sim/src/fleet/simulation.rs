//! The loop: what happens next, and what follows from it.

use overdraft_core::admit::{Priority, Tenant};
use overdraft_core::batch::{Progress, Verdict};
use overdraft_core::estimate::Kind;
use overdraft_core::fleet::{Ending, Failure, FirstToken, Probe, Turn, WorkerId};
use overdraft_core::prefix::{Chunking, EventFeed, PrefixChain, PrefixKey, PrefixLimits};
use overdraft_core::route::{Outcome, Prompt, Request, Router, Tried};
use overdraft_units::{CacheSalt, Instant, Micros, TokenId, Tokens};

use super::agenda::{Agenda, Event, FlightId, VisitId};
use super::flight::{Flight, Places, Visit};
use super::reports;
use super::scenario::{CacheKnowledge, Pace, Scenario, SimulateError, WORKERS_MAX};
use super::watch::Watch;
use super::worker::{PAGE, Worker};
use crate::numbers::{float, length};
use crate::report::{Fate, Recorder, Sample, Series};
use crate::workload::{Session, Sessions, named};

/// What all workers serve.
const MODEL: &str = "simulated";

/// Tokens that a vocabulary has; only their being equal counts.
const VOCABULARY: u32 = 128_000;

/// Keys that the gateway's index may hold, as the gateway's own default for a fleet of this size.
const INDEX: PrefixLimits = PrefixLimits { keys_max: 2 << 20 };

/// Events between two looks of whoever watches.
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

struct Simulation<'a> {
    scenario: &'a Scenario,
    seed: u64,
    sessions: Sessions,
    /// The next session of an open loop.
    next: Option<Session>,
    now: Instant,
    agenda: Agenda,
    router: Router,
    ids: Vec<WorkerId>,
    feeds: Vec<EventFeed>,
    workers: Vec<Worker>,
    flights: Places<Flight>,
    visits: Places<Visit>,
    recorder: Recorder,
    watch: Watch,
    asked: u64,
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, sessions: Sessions, seed: u64) -> Result<Self, SimulateError> {
        if !(1..=WORKERS_MAX).contains(&scenario.workers) {
            return Err(SimulateError::Workers(scenario.workers));
        }
        let mut router = Router::new(INDEX);
        let (mut ids, mut feeds, mut workers) = (Vec::new(), Vec::new(), Vec::new());
        let models = [MODEL.to_owned()];
        for number in 0..u64::from(scenario.workers) {
            let Some(id) = router.join(named(&[0x776f_726b, number])) else { break };
            router.probed(id, Probe::Ready(&models), Instant::ORIGIN);
            let worker = Worker::new(scenario)?;
            router.scraped(id, worker.scraped(Instant::ORIGIN));
            if scenario.knowledge == CacheKnowledge::Reported {
                feeds.push(reports::begin(&mut router, id));
            }
            ids.push(id);
            workers.push(worker);
        }
        Ok(Self {
            scenario,
            seed,
            sessions,
            next: None,
            now: Instant::ORIGIN,
            agenda: Agenda::default(),
            router,
            ids,
            feeds,
            workers,
            flights: Places::default(),
            visits: Places::default(),
            recorder: Recorder::new(),
            watch: Watch::default(),
            asked: 0,
        })
    }

    fn begin(&mut self) -> Result<(), SimulateError> {
        self.agenda.enter(self.now + self.scenario.scrape_every, Event::Scrape);
        match self.scenario.pace {
            Pace::Open => self.next = self.sessions.next().transpose()?,
            Pace::Closed(users) => {
                for _ in 0..users.max(1) {
                    self.admit_next()?;
                }
            }
        }
        Ok(())
    }

    /// A user of a closed loop begins another session, if there is one.
    fn admit_next(&mut self) -> Result<(), SimulateError> {
        if let Some(session) = self.sessions.next().transpose()? {
            self.admit(session, self.now);
        }
        Ok(())
    }

    fn admit(&mut self, session: Session, at: Instant) {
        let think = session.turns.first().map_or(Micros::ZERO, |turn| turn.think);
        let visit = self.visits.add(Visit { session, turn: 0 });
        self.agenda.enter(at + think, Event::Due(visit));
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
            Event::Stepped(worker) => self.end_step(worker),
            Event::FirstToken(flight) => {
                let flight = self.flights.of(flight);
                if let Some(placed) = &mut flight.placed {
                    self.router.first_token(placed, self.now);
                }
            }
            Event::Ended(flight) => self.end(flight)?,
            Event::Scrape => self.scrape(),
            Event::Scraped(worker, scraped) => self.router.scraped(self.ids[worker], scraped),
            Event::CacheChanged(worker, changes) => {
                let feed = &mut self.feeds[worker];
                reports::apply(&mut self.router, self.ids[worker], feed, &changes);
            }
        }
        Ok(true)
    }

    /// A session asks its next turn: the gateway decides.
    fn ask(&mut self, visit: VisitId) -> Result<(), SimulateError> {
        let Visit { session, turn } = self.visits.of(visit);
        let name = session.name;
        let asked = &session.turns[*turn];
        let (answer, prompt_tokens) = (asked.answer, asked.prompt_tokens());
        let prompt: Vec<TokenId> = asked
            .prompt
            .iter()
            .flat_map(|piece| (0..piece.tokens.get()).map(|place| piece.token(place, VOCABULARY)))
            .collect();
        self.asked += 1;
        let keys = self.keys(&prompt);
        let request = Request {
            model: MODEL,
            prompt: Prompt::Counted { tokens: prompt_tokens, chain: &keys, block: PAGE },
            limit: Some(answer.tokens.get()),
            choices: 1,
            first_token: FirstToken::Seen,
            session: Some(name),
            dice: named(&[self.seed, self.asked]),
            priority: Priority::default(),
            tenant: Tenant::default(),
            kind: Kind::default(),
        };
        let turn = (&Tried::default(), Turn::First);
        let placed = self.router.place(request, &self.scenario.routing, turn, self.now);
        let mut flight = Flight {
            visit,
            placed: None,
            worker: 0,
            prompt,
            prompt_tokens,
            answer,
            due: self.now,
            said: 0,
            first: None,
            last: self.now,
            cached: Tokens::ZERO,
            fate: Fate::Completed,
        };
        let Ok(mut placed) = placed else {
            flight.fate = Fate::Refused;
            let flight = self.flights.add(flight);
            return self.end(flight);
        };
        self.router.remember(&mut placed, request.prompt, self.now);
        flight.worker = placed.worker().index();
        flight.placed = Some(placed);
        let ingest = u64::from(prompt_tokens.get()) * self.scenario.ingest_ns_per_token / 1_000;
        let flight = self.flights.add(flight);
        let at = self.now + self.scenario.network + Micros::new(ingest);
        self.agenda.enter(at, Event::Delivered(flight));
        Ok(())
    }

    /// The prompt's names, where the policy asks for them.
    fn keys(&self, prompt: &[TokenId]) -> Vec<PrefixKey> {
        let routing = &self.scenario.routing;
        let canary = routing.canary.is_some();
        if !routing.policy.asks_for_prefixes() && !canary {
            return Vec::new();
        }
        let mut chain = PrefixChain::new(CacheSalt(0), Chunking::Tokens(PAGE));
        chain.push_tokens(prompt);
        chain.keys().to_vec()
    }

    /// A request has come to its worker.
    fn deliver(&mut self, id: FlightId) {
        let flight = self.flights.of(id);
        let (worker, output) = (flight.worker, flight.answer.tokens);
        let prompt = std::mem::take(&mut flight.prompt);
        let verdict = self.workers[worker].handle_arrival(id, prompt, output, self.now);
        if matches!(verdict, Verdict::Refused(_)) {
            flight.fate = Fate::Refused;
            self.agenda.enter(self.now + self.scenario.network, Event::Ended(id));
            return;
        }
        self.begin_step(worker);
    }

    fn begin_step(&mut self, worker: usize) {
        if let Some(takes) = self.workers[worker].plan_step(&self.scenario.profile, self.now) {
            self.agenda.enter(self.now + takes, Event::Stepped(worker));
        }
    }

    /// A worker has computed a step: its tokens go out, and the next step begins.
    fn end_step(&mut self, worker: usize) {
        let seen = self.now + self.scenario.network;
        let Self { flights, recorder, agenda, .. } = self;
        let mut tokens = 0;
        self.workers[worker].handle_step(self.now, |id, cached| {
            let flight = flights.of(id);
            let token = flight.answer.token(flight.said, VOCABULARY);
            flight.said += 1;
            tokens += 1;
            if flight.first.is_none() {
                flight.first = Some(seen);
                flight.cached = cached;
                agenda.enter(seen, Event::FirstToken(id));
            } else {
                recorder.gap(seen.since(flight.last));
            }
            flight.last = seen;
            if flight.said < flight.answer.tokens.get() {
                return (token, Progress::Continues);
            }
            agenda.enter(seen, Event::Ended(id));
            (token, Progress::Finished)
        });
        recorder.tokens(seen, tokens);
        if self.scenario.knowledge == CacheKnowledge::Reported {
            let changes = self.workers[worker].changes();
            if !changes.is_empty() {
                self.agenda.enter(seen, Event::CacheChanged(worker, changes));
            }
        }
        self.begin_step(worker);
    }

    /// An answer is over: it is recorded, and its session goes on.
    fn end(&mut self, id: FlightId) -> Result<(), SimulateError> {
        let flight = self.flights.remove(id);
        self.record(&flight);
        if let Some(placed) = flight.placed {
            let outcome = match flight.fate {
                Fate::Completed => Outcome {
                    ending: Ending::Answered,
                    prompt: Some(flight.prompt_tokens),
                    cached: Some(flight.cached),
                    completion: Some(Tokens::new(flight.said)),
                },
                Fate::Refused | Fate::Failed => Outcome::of(Ending::Failed(Failure::Saturated)),
            };
            self.router.end(placed, outcome, self.now);
        }
        let visit = self.visits.of(flight.visit);
        visit.turn += 1;
        // Who got no answer does not go on talking.
        let following = visit.session.turns.get(visit.turn);
        let following = following.filter(|_| flight.fate == Fate::Completed);
        if let Some(think) = following.map(|turn| turn.think) {
            self.agenda.enter(self.now + think, Event::Due(flight.visit));
            return Ok(());
        }
        self.visits.remove(flight.visit);
        match self.scenario.pace {
            Pace::Open => Ok(()),
            Pace::Closed(_) => self.admit_next(),
        }
    }

    fn record(&mut self, flight: &Flight) {
        let completed = flight.fate == Fate::Completed;
        self.recorder.sample(Sample {
            intended: flight.due,
            sent: flight.due,
            first_token: flight.first,
            ended: if completed { flight.last } else { self.now },
            prompt: flight.prompt_tokens,
            cached: completed.then_some(flight.cached),
            output: Tokens::new(flight.said),
            fate: flight.fate,
        });
    }

    /// Workers are asked for their load. Asked again only while something can still happen.
    fn scrape(&mut self) {
        let told: Vec<_> = self.workers.iter().map(|worker| worker.scraped(self.now)).collect();
        self.watch.see(self.now, &told);
        self.router.tick(self.now);
        let taken_in = self.now + self.scenario.scrape_delay;
        for (worker, scraped) in told.into_iter().enumerate() {
            self.agenda.enter(taken_in, Event::Scraped(worker, scraped));
        }
        if self.next.is_some() || 0 < self.visits.count() {
            self.agenda.enter(self.now + self.scenario.scrape_every, Event::Scrape);
        }
    }

    fn result(self) -> Simulated {
        let times = || self.recorder.samples().iter();
        let first = times().map(|sample| sample.intended).min().unwrap_or(Instant::ORIGIN);
        let last = times().map(|sample| sample.ended).max().unwrap_or(Instant::ORIGIN);
        let seconds = float(last.since(first).get()) / 1e6;
        Simulated {
            series: self.watch.series(),
            cost: self.scenario.profile.price_of(seconds) * f64::from(self.scenario.workers),
            preemptions: self.workers.iter().map(Worker::preemptions).sum(),
            recorder: self.recorder,
        }
    }
}
