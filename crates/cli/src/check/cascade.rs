//! Cascade check: the break-even acceptance rate, and how much a cascade can accept at all.
//!
//! It is computed from prices and the allowed loss before anything is served, so that an operator
//! learns beforehand that a draft cannot pay for itself.

use overdraft_config::{Cascade, CascadeMode, Config};
use overdraft_core::cost::{Pools, Reach, Shape, Verification, break_even, feasibility};
use overdraft_units::{Ratio, Tokens};

use super::finding::{Finding, Report, Verdict};
use crate::parity::{self, Mismatch};

/// The shapes of requests that are evaluated: prompt and answer.
const SHAPES: [(&str, u32, u32); 3] =
    [("chat", 1_000, 250), ("long prompt", 8_000, 250), ("long answer", 500, 1_000)];

/// How often a draft may be worse: what that means is told before it is known.
const RISKS: [u32; 4] = [5, 10, 20, 40];

/// One report for each cascade; those of `differing` are refused.
pub(super) fn reports(config: &Config, differing: &[Mismatch]) -> Vec<Report> {
    let report =
        |(name, cascade): (&String, &Cascade)| {
            let mut findings = vec![pays(name, cascade), feasible(cascade)];
            let mismatch = differing.iter().find(|one| one.cascade == *name);
            findings.extend(mismatch.map(|one| {
                Finding::new("tokenizers", Verdict::Fail, &one.message).hint(parity::HINT)
            }));
            Report::of(name, findings)
        };
    config.cascades.iter().map(report).collect()
}

/// From which share of accepted drafts on it costs less than the target alone.
fn pays(name: &str, cascade: &Cascade) -> Finding {
    let settings = crate::settings::cascade(name, cascade);
    let target = &settings.target;
    let who = format!("`{}` before `{target}`", settings.draft);
    let Some([draft, target]) = settings.prices else {
        let message = format!("{who}: break-even not known");
        return Finding::new("break-even", Verdict::Warn, message)
            .hint("name `prices` of both models, in dollars per million tokens");
    };
    let how = match cascade.mode {
        CascadeMode::Verify => Verification::Whole,
        _ => Verification::None,
    };
    let pools = Pools { draft, target, ..Pools::default() };
    let shares = SHAPES.map(|(kind, prompt, completion)| {
        let shape = Shape {
            prompt: Tokens::new(prompt),
            cached_draft: Tokens::ZERO,
            cached_target: Tokens::ZERO,
            completion: Tokens::new(completion),
        };
        let reach = break_even(&shape, &pools, how).money;
        (kind, reach.map(Reach::share))
    });
    let told = shares.map(|(kind, share)| match share {
        Some(Some(share)) => format!("{kind} {}", percent(share)),
        Some(None) => format!("{kind} never"),
        None => format!("{kind} not known"),
    });
    let message = format!("{who}: pays from accepted drafts of: {}", told.join(", "));
    if shares.iter().any(|(_, share)| *share == Some(None)) {
        return Finding::new("break-even", Verdict::Warn, message).hint(
            "some requests cost more than the target alone, whatever is accepted: a cheaper draft, or `mode: gate`",
        );
    }
    Finding::new("break-even", Verdict::Ok, message)
}

/// How much can be accepted, by how often the draft is worse.
fn feasible(cascade: &Cascade) -> Finding {
    let loss = cascade.loss.ratio();
    if cascade.mode == CascadeMode::Verify {
        let message = "verified answers are the target's own: nothing is lost";
        return Finding::new("feasibility", Verdict::Ok, message);
    }
    let told = RISKS.map(|risk| {
        let most = feasibility(Ratio::percent(risk), loss).accept_most;
        format!("{} if {risk}% are worse", percent(most))
    });
    let message =
        format!("for a loss of {} it can accept at most {}", cascade.loss, told.join(", "));
    Finding::new("feasibility", Verdict::Ok, message)
}

fn percent(chance: Ratio) -> String {
    let tenths = chance.get() / 1_000;
    match tenths % 10 {
        0 => format!("{}%", tenths / 10),
        tenth => format!("{}.{tenth}%", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use overdraft_config::{
        CascadePrices, CascadeScoring, CascadeShadow, CascadeSlowdown, CascadeThreshold,
        CascadeWindow, Price, Share, TokenPrices,
    };

    use super::*;

    fn cascade(draft: u64, target: u64) -> Cascade {
        let price = |micros| {
            let price = Price::from_micros(micros);
            TokenPrices { prompt: price, cached: None, completion: price }
        };
        Cascade {
            draft: "small".into(),
            target: Some("big".into()),
            mode: CascadeMode::Gate,
            loss: Share::from_permille(10).unwrap(),
            threshold: CascadeThreshold::default(),
            slowdown: CascadeSlowdown::default(),
            window: CascadeWindow::default(),
            scoring: CascadeScoring::default(),
            tokenizers: overdraft_config::CascadeTokenizers::default(),
            prefill_from: None,
            shadow: CascadeShadow::default(),
            prices: Some(CascadePrices { draft: price(draft), target: price(target) }),
            tenants_out: Vec::new(),
        }
    }

    #[test]
    fn a_tenth_of_the_price_pays_from_a_tenth_on() {
        let finding = pays("chat", &cascade(100_000, 1_000_000));
        assert_eq!(finding.verdict, Verdict::Ok);
        let said = "`small` before `big`: pays from accepted drafts of: chat 10%, long prompt 10%, long answer 10%";
        assert_eq!(finding.message, said);
        let finding = feasible(&cascade(1, 1));
        let said = "for a loss of 1% it can accept at most 95.9% if 5% are worse, 90.9% if 10% are worse, \
                    80.8% if 20% are worse, 60.6% if 40% are worse";
        assert_eq!(finding.message, said);
    }

    #[test]
    fn a_draft_that_is_dearer_never_pays_and_is_warned_of() {
        let finding = pays("chat", &cascade(2_000_000, 1_000_000));
        assert_eq!(finding.verdict, Verdict::Warn);
        assert!(finding.message.ends_with("chat never, long prompt never, long answer never"));
        let finding = pays("chat", &Cascade { prices: None, ..cascade(1, 1) });
        assert_eq!(finding.verdict, Verdict::Warn);
        assert!(finding.message.ends_with("break-even not known"));
    }
}
