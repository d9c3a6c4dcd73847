//! Pinned prefixes of one worker: cache blocks that requests in flight share are counted once.
//!
//! A prompt is a chain of keys, each of which names the whole prefix up to it, so two requests share
//! exactly the part up to the last key that both chains have. Looking at every key would take too
//! long, so a chain is cut into *pieces* at every 512 tokens, at growing distances in long prompts. It
//! is also cut where the worker was said to have the prompt up to: that is where a system prompt ends,
//! and the next request with it is cut there too. A piece that one request holds is that request's own; a piece
//! that several hold is *shared*, and becomes own again when all but one have ended.
//!
//! Invariant: shared tokens and the own tokens of all requests add up to the tokens that they pin.

use alloc::vec::Vec;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use overdraft_units::Tokens;

use crate::prefix::PrefixKey;

/// Distance between two cuts, in tokens, at the front of a prompt.
const PIECE_TOKENS: u32 = 512;

/// The distance doubles after so many cuts: a prompt of 128,000 tokens has some 130.
const PIECES_TO_AN_OCTAVE: u32 = 32;

/// Cuts of one prompt at most.
const PIECES_MAX: usize = 256;

/// A prompt as far as its blocks can be told from others'.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain<'a> {
    pub(crate) keys: &'a [PrefixKey],
    /// Tokens that each key stands for.
    pub(crate) chunk: u32,
    /// Keys up to where the worker is said to have the prompt.
    pub(crate) matched: u32,
}

impl Chain<'_> {
    /// The numbers of keys after which a chain is cut, but for `matched`.
    fn cuts(self) -> impl Iterator<Item = u32> {
        let stride = (PIECE_TOKENS / self.chunk.max(1)).max(1);
        let count = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        let after = move |&(cut, made): &(u32, u32)| {
            let step = stride.checked_shl(made / PIECES_TO_AN_OCTAVE)?;
            Some((cut.checked_add(step)?, made + 1))
        };
        let cuts = core::iter::successors(Some((stride, 1)), after).map(|(cut, _)| cut);
        cuts.take_while(move |&cut| cut <= count).take(PIECES_MAX)
    }

    /// The key of the first cut, `matched` aside, that has at least half of a prompt of so many tokens before it.
    /// Whoever else pins it shares as much; `None` for a prompt too short to be cut there.
    pub(crate) fn first_half(self, prompt: Tokens) -> Option<PrefixKey> {
        let half = prompt.get().div_ceil(2);
        let mut cuts = self.cuts();
        self.key(cuts.find(|cut| half <= cut.saturating_mul(self.chunk))?)
    }

    fn key(self, cut: u32) -> Option<PrefixKey> {
        self.keys.get((cut as usize).checked_sub(1)?).copied()
    }
}

/// A stretch of a prompt, named by the key at its end.
#[derive(Clone, Copy, Debug)]
struct Piece {
    key: PrefixKey,
    tokens: u32,
    /// Requests in flight that hold it.
    requests: u32,
    /// Their places, folded by exclusive or: the place of the last one when it is alone.
    places: usize,
}

/// Tokens that become a request's own, or stop being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift {
    pub(super) place: usize,
    pub(super) tokens: u32,
}

/// The pieces that requests in flight hold on one worker.
#[derive(Debug, Default)]
pub(super) struct Pinned {
    pieces: HashTable<Piece>,
    /// By place: the keys of the pieces that a request holds.
    held: Vec<Vec<PrefixKey>>,
    /// Tokens that several requests hold.
    shared: u64,
    /// Whose own tokens the last change touched.
    shifts: Vec<Shift>,
}

impl Pinned {
    pub(super) const fn new() -> Self {
        Self { pieces: HashTable::new(), held: Vec::new(), shared: 0, shifts: Vec::new() }
    }

    /// Tokens that several requests hold.
    pub(super) const fn shared(&self) -> u64 {
        self.shared
    }

