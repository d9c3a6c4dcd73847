//! Requests and sessions under way, in places that are used again.

use overdraft_core::route::Placed;
use overdraft_units::{Instant, TokenId, Tokens};

use super::agenda::VisitId;
use crate::report::Fate;
use crate::workload::{Piece, Session};

/// A request under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) visit: VisitId,
    /// The booking; taken when it ends.
    pub(super) placed: Option<Placed>,
    pub(super) worker: usize,
    /// The prompt until the worker takes it.
    pub(super) prompt: Vec<TokenId>,
    pub(super) prompt_tokens: Tokens,
    pub(super) answer: Piece,
    pub(super) due: Instant,
    /// Tokens of the answer so far.
    pub(super) said: u32,
    /// When the client saw the first and the last of them.
    pub(super) first: Option<Instant>,
    pub(super) last: Instant,
    pub(super) cached: Tokens,
    pub(super) fate: Fate,
}

/// A session under way.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) session: Session,
    /// The turn that is being asked, or will be next.
    pub(super) turn: usize,
}

/// Places of things that come and go.
#[derive(Debug)]
pub(super) struct Places<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Places<T> {
    pub(super) fn add(&mut self, thing: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self.places[index(place)] = Some(thing);
            return place;
        }
        self.places.push(Some(thing));
        u32::try_from(self.places.len() - 1).expect("fewer than 2^32 are under way at once")
    }

    pub(super) fn of(&mut self, place: u32) -> &mut T {
        self.places[index(place)].as_mut().expect("a place is named only while it is taken")
    }

    pub(super) fn remove(&mut self, place: u32) -> T {
        self.free.push(place);
        self.places[index(place)].take().expect("a place is named only while it is taken")
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

fn index(place: u32) -> usize {
    usize::try_from(place).expect("32 bits fit an index")
}
