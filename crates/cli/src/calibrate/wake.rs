//! Waking up: how much longer a worker takes for a step before which it had nothing to do.
//!
//! Processors, clocks and caches that have slept, or have served others meanwhile, make the first step longer: tens of
//! milliseconds on a CPU. A prompt that comes right after another does not find them asleep, and so all but one do.

use overdraft_gpu_model::Observed;

use super::steps::{RESTED, Step};

/// Longer than this share of what a prompt takes right after another is waking up; less is noise.
const LONGER_MIN: f64 = 0.08;

/// What was measured of a worker that was awake, and the seconds in which it wakes up: none where that cannot be told.
pub(super) fn split(medians: Vec<(Step, Observed)>) -> (Vec<Observed>, f64) {
    let seconds = |rested| {
        let step = Step::Prefill { tokens: RESTED, rested };
        medians.iter().find(|(one, _)| *one == step).map(|(_, one)| one.seconds)
    };
    let longer = match (seconds(true), seconds(false)) {
        (Some(rested), Some(awake)) if awake * (1.0 + LONGER_MIN) < rested => rested - awake,
        _ => 0.0,
    };
    let is_awake = |step: &Step| !matches!(step, Step::Prefill { rested: true, .. });
    let awake = medians.into_iter().filter(|(step, _)| is_awake(step)).map(|(_, one)| one);
    (awake.collect(), longer)
}

#[cfg(test)]
mod tests {
    use overdraft_gpu_model::Chunk;
    use overdraft_units::Tokens;

    use super::*;

    /// A short prompt after a rest, the same right after another, and a step of answers.
    fn medians(ms: [f64; 3]) -> Vec<(Step, Observed)> {
        let prompt = |rested| Step::Prefill { tokens: RESTED, rested };
        let decode = Step::Decode { sequences: 1, context: 64 };
        [prompt(true), prompt(false), decode]
            .into_iter()
            .zip(ms)
            .map(|(step, ms)| {
                let chunk = Chunk { before: Tokens::ZERO, length: Tokens::new(8), samples: true };
                let steps = vec![std::iter::once(chunk).collect()];
                (step, Observed { steps, seconds: ms / 1e3, with_request: step != decode })
            })
            .collect()
    }

    #[test]
    fn what_a_rested_worker_takes_longer_is_told_apart() {
        let told = |ms| {
            let (observed, wake) = split(medians(ms));
            let left: Vec<f64> = observed.iter().map(|one| one.seconds * 1e3).collect();
            (left, (wake * 1e4).round() / 10.0)
        };
        assert_eq!(told([160.0, 100.0, 80.0]), (vec![100.0, 80.0], 60.0));
        assert_eq!(told([104.0, 100.0, 80.0]), (vec![100.0, 80.0], 0.0));
        assert_eq!(told([90.0, 100.0, 80.0]), (vec![100.0, 80.0], 0.0));
        assert_eq!(split(Vec::new()), (Vec::new(), 0.0));
    }
}