    /// Tokens at the front of a prompt that requests in flight hold already.
    pub(super) fn held_of(&self, chain: Chain<'_>) -> u32 {
        if self.pieces.is_empty() || chain.keys.is_empty() {
            return 0;
        }
        let is_held = |cut: u32| chain.key(cut).is_some_and(|key| self.has(key));
        if is_held(chain.matched) {
            // Cuts beyond what the worker is said to have are held by nobody, or it would be more.
            return chain.matched.saturating_mul(chain.chunk);
        }
        let mut held = 0;
        for cut in chain.cuts() {
            if !is_held(cut) {
                break;
            }
            held = cut;
        }
        held.saturating_mul(chain.chunk)
    }

    /// Whether a request in flight holds the prompt up to this key, where it was cut there.
    pub(super) fn has(&self, key: PrefixKey) -> bool {
        self.pieces.find(key.bits(), |one| one.key == key).is_some()
    }

    /// The request at `place` holds a prompt; whose own tokens become shared by that. Its own are
    /// those of its prompt without the tokens that are returned.
    pub(super) fn pin(&mut self, place: usize, chain: Chain<'_>) -> (u32, &[Shift]) {
        self.shifts.clear();
        if self.held.len() <= place {
            self.held.resize_with(place + 1, Vec::new);
        }
        debug_assert!(self.held[place].is_empty(), "a request is pinned once");
        let (mut before, mut common) = (0, 0);
        let mut matched = Some(chain.matched).filter(|&cut| 0 < cut);
        let mut cuts = chain.cuts().peekable();
        loop {
            // The cut at the match stands between two others, or is one of them.
            let cut = match (cuts.peek().copied(), matched) {
                (Some(next), Some(at)) if next < at => cuts.next(),
                (next, Some(at)) => {
                    if next == Some(at) {
                        cuts.next();
                    }
                    matched.take()
                }
                (_, None) => cuts.next(),
            };
            let Some(cut) = cut else { break };
            let Some(key) = chain.key(cut) else { break };
            common += self.hold(place, key, (cut - before).saturating_mul(chain.chunk));
            before = cut;
        }
        (common, &self.shifts)
    }

    /// Takes a piece; its tokens, if others have it.
    fn hold(&mut self, place: usize, key: PrefixKey, tokens: u32) -> u32 {
        self.held[place].push(key);
        let found = self.pieces.entry(key.bits(), |one| one.key == key, |one| one.key.bits());
        let piece = match found {
            Entry::Vacant(vacant) => {
                vacant.insert(Piece { key, tokens, requests: 1, places: place });
                return 0;
            }
            Entry::Occupied(occupied) => occupied.into_mut(),
        };
        if piece.requests == 1 {
            self.shared += u64::from(piece.tokens);
            let shift = Shift { place: piece.places, tokens: piece.tokens };
            note(&mut self.shifts, shift);
        }
        piece.requests += 1;
        piece.places ^= place;
        piece.tokens
    }

    /// The request at `place` has ended; whose own its tokens become.
    pub(super) fn release(&mut self, place: usize) -> &[Shift] {
        self.shifts.clear();
        let Some(held) = self.held.get_mut(place) else { return &[] };
        for key in held.drain(..) {
            let found = self.pieces.find_entry(key.bits(), |one| one.key == key);
            let Ok(mut entry) = found else { continue };
            let piece = entry.get_mut();
            piece.requests -= 1;
            piece.places ^= place;
            match piece.requests {
                0 => {
                    entry.remove();
                }
                1 => {
                    self.shared -= u64::from(piece.tokens);
                    let shift = Shift { place: piece.places, tokens: piece.tokens };
                    note(&mut self.shifts, shift);
                }
                _ => {}
            }
        }
        &self.shifts
    }
}

/// Mostly all pieces are of one request.
fn note(shifts: &mut Vec<Shift>, shift: Shift) {
    match shifts.last_mut() {
        Some(last) if last.place == shift.place => last.tokens += shift.tokens,
        _ => shifts.push(shift),
    }
}
