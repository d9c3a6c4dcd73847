//! Discrete-event simulation of a gate before a drawn draft.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use overdraft_core::cascade::{
    Ask, Cascade, Choice, Delivery, Evidence, Judgement, Label, Mode, Moment, Settings, Upshot,
    Waited,
};
use overdraft_units::{Micros, Ratio, Tokens};
use serde::Serialize;

use super::draw::{Form, Request, WINDOW, World, loss};
use super::pool::{Call, Pool, micros, seconds};
use super::{BOUND_REQUESTS, LEARNT_REQUESTS};

/// What came of a gate. Times are beside those of the target alone, over the first requests.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Outcome {
    pub(crate) first: f64,
    pub(crate) end: f64,
    /// The share of answers that were worse.
    pub(crate) loss: f64,
    /// The interval that the cascade states for it.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The share of the target's price that was saved once the gate had learnt, and from the start.
    pub(crate) saving: f64,
    pub(crate) saving_from_start: f64,
}

impl Outcome {
    pub(crate) fn is_loss_within_interval(&self) -> bool {
        (self.low..=self.high).contains(&self.loss)
    }
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives(usize),
    /// A draft has come to its verdict, or to its limit, after so many microseconds.
    Verdict(usize, u64),
    /// An answer that the draft gave is whole.
    DraftEnds(usize, u64),
    /// The target's answer is whole.
    TargetEnds(usize),
    /// Both answers are there and can be compared.
    Compared(usize),
}

/// What is kept of a request under way.
#[derive(Clone, Copy, Debug)]
struct Way {
    asked: Ask,
    /// What the draft comes to; nothing where it fails or is given up.
    draft_end: Option<f64>,
    judgement: Option<Judgement>,
    first: f64,
    end: f64,
    paid: f64,
    is_lost: bool,
}

struct Run<'a> {
    world: &'a World,
    requests: &'a [Request],
    cascade: Cascade,
    pool: Pool,
    ways: Vec<Way>,
    agenda: BinaryHeap<Reverse<(u64, Event)>>,
    now: f64,
}

/// Runs all requests through a gate.
pub(crate) fn gate(world: &World, requests: &[Request]) -> Outcome {
    let settings = Settings {
        mode: Mode::Gate,
        loss: loss(world),
        break_even: Ratio::of(micros(world.price), 1_000_000),
        first: Tokens::new(WINDOW),
        ..Settings::default()
    };
    let way = Way {
        asked: Ask::Target,
        draft_end: None,
        judgement: None,
        first: 0.0,
        end: 0.0,
        paid: 0.0,
        is_lost: false,
    };
    let mut run = Run {
        world,
        requests,
        cascade: Cascade::new(settings),
        pool: Pool::new(world.draft_workers()),
        ways: vec![way; requests.len()],
        agenda: BinaryHeap::new(),
        now: 0.0,
    };
    for (place, request) in requests.iter().enumerate() {
        run.agenda.push(Reverse((micros(request.at), Event::Arrives(place))));
    }
    while let Some(Reverse((at, event))) = run.agenda.pop() {
        run.now = seconds(at);
        run.handle(event);
    }
    run.outcome()
}

