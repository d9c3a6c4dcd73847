//! Kill switch: a change-detection test that stops a route from serving drafts.
//!
//! Two sequential tests (e-processes, tests by betting) run on the labels, each against a
//! hypothesis that must hold: that less than twice the allowed loss is served, and that drafts are
//! good often enough to pay. A bet's capital grows only where its hypothesis fails. A new bet
//! starts with every label and all are summed (Shiryaev–Roberts), so that a late change is found as
//! fast as an early one; a sound route is switched off within ten thousand labels with a chance of
//! 1 % at most, by Doob's inequality. `docs/design/cascade.md#r6`.

use alloc::vec::Vec;
use overdraft_units::Ratio;

use super::fixed_point::{ONE, parts, times};
use super::probability::Propensity;
use super::scorer::Label;
use super::snapshot::{PartsError, Reader, signed};
use super::threshold::Choice;

/// Horizon of the false-alarm bound: within this many labels a false alarm has a chance of 1 % at most.
pub const HORIZON_LABELS: u64 = 10_000;
/// Alarm threshold of a bet's capital: the horizon divided by that chance, for each of the two.
const ALARM: i64 = 2 * 1_000_000 * ONE;

/// Capital at which a young route goes on learning before it serves drafts.
const DOUBTFUL: i64 = 100 * ONE;

/// Labels while off after which switching on again is considered.
pub const CLEAN_LABELS: u32 = 100;

/// Stakes of the bets on harm: small stakes detect small harm, large ones large harm.
const STAKES: [i64; 2] = [2 * ONE, 10 * ONE];
/// Maximum stake of a bet, as one part in this many of its possible loss.
const STAKE_PART: i64 = 2;

/// Why a route is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffReason {
    /// The answers that were served are worse than is allowed by more than twice.
    Harm,
    /// The draft is as good too seldom to pay.
    Useless,
}

impl OffReason {
    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Harm => "harm",
            Self::Useless => "useless",
        }
    }
}

/// Whether drafts may be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They may.
    On,
    /// They may not.
    Off {
        /// For this.
        reason: OffReason,
        /// Labels of the present trial.
        tried: u32,
        /// Those of them that speak against switching on.
        bad: u32,
    },
}

/// What a label means for the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What the draft was worth.
    pub label: Label,
    /// Whose answer the bar chose, on or off.
    pub would: Choice,
    /// With which chance the label came to be known.
    pub propensity: Propensity,
    /// The least that chance could have been.
    pub least: Propensity,
}

/// The switch of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillSwitch {
    /// Twice the allowed loss.
    limit: i64,
    /// The share of good drafts that pays.
    pays: i64,
    harm: [i64; STAKES.len()],
    useless: i64,
    standing: Standing,
}

/// A route pays from this share of good drafts on at the lowest: below, nothing is learnt in time.
const PAYS_MIN: Ratio = Ratio::percent(5);
const PAYS_MAX: Ratio = Ratio::percent(60);

impl KillSwitch {
    /// On, for a route that may lose `loss` and pays from a share `break_even` of accepted drafts on, which is
    /// kept between 5 % and 60 %.
    pub fn new(loss: Ratio, break_even: Ratio) -> Self {
        Self {
            limit: parts(loss) * 2,
            pays: parts(break_even.clamp(PAYS_MIN, PAYS_MAX)),
            harm: [0; STAKES.len()],
            useless: 0,
            standing: Standing::On,
        }
    }

    /// Whether drafts may be served.
    pub const fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether the bet on a useless draft has won a hundredfold: too little to switch off, too much to serve.
    pub(super) const fn doubts(&self) -> bool {
        DOUBTFUL <= self.useless
    }

    /// Learns from a label, and says how things stand then.
    pub fn learn(&mut self, sample: &Sample) -> Standing {
        match self.standing {
            Standing::On => self.bet(sample),
            Standing::Off { reason, tried, bad } => self.trial(sample, reason, tried, bad),
        }
        self.standing
    }

    /// Learns which part of a draft the target accepted, where it verifies: a draft of which less is accepted than
    /// pays is useless too.
    pub fn learn_part(&mut self, accepted: Ratio) -> Standing {
        let accepted = parts(accepted);
        match self.standing {
            Standing::On => {
                self.doubt(ONE, accepted);
                self.look();
            }
            Standing::Off { reason, tried, bad } => {
                self.tried(reason, tried, bad + u32::from(accepted < self.pays));
            }
        }
        self.standing
    }

