//! One run: requests come, wait, are placed, grow and end, all in virtual time.

use std::collections::{BTreeMap, VecDeque};

use overdraft_claims::{as_float, percentile};
use overdraft_core::admit::{
    Awaits, Hold, Priority, Queue, QueueSettings, Tenant, Ticket, Wait, WaitTime, Waiter,
};
use overdraft_core::estimate::Kind;
use overdraft_core::fleet::{Ending, FirstToken, Probe, Scraped, Turn, WorkerId};
use overdraft_core::prefix::PrefixLimits;
use overdraft_core::route::{
    Attempted, Choice, Outcome, Placed, Prompt, Request, RouteSettings, Router, Tried,
};
use overdraft_sim::float_conversion::float;
use overdraft_units::{BlockSize, Instant, Micros, Tokens};
use serde::Serialize;

use super::load::{Job, Workload};
use super::rule::Rule;
use super::worker::{BLOCK, Event, Worker};

const WORKERS: u64 = 2;
const MODEL: &str = "model";

/// How often workers are asked how loaded they are.
const SCRAPE_EVERY: u64 = 500_000;

/// Tokens of a stream after which its progress is told.
const PROGRESS_TOKENS: u32 = 32;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) tokens_per_second: f64,
    /// Those of requests that ended and were more than flex.
    pub(crate) useful_per_second: f64,
    /// Preemptions.
    pub(crate) preempted: f64,
    /// Preemptions for a thousand requests that ended.
    pub(crate) preempted_permille: f64,
    /// Positions computed more than once, as a share of all.
    pub(crate) recomputed_percent: f64,
    /// From arrival to first token, in seconds.
    pub(crate) first_token_p50: f64,
    pub(crate) first_token_p95: f64,
}

impl Figures {
    pub(crate) fn mean(all: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / as_float(all.len());
        Self {
            tokens_per_second: mean(|one| one.tokens_per_second),
            useful_per_second: mean(|one| one.useful_per_second),
            preempted: mean(|one| one.preempted),
            preempted_permille: mean(|one| one.preempted_permille),
            recomputed_percent: mean(|one| one.recomputed_percent),
            first_token_p50: mean(|one| one.first_token_p50),
            first_token_p95: mean(|one| one.first_token_p95),
        }
    }

    #[expect(clippy::print_stdout, reason = "a bench reports to its terminal")]
    pub(crate) fn print(&self, workload: &str, rule: &str) {
        println!(
            "{workload:<13}{rule:<16}{:>9.0}{:>9.0}{:>11.1}{:>13.1}{:>10.1}%{:>8.2}s{:>8.2}s",
            self.tokens_per_second,
            self.useful_per_second,
            self.preempted,
            self.preempted_permille,
            self.recomputed_percent,
            self.first_token_p50,
            self.first_token_p95
        );
    }
}

/// A request that is under way.
struct Running {
    placed: Placed,
    told: u32,
}

struct Simulation {
    workload: Workload,
    rule: Rule,
    settings: RouteSettings,
    router: Router,
    ids: Vec<WorkerId>,
    workers: Vec<Worker>,
    queue: Queue,
    jobs: Vec<Job>,
    /// Which job each ticket is for.
    tickets: BTreeMap<Ticket, u64>,
    running: BTreeMap<u64, Running>,
    /// Reports on their way, and when they count.
    reports: VecDeque<(u64, usize, Scraped)>,
    tally: Tally,
    now: u64,
}

#[derive(Default)]
struct Tally {
    tokens: u64,
    ended: u64,
    /// Tokens of those that ended and were more than flex.
    useful: u64,
    first_tokens: Vec<f64>,
    /// Preemptions and positions before the warm-up was over.
    before: (u64, u64),
    /// Prompt and answer tokens of what was started since, each once.
    needed: u64,
}

/// Runs `workload` under `rule` for so many seconds.
pub(crate) fn simulate(workload: Workload, rule: Rule, seed: u64, seconds: u32) -> Figures {
    let mut simulation = Simulation::new(workload, rule, workload.jobs(seed, seconds));
    simulation.run(u64::from(seconds) * 1_000_000);
    simulation.figures(u64::from(seconds) * 1_000_000)
}

impl Simulation {
    fn new(workload: Workload, rule: Rule, jobs: Vec<Job>) -> Self {
        let mut router = Router::new(PrefixLimits::default());
        let ids: Vec<WorkerId> = (0..WORKERS).map_while(|tag| router.join(tag)).collect();
        for &id in &ids {
            router.probed(id, Probe::Ready(&[MODEL.to_owned()]), Instant::ORIGIN);
        }
        let workers: Vec<Worker> = ids.iter().map(|_| Worker::new(workload.blocks())).collect();
        for (&id, worker) in ids.iter().zip(&workers) {
            router.scraped(id, worker.report(0));
        }
        let settings = RouteSettings { admission: rule.settings(), ..RouteSettings::default() };
        let bounds =
            QueueSettings { requests: 1 << 16, tokens: u64::MAX, per_tenant: 1 << 16, held: 0 };
        Self {
            workload,
            rule,
            settings,
            router,
            ids,
            workers,
            queue: Queue::new(bounds),
            jobs,
            tickets: BTreeMap::new(),
            running: BTreeMap::new(),
            reports: VecDeque::new(),
            tally: Tally::default(),
            now: 0,
        }
    }

