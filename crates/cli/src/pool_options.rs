//! Pool flags: the workers of a simulated fleet, of one kind or in several pools.

use std::str::FromStr;

use overdraft_sim::fleet::Pool;

use crate::fault::Fault;
use crate::simulate::{self, Arguments};

/// Pools of a fleet at most.
const POOLS_MAX: usize = 16;

/// Workers of one kind, as `2xl4-tp1/llama-3-8b-int4@0.7`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PoolOption {
    workers: u32,
    profile: String,
    /// Dollars an hour for each.
    price: Option<f64>,
}

impl FromStr for PoolOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected COUNTxPROFILE or COUNTxPROFILE@DOLLARS, as in \
                                `2xl4-tp1/llama-3-8b-int4@0.7`";
        let (workers, rest) = text.split_once('x').ok_or(EXPECTED)?;
        let (profile, price) = match rest.split_once('@') {
            None => (rest, None),
            Some((profile, price)) => (profile, Some(simulate::dollars(price)?)),
        };
        let workers = workers.trim().parse::<u32>().ok().filter(|&workers| 0 < workers);
        let workers = workers.ok_or(EXPECTED)?;
        if profile.is_empty() {
            return Err(EXPECTED.to_owned());
        }
        Ok(Self { workers, profile: profile.to_owned(), price })
    }
}

/// All workers that were asked for, the first pool first.
///
/// # Errors
/// A profile that cannot be found, or too many pools.
pub(crate) fn pools(arguments: &Arguments) -> Result<Vec<Pool>, Fault> {
    if arguments.pool.is_empty() {
        let profile = simulate::priced(
            arguments,
            &arguments.profile,
            "--price-per-hour",
            arguments.price_per_hour,
        )?;
        return Ok(vec![Pool { profile, workers: arguments.workers }]);
    }
    if POOLS_MAX < arguments.pool.len() {
        let why = format!("`{}` pools; expected {POOLS_MAX} or fewer", arguments.pool.len());
        return Err(Fault::input(why));
    }
    let pool = |asked: &PoolOption| {
        let profile = simulate::priced(arguments, &asked.profile, "--pool", asked.price)?;
        Ok(Pool { profile, workers: asked.workers })
    };
    arguments.pool.iter().map(pool).collect()
}

/// `2 × h100-tp1/llama-3-8b-bf16 + 4 × l4-tp1/llama-3-8b-int4`
pub(crate) fn told(pools: &[Pool]) -> String {
    let one = |pool: &Pool| format!("{} × {}", pool.workers, pool.profile.name());
    pools.iter().map(one).collect::<Vec<_>>().join(" + ")
}

/// What reports say of the workers.
pub(crate) fn settings(pools: &[Pool]) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for (number, Pool { profile, workers }) in (1..).zip(pools) {
        let of = |what: &str| match pools {
            [_] => what.to_owned(),
            _ => format!("pool {number}: {what}"),
        };
        let price =
            format!("${:.2}/h ({})", profile.price_per_hour(), profile.hardware.price_source);
        settings.extend([
            (of("profile"), profile.name()),
            (of("trust in its figures"), format!("{}: {}", profile.confidence, profile.source)),
            (of("price of a worker"), price),
            (of("workers"), workers.to_string()),
        ]);
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_a_count_a_profile_and_perhaps_a_price() {
        let pool = |workers, profile: &str, price| {
            Ok(PoolOption { workers, profile: profile.to_owned(), price })
        };
        assert_eq!("3xh100/llama-3-8b".parse(), pool(3, "h100/llama-3-8b", None));
        assert_eq!("12xl4-tp1/m-int4@0.7".parse(), pool(12, "l4-tp1/m-int4", Some(0.7)));
        for wrong in ["h100/llama-3-8b", "0xh100", "x", "3x", "-1xh100", "3xh100@free"] {
            let told = wrong.parse::<PoolOption>().expect_err(wrong);
            assert!(told.contains("expected"), "{wrong}: {told}");
        }
    }
}
