//! Wait queue at the router: requests that no worker has room for yet.
//!
//! A request waits for the worker where it will finish its prefill soonest. An end or a report at
//! that worker opens its part of the queue; the shell then asks for the next request
//! ([`Router::call`]) and places it ([`Router::place_called`]), until none is called.

use overdraft_units::{Instant, Micros};

use super::placed_request::Placed;
use super::router::{Request, Router};
use super::routing_request::{Asked, model_number};
use super::settings::RouteSettings;
use super::{Attempted, Awaits, Choice, Tried};
use crate::admit::{
    Chain, Hold, Portion, Queue, QueueSettings, Refusal, Ticket, Wait, WaitTime, Waiter,
};
use crate::fleet::{Turn, WorkerId};
use crate::prefix::PrefixKey;

/// Wait after which a request that smaller ones overtake has its worker reserved.
const RESERVE_AFTER: Micros = Micros::new(2_000_000);

impl Router {
    /// Those who wait.
    pub const fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Other bounds of the queue from now on; who waits already, stays.
    pub const fn set_queue(&mut self, settings: QueueSettings) {
        self.queue.set(settings);
    }

    /// Lets a request wait for room at the worker that [`place`](Self::place) named.
    ///
    /// # Errors
    /// Why it may not, and when to come back; nothing has changed then.
    pub fn wait(
        &mut self,
        request: Request<'_>,
        wait: Wait,
        now: Instant,
    ) -> Result<Ticket, Refusal> {
        let Asked { ask, chain, chunk } = self.ask(request);
        let (prompt, completion) = (ask.prompt, ask.completion);
        let chain = Chain { keys: chain, chunk: chunk.get(), matched: 0 };
        let waiter = Waiter {
            priority: request.priority,
            tenant: request.tenant,
            model: model_number(request.model),
            tokens: u64::from(prompt.get()).saturating_add(u64::from(completion.get())),
            first_half: chain.first_half(prompt),
            awaits: wait.awaits,
            deadline: now + wait.time.patience,
            limit: now + wait.time.most,
        };
        self.queue.enter(waiter, wait.at, now)
    }

    /// Lets a request wait for so long until a worker of its model is up.
    ///
    /// # Errors
    /// Why it may not, and when to come back; nothing has changed then.
    pub fn hold(
        &mut self,
        request: Request<'_>,
        time: Micros,
        now: Instant,
    ) -> Result<Ticket, Refusal> {
        self.wait(request, Wait::for_room(WorkerId::NOBODY, WaitTime::exactly(time)), now)
    }

    /// Something is set otherwise: all who wait are called again.
    pub fn freed(&mut self) {
        self.queue.freed_all();
    }

    /// Whose turn it is, if a request waits: have it placed, or take it out, and call again.
    pub fn call(&mut self, now: Instant) -> Option<Ticket> {
        let Self { queue, fleet, .. } = self;
        let is_pinned = |at: WorkerId, key: PrefixKey| {
            fleet.is_member(at) && fleet.worker(at).forecast().pins(key)
        };
        queue.call(&is_pinned, now)
    }

    /// Places the request that was called; if there is no room for it after all, it waits on.
    ///
    /// # Errors
    /// The choice, where it is nobody. It waits on if that is [`Choice::Saturated`], or if it is held and still no worker
    /// is up, and not else.
    pub fn place_called(
        &mut self,
        ticket: Ticket,
        request: Request<'_>,
        settings: &RouteSettings,
        now: Instant,
    ) -> Result<Placed, Choice> {
        let first = Attempted { tried: &Tried::default(), turn: Turn::First };
        let placed = self.place_waiting(Some(ticket), request, settings, first, now);
        match placed {
            Ok(_) => self.decision.out_of_turn = self.queue.admitted(ticket, now),
            Err(Choice::Saturated { at, awaits, .. }) => {
                let is_first = self.queue.is_held(ticket);
                let hold = self.why_put_back(ticket, request, now);
                self.queue.put_back(ticket, at, awaits, hold);
                if is_first {
                    // Those behind it came later, and wait where it does.
                    self.queue.settle(model_number(request.model), at);
                }
            }
            Err(Choice::NoneUp | Choice::UnknownModel) if self.queue.is_held(ticket) => {
                self.queue.put_back(ticket, WorkerId::NOBODY, Awaits::Room, Hold::Reserved);
            }
            Err(_) => {
                self.queue.leave(ticket);
            }
        }
        placed
    }

    /// Why one that found no room waits on.
    fn why_put_back(&self, ticket: Ticket, request: Request<'_>, now: Instant) -> Hold {
        let waited = |(_, entered): (Waiter, Instant)| now.since(entered);
        match self.queue.waiter(ticket).map(waited) {
            _ if self.portion(request) != Portion::Within => Hold::Excess,
            Some(waited) if RESERVE_AFTER <= waited => Hold::Reserved,
            _ => Hold::Full,
        }
    }

    /// Takes one out that does not wait any more, called or not; whether it did.
    pub fn leave_queue(&mut self, ticket: Ticket) -> bool {
        self.queue.leave(ticket)
    }

    /// Until when one is kept whose time is over ([`Queue::keep`]).
    pub fn keep(&mut self, ticket: Ticket, now: Instant) -> Option<Instant> {
        self.queue.keep(ticket, now)
    }

    /// Takes out those whose time is over and who are not kept.
    pub fn expire(&mut self, now: Instant) -> alloc::vec::Vec<Ticket> {
        self.queue.expire(now)
    }
}