impl Run<'_> {
    fn enter(&mut self, after: f64, event: Event) {
        self.agenda.push(Reverse((micros(self.now + after), event)));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrives(place) => self.arrive(place),
            Event::Verdict(place, took) => self.verdict(place, Micros::new(took)),
            Event::DraftEnds(place, took) => {
                let waited = self.waited(place);
                let traits = self.requests[place].traits;
                let payback = self.cascade.payback_mut();
                payback.handle_draft_end(&traits, Micros::new(took), waited);
            }
            Event::TargetEnds(place) => {
                let Request { traits, target, .. } = &self.requests[place];
                let first = (traits.delivery == Delivery::Streamed)
                    .then(|| Micros::new(micros(target.first)));
                let end = Micros::new(micros(target.end));
                self.cascade.payback_mut().handle_target(traits, first, end);
            }
            Event::Compared(place) => self.compare(place),
        }
    }

    fn waited(&self, place: usize) -> Waited {
        if self.ways[place].asked == Ask::Draft { Waited::Client } else { Waited::Nobody }
    }

    fn arrive(&mut self, place: usize) {
        let request = &self.requests[place];
        let asked = self.cascade.ask(&request.traits, request.dice);
        self.ways[place].asked = asked;
        if asked != Ask::Draft {
            self.ask_target(place, 0.0);
        }
        if asked == Ask::Target {
            return;
        }
        if asked == Ask::Draft {
            self.cascade.payback_mut().handle_start();
        }
        let limit = seconds(self.cascade.payback().limit(&request.traits).get());
        // Behind the verdict on a window the rest is told as it comes.
        let form = self.world.form;
        let takes = request.draft.map_or(f64::INFINITY, |times| times.end);
        let takes = request.fails.map_or(takes, |fails| fails.min(takes));
        let until = request.draft.map_or(f64::INFINITY, |times| times.verdict(form));
        let until = if request.fails.is_some() { takes } else { until };
        let held = if until <= limit && form == Form::Windowed { f64::INFINITY } else { limit };
        let call = self.pool.call(self.now, takes, held);
        let verdict = match call {
            Call::Left => limit,
            Call::Begins(waits) => (waits + until).min(limit),
        };
        let is_told = verdict < limit && request.fails.is_none();
        let end = request.draft.filter(|_| is_told).map(|times| verdict - until + times.end);
        self.ways[place].draft_end = end;
        self.ways[place].paid += self.world.price;
        self.enter(verdict, Event::Verdict(place, micros(verdict)));
    }

    /// The target is asked after so long.
    fn ask_target(&mut self, place: usize, after: f64) {
        let target = self.requests[place].target;
        let way = &mut self.ways[place];
        (way.first, way.end) = (after + target.first, after + target.end);
        way.paid += 1.0;
        self.enter(target.end, Event::TargetEnds(place));
    }

    fn evidence(&self, place: usize) -> Evidence {
        let request = &self.requests[place];
        request.evidence(self.cascade.evidence(request.traits))
    }

    fn verdict(&mut self, place: usize, took: Micros) {
        let Way { asked, draft_end, .. } = self.ways[place];
        let (traits, waited) = (self.requests[place].traits, self.waited(place));
        let Some(end) = draft_end else {
            let payback = self.cascade.payback_mut();
            payback.handle_verdict(&traits, took, Upshot::Failed, waited);
            if asked == Ask::Draft {
                self.ask_target(place, seconds(took.get()));
            }
            return;
        };
        let evidence = self.evidence(place);
        // What is only compared is judged when it is whole, as it is live.
        let is_window = self.world.form == Form::Windowed && asked == Ask::Draft;
        let moment = if is_window { Moment::First } else { Moment::Whole };
        let drawn = self.requests[place].dice.rotate_left(17);
        let judgement = self.cascade.judge(moment, &evidence, asked, drawn);
        self.ways[place].judgement = Some(judgement);
        let payback = self.cascade.payback_mut();
        payback.handle_verdict(&traits, took, judgement.upshot(), waited);
        let is_given = judgement.serve == Choice::Draft;
        let rest = (end - seconds(took.get())).max(0.0);
        let target = self.requests[place].target.end;
        if is_given {
            let shown = if traits.delivery == Delivery::Whole { end } else { seconds(took.get()) };
            let is_lost = self.requests[place].is_worse;
            let way = &mut self.ways[place];
            (way.first, way.end, way.is_lost) = (shown, end, is_lost);
            way.paid += if judgement.checked { 1.0 } else { 0.0 };
        } else if asked == Ask::Draft {
            self.ask_target(place, seconds(took.get()));
        }
        if is_given || waited == Waited::Nobody {
            self.enter(rest, Event::DraftEnds(place, micros(end)));
        }
        if judgement.checked {
            self.enter(rest.max(target), Event::Compared(place));
        }
    }

    fn compare(&mut self, place: usize) {
        let Some(judgement) = self.ways[place].judgement else { return };
        let is_worse = self.requests[place].is_worse;
        let label = if is_worse { Label::Worse } else { Label::AsGood };
        let evidence = self.evidence(place);
        self.cascade.learn(&judgement, &evidence, label);
    }

    fn outcome(&self) -> Outcome {
        let first = |request: &Request| match request.traits.delivery {
            Delivery::Streamed => request.target.first,
            Delivery::Whole => request.target.end,
        };
        let seen = |way: &Way, request: &Request| match request.traits.delivery {
            Delivery::Streamed => way.first,
            Delivery::Whole => way.end,
        };
        let both = || self.ways.iter().zip(self.requests);
        let ratio = |ours: f64, alone: f64| ours / alone;
        let bound = || both().take(BOUND_REQUESTS);
        let saving = |from: usize| {
            let paid: f64 = self.ways.iter().skip(from).map(|way| way.paid).sum();
            1.0 - paid / overdraft_claims::as_float(self.ways.len() - from)
        };
        let share = |chance: Ratio| f64::from(chance.get()) / 1e6;
        let interval = self.cascade.report().loss.interval();
        let lost = self.ways.iter().filter(|way| way.is_lost).count();
        Outcome {
            first: ratio(
                bound().map(|(way, request)| seen(way, request)).sum(),
                bound().map(|(_, request)| first(request)).sum(),
            ),
            end: ratio(
                bound().map(|(way, _)| way.end).sum(),
                bound().map(|(_, request)| request.target.end).sum(),
            ),
            loss: overdraft_claims::as_float(lost) / overdraft_claims::as_float(self.ways.len()),
            low: share(interval.low),
            high: share(interval.high),
            saving: saving(LEARNT_REQUESTS),
            saving_from_start: saving(0),
        }
    }
}
