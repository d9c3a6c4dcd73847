//! Controller interface: the inputs of the speculation controller, and its outputs.

use alloc::vec::Vec;

use overdraft_units::Tokens;

use super::allocation::{Drafter, Grant};
use super::confidence::Pursuit;
use crate::batch::DraftRoom;
use overdraft_units::Ratio;

/// The load of the next step and the state of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Decode and prefill tokens of the step, and the room for drafts.
    pub room: DraftRoom,
    /// Sequences that wait.
    pub waiting: u32,
    /// Share of the key-value cache that is held.
    pub held: Ratio,
    /// Preemptions so far.
    pub preemptions: u64,
}

/// The outcome of one draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The kind of text.
    pub class: u64,
    /// Who guessed.
    pub drafter: Drafter,
    /// Tokens guessed.
    pub drafted: usize,
    /// The first so many were right.
    pub right: usize,
}

/// What the next step guesses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// One for each prospect, in their order.
    pub grants: Vec<Grant>,
    /// How far each draft of the draft model is pursued, in the same order.
    pub pursuits: Vec<Pursuit>,
}

/// Why the depth is what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// Nothing has changed it yet.
    #[default]
    Start,
    /// An operator set the policy, or its rule chose.
    Policy,
    /// Deeper brings more.
    PaysMore,
    /// What is guessed does not bring what it costs.
    PaysLess,
    /// The cache is full, or a sequence was just preempted.
    CacheFull,
    /// Prompts wait, and rows are what is short.
    Queue,
}

impl Reason {
    /// As metrics and logs call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Policy => "policy",
            Self::PaysMore => "pays-more",
            Self::PaysLess => "pays-less",
            Self::CacheFull => "cache-full",
            Self::Queue => "queue",
        }
    }
}

/// A step that does nothing but decode, for those who only have a number of sequences.
impl Load {
    /// So many sequences decode, and guesses may have `room` rows.
    pub fn decoding(decodes: u32, room: u32) -> Self {
        let room = DraftRoom { decodes, prefill: Tokens::ZERO, room: Tokens::new(room) };
        Self { room, ..Self::default() }
    }
}
