//! Admission rules under comparison: thresholds, reservation and the predicted peak.

use overdraft_core::admit::{AdmitSettings, ByPriority, Mode};

use super::load::Workload;

/// A rule that says when a worker takes one more request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// What it reported is below this, in thousandths.
    Threshold(u16),
    /// What it holds by the gateway's books, and the prompt, are below this share of its cache.
    Ledger(u64),
    /// Prompts and declared lengths of all fit.
    Reserve,
    /// At most so many requests on each worker.
    Static(u32),
    /// The predicted peak fits.
    Peak,
}

impl Rule {
    pub(crate) const THRESHOLDS: [Self; 2] = [Self::Threshold(850), Self::Threshold(950)];

    const STATIC: [Self; 5] =
        [Self::Static(14), Self::Static(18), Self::Static(22), Self::Static(26), Self::Static(30)];

    /// Those that are tried on a workload.
    pub(crate) fn of(workload: Workload) -> Vec<Self> {
        let mut rules = match workload {
            Workload::Shared | Workload::Flooded => Vec::new(),
            Workload::Chat | Workload::LongOutput => Self::THRESHOLDS.to_vec(),
            Workload::Burst => [Self::THRESHOLDS.to_vec(), Self::STATIC.to_vec()].concat(),
        };
        if !workload.has_tenants() {
            rules.extend([Self::Ledger(900), Self::Reserve]);
        }
        rules.push(Self::Peak);
        rules
    }

    /// Whether it goes by a count alone.
    pub(crate) const fn is_static(self) -> bool {
        matches!(self, Self::Static(_))
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Threshold(permille) => format!("threshold {:.2}", f64::from(permille) / 1e3),
            Self::Ledger(_) => "ledger 0.90".to_owned(),
            Self::Reserve => "reserve".to_owned(),
            Self::Static(most) => format!("static {most}"),
            Self::Peak => "peak".to_owned(),
        }
    }

    pub(crate) fn settings(self) -> AdmitSettings {
        let mode = match self {
            Self::Threshold(_) => Mode::Threshold,
            // The simulation looks at the books itself.
            Self::Ledger(_) => Mode::Off,
            Self::Reserve => Mode::Reserve,
            Self::Static(most) => Mode::Static(most),
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