    fn job(&self, number: u64) -> Job {
        self.jobs[usize::try_from(number).unwrap_or(0)]
    }

    fn instant(&self) -> Instant {
        Instant::ORIGIN + Micros::new(self.now)
    }

    fn run(&mut self, end: u64) {
        let (mut arrived, mut scrape_at) = (0, 0);
        let mut warm = false;
        while self.now < end {
            let arrival = self.jobs.get(arrived).map(|job| job.at);
            let report = self.reports.front().map(|report| report.0);
            let step = self.workers.iter().filter_map(|worker| worker.done_at).min();
            let next = [arrival, report, step].into_iter().flatten().min();
            self.now = next.unwrap_or(end).min(scrape_at).min(end);
            if !warm && self.workload.warm_up() <= self.now {
                warm = true;
                self.begin_to_count();
            }
            if arrival == Some(self.now) {
                self.enter(arrived);
                arrived += 1;
            } else if scrape_at == self.now {
                self.scrape();
                scrape_at += SCRAPE_EVERY;
            } else if report == Some(self.now) {
                self.hear();
            } else if step == Some(self.now) {
                self.step();
            }
            self.start();
        }
    }

    fn begin_to_count(&mut self) {
        let sum = |of: fn(&Worker) -> u64| self.workers.iter().map(of).sum();
        let preempted = sum(|worker| worker.stats().preemptions);
        let computed = sum(|worker| worker.stats().positions_computed);
        self.tally = Tally { before: (preempted, computed), ..Tally::default() };
    }

    fn enter(&mut self, place: usize) {
        let job = self.jobs[place];
        let now = self.instant();
        let deadline = Instant::ORIGIN + Micros::new(job.at + self.workload.patience());
        let time = WaitTime::exactly(deadline.since(now));
        let waiter = Waiter {
            priority: job.priority,
            tenant: Tenant(job.tenant),
            model: 0,
            tokens: u64::from(job.prompt) + 1,
            first_half: None,
            awaits: Awaits::Room,
            deadline,
            limit: deadline,
        };
        let number = u64::try_from(place).unwrap_or(0);
        let entered = if self.is_ledger() {
            // What another rule says waits in one line, as it would without the router's own.
            self.queue.enter(waiter, self.ids[0], now)
        } else {
            let turn = Attempted { tried: &Tried::default(), turn: Turn::First };
            match self.router.place(self.request(number), &self.settings, turn, now) {
                Ok(placed) => return self.send(number, placed),
                Err(Choice::Saturated { at, awaits, .. }) => {
                    self.router.wait(self.request(number), Wait { at, awaits, time }, now)
                }
                Err(_) => return,
            }
        };
        if let Ok(ticket) = entered {
            self.tickets.insert(ticket, number);
        }
    }

    const fn is_ledger(&self) -> bool {
        matches!(self.rule, Rule::Ledger(_))
    }

    fn scrape(&mut self) {
        for (place, worker) in self.workers.iter().enumerate() {
            self.reports.push_back((
                self.now + self.workload.scrape_age(),
                place,
                worker.report(self.now),
            ));
        }
    }

    fn hear(&mut self) {
        let Some((_, place, report)) = self.reports.pop_front() else { return };
        self.router.scraped(self.ids[place], report);
        self.queue.freed(self.ids[0]);
    }

    fn step(&mut self) {
        let mut events = Vec::new();
        for worker in &mut self.workers {
            if worker.done_at == Some(self.now) {
                worker.step_done(self.now, &mut events);
            }
        }
        for event in events {
            self.tally.tokens += 1;
            match event {
                Event::Grew(number, has) => self.grew(number, has),
                Event::Ended(number, has) => self.ended(number, has),
            }
        }
        self.queue.freed(self.ids[0]);
    }

    fn grew(&mut self, number: u64, has: u32) {
        let (now, job) = (self.instant(), self.job(number));
        let Some(running) = self.running.get_mut(&number) else { return };
        if has == 1 {
            self.router.first_token(&mut running.placed, now);
            if job.tenant == 0 {
                self.tally.first_tokens.push(waited(&self.jobs, number, self.now));
            }
            self.tally.needed += u64::from(running.placed.demand().prompt.get());
        } else if running.told + PROGRESS_TOKENS <= has {
            running.told = has;
            self.router.progress(&mut running.placed, Tokens::new(has), now);
        }
    }

