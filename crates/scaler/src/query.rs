//! KEDA trigger metadata: parses pool, model and targets of a trigger.
//!
//! `pool` and `model` select workers; `kvTarget`, `queueTarget` and `runningTarget` are the targets
//! per worker. KEDA passes all keys of the trigger, its own too; any other key is a mistake and is
//! refused, because ignoring it would scale by a target that the operator did not write.

use std::collections::BTreeMap;

use overdraft_core::scale::Targets;

/// Our own keys.
const KEYS: &[&str] = &["pool", "model", "kvTarget", "queueTarget", "runningTarget"];

/// Keys of KEDA's own `external` and `external-push` triggers.
const KEYS_OF_KEDA: &[&str] = &[
    "scalerAddress",
    "metricType",
    "enableTLS",
    "unsafeSsl",
    "insecureSkipVerify",
    "caCert",
    "tlsCertFile",
    "tlsClientCert",
    "tlsClientKey",
];

/// The pool of a trigger that names none.
const POOL_DEFAULT: &str = "target";

/// Characters of a value that an error repeats.
const SHOWN_MAX: usize = 64;

/// What a trigger asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Query {
    pub(crate) pool: &'static str,
    pub(crate) model: Option<String>,
    pub(crate) targets: Targets,
}

/// Why metadata cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// A key that means nothing here.
    #[error("`{key}` is not a key of this scaler's metadata; expected one of `{}`", KEYS.join("`, `"))]
    Key {
        /// The key.
        key: String,
    },
    /// A pool that is none.
    #[error("`pool` is `{value}`; expected one of `{}`", pools.join("`, `"))]
    Pool {
        /// As written.
        value: String,
        /// Those there are.
        pools: &'static [&'static str],
    },
    /// A name that is empty.
    #[error("`model` is empty; expected a model's name, or no key `model` for all of the pool")]
    Model,
    /// No share.
    #[error("`{key}` is `{value}`; expected a share above 0, up to 1, as in `0.7` or `70%`")]
    Share {
        /// The key.
        key: &'static str,
        /// As written.
        value: String,
    },
    /// No count.
    #[error("`{key}` is `{value}`; expected a whole number of requests from 1 on, as in `10`")]
    Count {
        /// The key.
        key: &'static str,
        /// As written.
        value: String,
    },
}

impl Query {
    /// Reads metadata; what it does not say is as in `targets`.
    pub(crate) fn read(
        metadata: &BTreeMap<String, String>,
        pools: &'static [&'static str],
        targets: Targets,
    ) -> Result<Self, MetadataError> {
        let mut unknown: Vec<&String> = metadata.keys().filter(|key| !is_known(key)).collect();
        unknown.sort();
        if let Some(key) = unknown.first() {
            return Err(MetadataError::Key { key: shown(key) });
        }
        let said = |key: &str| metadata.get(key).map(String::as_str);
        let pool = said("pool").unwrap_or(POOL_DEFAULT);
        let Some(&pool) = pools.iter().find(|known| **known == pool) else {
            return Err(MetadataError::Pool { value: shown(pool), pools });
        };
        if said("model") == Some("") {
            return Err(MetadataError::Model);
        }
        let count = |key: &'static str, default: u32| {
            said(key).map_or(Ok(default), |value| {
                let number = value.trim().parse().ok().filter(|&number| number != 0);
                number.ok_or_else(|| MetadataError::Count { key, value: shown(value) })
            })
        };
        Ok(Self {
            pool,
            model: said("model").map(str::to_owned),
            targets: Targets {
                kv_permille: said("kvTarget").map_or(Ok(targets.kv_permille), share)?,
                waiting: count("queueTarget", targets.waiting)?,
                running: count("runningTarget", targets.running)?,
            },
        })
    }
}

fn is_known(key: &str) -> bool {
    KEYS.contains(&key) || KEYS_OF_KEDA.contains(&key)
}

/// `0.7` or `70%` in thousandths.
fn share(value: &str) -> Result<u16, MetadataError> {
    let wrong = || MetadataError::Share { key: "kvTarget", value: shown(value) };
    let text = value.trim();
    let (number, digits_max) = text.strip_suffix('%').map_or((text, 3), |number| (number, 1));
    let (whole, fraction) = number.trim().split_once('.').unwrap_or((number.trim(), ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    let fraction: String = fraction.chars().chain("000".chars()).take(digits_max).collect();
    let permille = format!("{whole}{fraction}").parse::<u16>().ok();
    permille.filter(|permille| (1..=1_000).contains(permille)).ok_or_else(wrong)
}

fn shown(value: &str) -> String {
    value.chars().take(SHOWN_MAX).collect()
}
