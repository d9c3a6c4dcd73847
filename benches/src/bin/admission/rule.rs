//! Which rules start requests?

use overdraft_core::admit::{AdmitSettings, ByPriority, Mode};

/// A rule that says when a worker takes one more request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// What it reported is below this, in thousandths.
    Threshold(u16),
    /// What it holds by the gateway's books, and the prompt, are below this share of its cache.
    Ledger(u64),
    /// Prompts and declared lengths of all fit.
    Reserve,
    /// The predicted peak fits.
    Peak,
}

impl Rule {
    pub(crate) const THRESHOLDS: [Self; 2] = [Self::Threshold(850), Self::Threshold(950)];

    pub(crate) const ALL: [Self; 5] =
        [Self::Threshold(850), Self::Threshold(950), Self::Ledger(900), Self::Reserve, Self::Peak];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Threshold(permille) => format!("threshold {:.2}", f64::from(permille) / 1e3),
            Self::Ledger(_) => "ledger 0.90".to_owned(),
            Self::Reserve => "reserve".to_owned(),
            Self::Peak => "peak".to_owned(),
        }
    }

    pub(crate) fn settings(self) -> AdmitSettings {
        let mode = match self {
            Self::Threshold(_) => Mode::Threshold,
            // The simulation looks at the books itself.
            Self::Ledger(_) => Mode::Off,
            Self::Reserve => Mode::Reserve,
            Self::Peak => Mode::Peak,
        };
        let ordinary = AdmitSettings::default();
        let kv_threshold_permille = match self {
            Self::Threshold(all) => ByPriority { flex: all, default: all, priority: all },
            _ => ordinary.kv_threshold_permille,
        };
        AdmitSettings { mode, kv_threshold_permille, ..ordinary }
    }
}
