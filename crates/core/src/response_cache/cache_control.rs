//! Cache control: whether a request is looked up in the response cache and its answer stored.

/// Which answers may be served from the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// Nothing.
    Off,
    /// Answers to requests that ask for the likeliest tokens or bring a seed.
    #[default]
    Deterministic,
    /// All answers: a repeated request gets the first answer.
    All,
}

/// The cache directive of the request's headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Nothing.
    #[default]
    Unsaid,
    /// A cached answer will do, whatever the sampling.
    Reuse,
    /// The answer must be fresh, and may then be stored.
    Refresh,
    /// Neither look it up nor store it.
    Avoid,
}

/// What matters of a request's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Whether it asks for the likeliest tokens.
    pub is_greedy: bool,
    /// Whether it brings a seed.
    pub is_seeded: bool,
    /// Why there is no key for it, if there is none.
    pub without_key: Option<Bypass>,
}

/// Why a request is neither looked up nor kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// The configuration keeps this model or this key away.
    Off,
    /// The request's head says so.
    Asked,
    /// The answer is drawn anew each time.
    NotDeterministic,
    /// A field that nobody has judged.
    UnknownField,
    /// A field that nothing is cached with.
    Uncacheable,
    /// It refers to something that may change without it, as an image at an address.
    Outside,
    /// It can be read in two ways.
    Ambiguous,
    /// Its decision is to be explained, so it has to be taken.
    Explained,
}

impl Bypass {
    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Asked => "asked",
            Self::NotDeterministic => "not_deterministic",
            Self::UnknownField => "unknown_field",
            Self::Uncacheable => "uncacheable",
            Self::Outside => "outside",
            Self::Ambiguous => "ambiguous",
            Self::Explained => "explained",
        }
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It goes to a worker, and nothing is kept.
    Bypass(Bypass),
    /// It is looked up; its answer is kept where there was none.
    LookUp,
    /// It goes to a worker, and its answer is kept.
    Refresh,
}

/// Decides on a request: what the configuration lets, then what its head wishes, then its body.
pub fn plan(reuse: Reuse, wish: Wish, asked: Asked) -> Plan {
    if reuse == Reuse::Off {
        return Plan::Bypass(Bypass::Off);
    }
    if wish == Wish::Avoid {
        return Plan::Bypass(Bypass::Asked);
    }
    if let Some(why) = asked.without_key {
        return Plan::Bypass(why);
    }
    let any = reuse == Reuse::All || wish == Wish::Reuse;
    if !any && !asked.is_greedy && !asked.is_seeded {
        return Plan::Bypass(Bypass::NotDeterministic);
    }
    if wish == Wish::Refresh { Plan::Refresh } else { Plan::LookUp }
}

/// How the choices of an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Each with `stop` or `length`.
    Complete,
    /// One calls a tool.
    Calls,
    /// Another word, or none.
    Otherwise,
}

/// What matters of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// How its choices ended.
    pub finish: Finish,
    /// Whether it came to its clean end.
    pub is_whole: bool,
    /// Whether the status says that it is one.
    pub is_success: bool,
    /// Its size.
    pub bytes: u64,
}

/// Why an answer is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unkept {
    /// It is a refusal or an error.
    Negative,
    /// It broke off.
    BrokenOff,
    /// It calls a tool, which does something each time.
    Calls,
    /// It was withheld or given up.
    Unfinished,
    /// It is larger than an entry may be.
    TooLarge,
}

impl Unkept {
    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Negative => "negative",
            Self::BrokenOff => "broken_off",
            Self::Calls => "tool_calls",
            Self::Unfinished => "unfinished",
            Self::TooLarge => "too_large",
        }
    }
}

/// Why an answer is not kept, if it is not; entries have up to `bytes_max` bytes.
pub fn unkept(answered: Answered, bytes_max: u64) -> Option<Unkept> {
    if !answered.is_success {
        return Some(Unkept::Negative);
    }
    if !answered.is_whole {
        return Some(Unkept::BrokenOff);
    }
    match answered.finish {
        Finish::Calls => Some(Unkept::Calls),
        Finish::Otherwise => Some(Unkept::Unfinished),
        Finish::Complete => (bytes_max < answered.bytes).then_some(Unkept::TooLarge),
    }
}
