//! Cascade modes: off, gate, verify and shadow.

/// How a route uses drafts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The target answers.
    #[default]
    Off,
    /// The draft's answer is served where its score reaches the threshold.
    Gate,
    /// The target scores the draft and continues after the accepted prefix.
    Verify,
    /// The target answers; some requests are drafted besides, to learn what a gate would do.
    Shadow,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Off, Self::Gate, Self::Verify, Self::Shadow];

    /// As the configuration and metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Gate => "gate",
            Self::Verify => "verify",
            Self::Shadow => "shadow",
        }
    }

    /// The mode of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