    fn ended(&mut self, number: u64, has: u32) {
        let now = self.instant();
        let Some(running) = self.running.remove(&number) else { return };
        let completion = Some(Tokens::new(has));
        self.router.end(
            running.placed,
            Outcome { completion, ..Outcome::of(Ending::Answered) },
            now,
        );
        self.tally.ended += 1;
        if Priority::Flex < self.job(number).priority {
            self.tally.useful += u64::from(has);
        }
    }

    /// Starts whoever may be started.
    fn start(&mut self) {
        let now = self.instant();
        let over = self.queue.expire(now).into_iter().chain(self.router.expire(now));
        for ticket in over.collect::<Vec<_>>() {
            // Who waited in vain has waited for as long as that, at least.
            if let Some(number) = self.tickets.remove(&ticket)
                && self.job(number).tenant == 0
            {
                self.tally.first_tokens.push(waited(&self.jobs, number, self.now));
            }
        }
        while let Some(ticket) = self.queue.call(&|_, _| false, now) {
            let Some(&number) = self.tickets.get(&ticket) else { continue };
            if let Some(placed) = self.place(number) {
                self.queue.admitted(ticket, now);
                self.tickets.remove(&ticket);
                self.send(number, placed);
            } else {
                self.queue.put_back(ticket, self.ids[0], Awaits::Room, Hold::Full);
            }
        }
        while let Some(ticket) = self.router.call(now) {
            let Some(&number) = self.tickets.get(&ticket) else { continue };
            let request = self.request(number);
            match self.router.place_called(ticket, request, &self.settings, now) {
                Ok(placed) => {
                    self.tickets.remove(&ticket);
                    self.send(number, placed);
                }
                Err(Choice::Saturated { .. }) => {}
                Err(_) => drop(self.tickets.remove(&ticket)),
            }
        }
    }

    fn request(&self, number: u64) -> Request<'static> {
        let job = self.job(number);
        Request {
            model: MODEL,
            prompt: Prompt::Counted {
                tokens: Tokens::new(job.prompt),
                chain: &[],
                block: BlockSize::new(16).expect("sixteen is not zero"),
            },
            limit: Some(job.limit),
            choices: 1,
            first_token: FirstToken::Seen,
            session: None,
            dice: number,
            priority: job.priority,
            tenant: Tenant(job.tenant),
            kind: Kind(0),
        }
    }

    fn place(&mut self, number: u64) -> Option<Placed> {
        let job = self.job(number);
        let request = self.request(number);
        let now = self.instant();
        if let Rule::Ledger(permille) = self.rule {
            let decision = self.router.explain(request, &self.settings, &Tried::default(), now);
            let Choice::Send(id) = decision.choice else { return None };
            let held = self.router.fleet().worker(id).expected_use() + u64::from(job.prompt);
            if u64::from(BLOCK * self.workload.blocks()) * permille / 1_000 < held {
                return None;
            }
        }
        let turn = Attempted { tried: &Tried::default(), turn: Turn::First };
        self.router.place(request, &self.settings, turn, now).ok()
    }

    fn send(&mut self, number: u64, placed: Placed) {
        let job = self.job(number);
        let place = self.ids.iter().position(|id| *id == placed.worker());
        let worker = &mut self.workers[place.expect("it was placed on one of these")];
        worker.send(number, &job, self.now);
        self.running.insert(number, Running { placed, told: 0 });
    }

    fn figures(&self, end: u64) -> Figures {
        let preempted: u64 = self.workers.iter().map(|worker| worker.stats().preemptions).sum();
        let computed: u64 =
            self.workers.iter().map(|worker| worker.stats().positions_computed).sum();
        let preempted = float(preempted - self.tally.before.0);
        let computed = float(computed - self.tally.before.1);
        let needed = float(self.tally.needed + self.tally.tokens);
        let percent = |percent| percentile(self.tally.first_tokens.clone(), percent);
        Figures {
            useful_per_second: float(self.tally.useful) * 1e6
                / float(end - self.workload.warm_up()),
            tokens_per_second: float(self.tally.tokens) * 1e6
                / float(end - self.workload.warm_up()),
            preempted,
            preempted_permille: preempted * 1_000.0 / float(self.tally.ended.max(1)),
            recomputed_percent: (computed - needed).max(0.0) * 100.0 / computed.max(1.0),
            first_token_p50: percent(50),
            first_token_p95: percent(95),
        }
    }
}

fn waited(jobs: &[Job], number: u64, now: u64) -> f64 {
    let at = usize::try_from(number).ok().and_then(|place| jobs.get(place)).map_or(0, |job| job.at);
    float(now - at) / 1e6
}
