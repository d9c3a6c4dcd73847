//! Request class: a group of similar requests with a threshold of its own.
//!
//! A class is one tenant's requests on a route with prompts of similar length and the same script,
//! and with the same response format. All of that is known before the draft starts, so that a class
//! can be sent to the target at once.

use overdraft_units::Tokens;

use crate::hash_mix::mix;

/// Maximum classes with a threshold of their own; all other requests share one.
pub const CLASSES_MAX: usize = 64;

/// Bytes of a prompt that are read to detect its script.
const SCRIPT_BYTES_MAX: usize = 1_024;

/// The script of most of a prompt: a cheap approximation of its language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Script {
    /// Plain letters.
    #[default]
    Latin,
    /// A tenth and more of its characters are brackets, operators and the like.
    Code,
    /// A tenth and more of its characters are beyond ASCII.
    Other,
}

impl Script {
    /// The script of the first 1,024 bytes of `text`.
    pub fn of(text: &str) -> Self {
        let (mut all, mut signs, mut beyond) = (0_usize, 0_usize, 0_usize);
        for letter in text.chars().take(SCRIPT_BYTES_MAX) {
            all += 1;
            beyond += usize::from(!letter.is_ascii());
            signs += usize::from("{}[]();=<>_+*/\\|&#\"".contains(letter));
        }
        if all <= beyond * 10 && 0 < beyond {
            Self::Other
        } else if all <= signs * 10 && 0 < signs {
            Self::Code
        } else {
            Self::Latin
        }
    }
}

/// What an answer is bound to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bound {
    /// Free text.
    #[default]
    Free,
    /// JSON, or JSON that keeps to a schema.
    Schema,
    /// Tools are offered.
    Tools,
}

/// When a client sees its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Delivery {
    /// When it is whole.
    #[default]
    Whole,
    /// As it comes: the first token counts as well.
    Streamed,
}

/// What is known of a request before it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// The tenant, hashed.
    pub tenant: u64,
    /// The route: the served model's name, hashed.
    pub route: u64,
    /// How long the prompt is.
    pub prompt: Tokens,
    /// What it is written in.
    pub script: Script,
    /// What the answer is bound to be.
    pub bound: Bound,
    /// When the client sees it. It says nothing of what a draft is worth, so classes do not know it.
    pub delivery: Delivery,
}

/// Requests that are judged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u64);

impl Class {
    /// The class that a number names; equal numbers are equal classes.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Traits {
    /// Prompts of 0 to 127, to 511, to 2,047, to 8,191 tokens and longer ones are told apart.
    pub fn class(&self) -> Class {
        let (script, bound) = (self.script as u64, self.bound as u64);
        let kind = (u64::from(self.octaves()) << 8) | (script << 4) | bound;
        Class(mix(mix(self.tenant, self.route), kind))
    }

    /// The size of the prompt, as one of five.
    pub(super) fn size(&self) -> usize {
        usize::try_from(self.octaves()).unwrap_or(0)
    }

    fn octaves(&self) -> u32 {
        (self.prompt.get().max(1).ilog2().saturating_sub(5) / 2).min(4)
    }
}
