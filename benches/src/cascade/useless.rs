//! Kill switch delay with a useless draft, and false alarms with a sound one (S5).
//!
//! Simulated requests. A draft of random weights is as surprised by its own words as by any, and never as good.

use crate::Dice;
use overdraft_claims::{Aim, Claim, as_float, percentile};
use overdraft_core::cascade::{
    Cascade, Choice, Evidence, HORIZON_LABELS, KillSwitch, Label, LogProb, Mode, Moment,
    Observation, Propensity, Sample, Settings, Standing, Traits,
};
use overdraft_units::{Ratio, Tokens};
use serde::Serialize;

/// No route is watched for longer.
const REQUESTS_MAX: usize = 5_000;
/// The surprise of random weights over 2,048 tokens, in millionths of a nat.
const CLUELESS: i64 = -7_625_000;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Useless {
    seeds: u64,
    /// Requests until each was off.
    off_after: Vec<f64>,
    /// Drafts that were served until then.
    served: usize,
    /// Sound routes that were switched off within the horizon.
    false_alarms: u64,
}

pub(crate) fn simulate(seeds: u64) -> Useless {
    let mut served = 0;
    let off_after = (0..seeds).map(|seed| as_float(until_off(seed, &mut served))).collect();
    let false_alarms = (0..seeds).map(|seed| u64::from(is_off(seed))).sum();
    Useless { seeds, off_after, served, false_alarms }
}

fn until_off(seed: u64, served: &mut usize) -> usize {
    let mut dice = Dice::new(seed);
    let first = Tokens::new(8);
    let settings = Settings { mode: Mode::Gate, first, ..Settings::default() };
    let mut cascade = Cascade::new(settings);
    for request in 1..=REQUESTS_MAX {
        let traits = Traits { prompt: Tokens::new(100), ..Traits::default() };
        let asked = cascade.ask(&traits, dice.any());
        let mut evidence = Evidence::new(traits, first);
        for _ in 0..24 {
            let noise = i64::try_from(dice.below(1_000_000)).unwrap_or(0);
            let logprob = LogProb::micronats(CLUELESS + noise);
            evidence.observe(Observation { logprob, margin: None, entropy: None, digit: false });
        }
        let judgement = cascade.judge(Moment::Whole, &evidence, asked, dice.any());
        *served += usize::from(judgement.serve == Choice::Draft);
        if judgement.checked && cascade.learn(&judgement, &evidence, Label::Worse) != Standing::On {
            return request;
        }
    }
    REQUESTS_MAX
}

/// A route at the edge of what it may be: twice the loss, and as many good drafts as just pay.
fn is_off(seed: u64) -> bool {
    let mut dice = Dice::new(seed);
    let mut switch = KillSwitch::new(Ratio::percent(1), Ratio::percent(10));
    (0..HORIZON_LABELS).any(|_| {
        let lost = Ratio::percent(2).happens(dice.any());
        let good = !lost && Ratio::of(10, 98).happens(dice.any());
        let sample = Sample {
            label: if good { Label::AsGood } else { Label::Worse },
            would: if lost { Choice::Draft } else { Choice::Target },
            propensity: Propensity::CERTAIN,
            least: Propensity::CERTAIN,
        };
        switch.learn(&sample) != Standing::On
    })
}

impl Useless {
    pub(crate) fn print(&self) {
        println!(
            "\nsimulated: a useless draft, {} seeds: off after {:.0} requests (half of the seeds), {:.0} (95 %); {} drafts served",
            self.seeds,
            percentile(self.off_after.clone(), 50),
            percentile(self.off_after.clone(), 95),
            self.served
        );
        println!(
            "a sound route at the edge, {} seeds of {HORIZON_LABELS} labels: {} false alarms",
            self.seeds, self.false_alarms
        );
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        let claim = |figure: &str, measured: f64, aim| Claim {
            demonstration: "S5",
            figure: figure.to_owned(),
            measured: Ok(measured),
            aim,
        };
        let latest = percentile(self.off_after.clone(), 100);
        let alarms = usize::try_from(self.false_alarms).unwrap_or(usize::MAX);
        let seeds = usize::try_from(self.seeds).unwrap_or(usize::MAX);
        let alarms = 100.0 * as_float(alarms) / as_float(seeds);
        vec![
            claim("requests_until_off_most", latest, Aim::AtMost(500.0)),
            claim("useless_drafts_served", as_float(self.served), Aim::AtMost(0.0)),
            claim("false_alarms_percent", alarms, Aim::AtMost(1.0)),
        ]
    }
}
