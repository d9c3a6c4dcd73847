//! Slab of requests and sessions in flight, in slots that are reused.

use overdraft_core::admit::BackPressure;
use overdraft_core::fleet::Failure;
use overdraft_core::prefix::{Chunking, PrefixChain, PrefixKey};
use overdraft_core::response_cache::Key;
use overdraft_core::route::{Placed, Tried};
use overdraft_units::{CacheSalt, Instant, TokenId, Tokens};

use super::bounds::{DRAFT_MODEL, MODEL, VOCABULARY};
use super::event_queue::{CourseId, FlightId, VisitId};
use super::miss_attribution::Held;
use crate::report::{Cause, Fate};
use crate::workload::{Piece, Sender, Session, Stage, Turn};

/// A request under way.
#[derive(Debug)]
pub(super) struct Flight {
    /// Who asks; nobody where an answer is only compared.
    pub(super) visit: Option<VisitId>,
    pub(super) role: Role,
    /// Its request's way through the cascade, where it reports to it.
    pub(super) course: Option<CourseId>,
    /// The gateway that was asked.
    pub(super) gateway: usize,
    /// The booking; taken when it ends. Elsewhere, because it is large and a token needs none of it.
    pub(super) placed: Option<Box<Placed>>,
    /// The workers that have failed it.
    pub(super) tried: Tried,
    /// How its last attempt failed, where another worker may do better.
    pub(super) failure: Option<Failure>,
    /// How long it has yet to wait for full workers, once they have turned it away.
    pub(super) pressure: Option<BackPressure>,
    pub(super) worker: usize,
    /// Whether it was ever sent to one.
    pub(super) is_placed: bool,
    /// Who asks.
    pub(super) sender: Sender,
    /// The prompt until the worker takes it.
    pub(super) prompt: Vec<TokenId>,
    pub(super) prompt_tokens: Tokens,
    /// The prompt's names until it is placed, where the policy asks for them.
    pub(super) keys: Vec<PrefixKey>,
    /// A number of its own.
    pub(super) dice: u64,
    /// Its session's number.
    pub(super) session: u64,
    /// What its answer is kept under, where answers are kept.
    pub(super) key: Option<Key>,
    /// The other attempt at the same request, while both are awaited.
    pub(super) other: Option<FlightId>,
    /// Whether equal requests of the same time wait for its answer.
    pub(super) leads: bool,
    pub(super) answer: Piece,
    /// Tokens of the answer that another model has said, and which count as its prompt.
    pub(super) continues: Tokens,
    /// Tokens that its client says the answer may have.
    pub(super) limit: Tokens,
    pub(super) due: Instant,
    /// When the model was asked that it is for.
    pub(super) asked: Instant,
    /// Tokens of the answer so far.
    pub(super) said: u32,
    /// When the client saw the first and the last of them.
    pub(super) first: Option<Instant>,
    pub(super) last: Instant,
    pub(super) cached: Tokens,
    /// When its worker takes it in, where that has planned a step ahead.
    pub(super) joins: Option<Instant>,
    /// What workers held of the prompt when it was sent.
    pub(super) held: Held,
    pub(super) source: Origin,
    pub(super) fate: Fate,
    /// Why it got no answer, where it got none.
    pub(super) cause: Option<Cause>,
    /// The load's stage that it came in.
    pub(super) stage: Stage,
}

impl Flight {
    /// Whether reports count it; what warms caches up they do not.
    pub(super) fn is_counted(&self) -> bool {
        self.stage != Stage::WarmUp
    }

    /// It ends without an answer.
    pub(super) const fn lose(&mut self, fate: Fate, cause: Cause) {
        (self.fate, self.cause) = (fate, Some(cause));
    }
}

/// What a request under way is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The target's answer.
    Target,
    /// A draft; one that nobody waits for has no visit.
    Draft,
    /// The target's score of a draft.
    Score,
    /// A draft or a score that nobody wants any more: it ends with its next token.
    GivenUp,
    /// An attempt at the target's answer whose other one was faster: it computes nothing more.
    Left,
}

impl Role {
    /// The model that is asked.
    pub(super) const fn model(self) -> &'static str {
        match self {
            Self::Target | Self::Score | Self::Left => MODEL,
            Self::Draft | Self::GivenUp => DRAFT_MODEL,
        }
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Worker,
    /// An answer was given again.
    Cache,
}

/// A session under way.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) session: Session,
    /// The turn that is being asked, or will be next.
    pub(super) turn: usize,
    /// The tokens of a prompt, where the next one may begin with them.
    tokens: Vec<TokenId>,
    /// Whose prompt that is.
    spelled: Option<usize>,
    /// Their names, where somebody asks for them.
    chain: Option<PrefixChain>,
}

impl Visit {
    pub(super) const fn new(session: Session) -> Self {
        Self { session, turn: 0, tokens: Vec::new(), spelled: None, chain: None }
    }

    /// The tokens of the prompt that is asked, with room for its answer, and their names where it is said
    /// how they are cut. Turns that go on from each other are not made anew.
    pub(super) fn prompt(&mut self, cut: Option<Chunking>) -> (Vec<TokenId>, Vec<PrefixKey>) {
        let Self { session, turn, tokens, spelled, chain } = self;
        let Turn { prompt: asked, answer, .. } = &session.turns[*turn];
        let answer = usize::try_from(answer.tokens.get()).unwrap_or(0);
        // Not always the turn before it: that one's answer may have been given again.
        let before = spelled.replace(*turn).map(|before| &session.turns[before].prompt);
        let shared = before.filter(|before| asked.starts_with(before)).map_or(0, Vec::len);
        if shared == 0 {
            tokens.clear();
            *chain = cut.map(|cut| PrefixChain::new(CacheSalt(0), cut));
        }
        let known = tokens.len();
        spell_all(&asked[shared..], tokens);
        let keys = chain.as_mut().map_or_else(Vec::new, |chain| {
            chain.push_tokens(&tokens[known..]);
            chain.keys().to_vec()
        });
        if *turn + 1 == session.turns.len() {
            return (std::mem::take(tokens), keys);
        }
        let mut prompt = Vec::with_capacity(tokens.len() + answer);
        prompt.extend_from_slice(tokens);
        (prompt, keys)
    }
}

/// Adds the tokens of these pieces.
pub(super) fn spell_all(pieces: &[Piece], tokens: &mut Vec<TokenId>) {
    for piece in pieces {
        tokens.extend((0..piece.tokens.get()).map(|place| piece.token(place, VOCABULARY)));
    }
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

    pub(super) fn get(&self, place: u32) -> Option<&T> {
        self.places.get(index(place))?.as_ref()
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