    fn bet(&mut self, sample: &Sample) {
        let lost = sample.label == Label::Worse && sample.would == Choice::Draft;
        let good = sample.label != Label::Worse;
        let known = u64::from(sample.propensity.chance().get());
        let weight = parts(Ratio::of(u64::from(sample.least.chance().get()).min(known), known));
        let beyond = if lost { ONE } else { 0 } - self.limit;
        for (money, stake) in self.harm.iter_mut().zip(STAKES) {
            let most = ONE * ONE / (STAKE_PART * self.limit.max(1));
            *money = grown(*money, stake.min(most), times(weight, beyond));
        }
        self.doubt(weight, if good { ONE } else { 0 });
        self.look();
    }

    /// Bets on drafts being good in a smaller part than pays.
    fn doubt(&mut self, weight: i64, good: i64) {
        // Three quarters of what could be lost: a draft that is never as good is found soonest.
        let stake = ONE * ONE / (ONE - self.pays) / 4 * 3;
        self.useless = grown(self.useless, stake, times(weight, self.pays - good));
    }

    /// Switches off where a bet has won too much.
    fn look(&mut self) {
        let bets = i64::try_from(STAKES.len()).unwrap_or(1);
        let reason = if ALARM <= self.harm.iter().sum::<i64>() / bets {
            OffReason::Harm
        } else if ALARM <= self.useless {
            OffReason::Useless
        } else {
            return;
        };
        self.harm = [0; STAKES.len()];
        self.useless = 0;
        self.standing = Standing::Off { reason, tried: 0, bad: 0 };
    }

    fn trial(&mut self, sample: &Sample, reason: OffReason, tried: u32, bad: u32) {
        let worse = sample.label == Label::Worse;
        let counts = match reason {
            OffReason::Harm => worse && sample.would == Choice::Draft,
            OffReason::Useless => worse,
        };
        self.tried(reason, tried, bad + u32::from(counts));
    }

    /// A route comes back when, of a hundred labels in a row, few enough were bad.
    fn tried(&mut self, reason: OffReason, tried: u32, bad: u32) {
        let tried = tried + 1;
        if tried < CLEAN_LABELS {
            self.standing = Standing::Off { reason, tried, bad };
            return;
        }
        let allowed = match reason {
            OffReason::Harm => self.limit,
            OffReason::Useless => ONE - self.pays - self.pays / 4,
        };
        let clean = i64::from(bad) * ONE <= i64::from(tried) * allowed;
        self.standing =
            if clean { Standing::On } else { Standing::Off { reason, tried: 0, bad: 0 } };
    }

    pub(super) fn write(&self, row: &mut Vec<i64>) {
        row.extend(self.harm);
        row.push(self.useless);
        row.extend(match self.standing {
            Standing::On => [0, 0, 0],
            Standing::Off { reason: OffReason::Harm, tried, bad } => [1, tried.into(), bad.into()],
            Standing::Off { reason: OffReason::Useless, tried, bad } => {
                [2, tried.into(), bad.into()]
            }
        });
    }

    pub(super) fn read(
        loss: Ratio,
        break_even: Ratio,
        row: &mut Reader<'_>,
    ) -> Result<Self, PartsError> {
        let mut read = Self::new(loss, break_even);
        for money in &mut read.harm {
            *money = row.natural().map(signed)?;
        }
        read.useless = row.natural().map(signed)?;
        let kind = row.within(0, 2)?;
        let tried = u32::try_from(row.within(0, CLEAN_LABELS.into())?).unwrap_or(0);
        let bad = u32::try_from(row.within(0, CLEAN_LABELS.into())?).unwrap_or(0);
        read.standing = match kind {
            0 => Standing::On,
            1 => Standing::Off { reason: OffReason::Harm, tried, bad },
            _ => Standing::Off { reason: OffReason::Useless, tried, bad },
        };
        Ok(read)
    }
}

/// What money comes to with one more unit put in before a bet of `stake` on `gain`.
fn grown(money: i64, stake: i64, gain: i64) -> i64 {
    let factor = ONE + times(stake, gain);
    times(money.saturating_add(ONE), factor.max(0)).min(4 * ALARM)
}
