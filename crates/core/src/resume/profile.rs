//! Request profile: what a request asks for that decides how its stream may be resumed.

/// Something a request asks for that not every way can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// Tools that the model may call.
    Tools,
    /// A grammar, a schema or a forced choice.
    Grammar,
    /// Log probabilities.
    Logprobs,
    /// A presence penalty: what was told before would be charged twice (R8).
    Presence,
    /// A frequency penalty: carried by biases where ids are known (R8).
    Frequency,
    /// Pictures or sounds, which ids do not carry.
    Media,
    /// A member that nobody has judged.
    Unknown,
    /// The client itself has the last message continued.
    Prefilled,
}

/// A set of traits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits(u8);

impl Traits {
    const fn bit(of: Trait) -> u8 {
        1 << of as u8
    }

    /// The same with one more.
    #[must_use]
    pub const fn with(self, more: Trait) -> Self {
        Self(self.0 | Self::bit(more))
    }

    /// Whether it is among them.
    pub const fn has(self, one: Trait) -> bool {
        self.0 & Self::bit(one) != 0
    }
}

/// How tokens are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draws {
    /// The client says temperature 0: the same prompt gives the same answer.
    Greedy,
    /// The client gives a seed: the same request gives the same answer.
    Seeded(i64),
    /// Nobody can have the same answer again.
    Free,
}

/// In which form the prompt stands in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptForm {
    /// Messages of a chat.
    Messages,
    /// The text of a completion.
    Text,
    /// Token ids of a completion.
    Ids,
}

/// What resuming must know of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What it asks for that not every way can keep.
    pub traits: Traits,
    /// How its tokens are drawn.
    pub draws: Draws,
    /// Its prompt.
    pub prompt: PromptForm,
    /// Tokens of its answer at most, where it or its engine says.
    pub limit: Option<u32>,
    /// Tokens of its answer at least.
    pub least: u32,
}
