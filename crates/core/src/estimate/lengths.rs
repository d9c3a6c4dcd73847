//! How long will an answer get, given how long it is already?

/// What kind of request it is, as a number: equal for requests whose answers are alike in length.
/// The path it came by, and whatever else the shell knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u64);
