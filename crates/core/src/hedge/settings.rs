//! Hedging settings: whether a second attempt is sent for a late first token, and what all of them may cost.

/// Whether requests are hedged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Never.
    #[default]
    Off,
    /// Where a first token is later than usual and another worker is faster and has room.
    On,
}

/// Limits of hedging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HedgeSettings {
    /// Whether requests are hedged at all.
    pub mode: Mode,
    /// Prompt tokens that second attempts may compute, in thousandths of all tokens that were served.
    pub budget_permille: u16,
}

impl Default for HedgeSettings {
    fn default() -> Self {
        Self { mode: Mode::Off, budget_permille: 50 }
    }
}
