//! Engine environment variables: defaults that prevent fragmentation and long hangs.
//!
//! The defaults (A11) apply unless the operator overrides them in the environment or with `--env`.
//! `--help` lists them.

use std::ffi::OsString;

/// What an engine gets.
const DEFAULTS: [(&str, &str); 8] = [
    // Segments that grow can be given back and joined; fixed ones fragment under changing sizes.
    ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
    // Otherwise the allocator keeps each collective's buffers until the stream has passed them.
    ("TORCH_NCCL_AVOID_RECORD_STREAMS", "1"),
    // A rank that hangs for ever because another died is never restarted.
    ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
    // NCCL's own memory beside captured graphs is large with it; vLLM turns it off too.
    ("NCCL_CUMEM_ENABLE", "0"),
    ("NCCL_DEBUG", "WARN"),
    // Half an hour: a collective may wait for a rank that still loads its weights.
    ("NCCL_TIMEOUT", "1800"),
    // InfiniBand is used where it is there.
    ("NCCL_IB_DISABLE", "0"),
    // Ranks on one machine that take a thread for each core stand in each other's way.
    ("OMP_NUM_THREADS", "8"),
];

/// A variable and its value; none leaves it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(super) name: String,
    pub(super) value: Option<OsString>,
}

/// Reads `NAME=VALUE`.
pub(super) fn parse(text: &str) -> Result<Setting, String> {
    let expected = "expected `NAME=VALUE`, or `NAME=` to leave it out";
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`; {expected}"))?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(format!("`{name}` is not a variable's name; {expected}"));
    }
    let value = (!value.is_empty()).then(|| OsString::from(value));
    Ok(Setting { name: name.to_owned(), value })
}

/// What differs from our own environment.
pub(super) fn of(said: &[Setting], without_defaults: bool) -> Vec<Setting> {
    merge(said, without_defaults, |name| std::env::var_os(name).is_some())
}

fn merge(said: &[Setting], without_defaults: bool, is_set: impl Fn(&str) -> bool) -> Vec<Setting> {
    let wanted = |(name, _): &(&str, &str)| {
        !without_defaults && !is_set(name) && said.iter().all(|setting| setting.name != *name)
    };
    let default = |(name, value): (&str, &str)| Setting {
        name: name.to_owned(),
        value: Some(OsString::from(value)),
    };
    DEFAULTS.into_iter().filter(wanted).map(default).chain(said.iter().cloned()).collect()
}

/// What the environment of an engine on GPUs is likely to cost; `is_exempt` where its memory must not grow by segments.
pub(super) fn advice(settings: &[Setting], is_exempt: bool) -> Vec<String> {
    advice_of(is_exempt, |name| {
        let said = settings.iter().rfind(|setting| setting.name == name);
        let value = said.map_or_else(|| std::env::var_os(name), |setting| setting.value.clone());
        value.map(|value| value.to_string_lossy().into_owned())
    })
}

fn advice_of(is_exempt: bool, value: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let is = |name: &str, wanted: &str| value(name).as_deref() == Some(wanted);
    let mut advice = Vec::new();
    let allocator = value("PYTORCH_CUDA_ALLOC_CONF").or_else(|| value("PYTORCH_ALLOC_CONF"));
    let grows = allocator.as_deref().is_some_and(|it| it.contains("expandable_segments:True"));
    if !is_exempt && !grows {
        let told = allocator.map_or("is not set".to_owned(), |it| format!("is `{it}`"));
        advice.push(format!(
            "`PYTORCH_CUDA_ALLOC_CONF` {told}: without `expandable_segments:True` memory fragments"
        ));
    }
    if value("OMP_NUM_THREADS").is_none() {
        advice.push(
            "`OMP_NUM_THREADS` is not set: each rank takes a thread for every core".to_owned(),
        );
    }
    let costs = [
        ("NCCL_IB_DISABLE", "1", "ranks of several machines leave InfiniBand unused"),
        ("NCCL_P2P_DISABLE", "1", "GPUs of one machine exchange data through its memory"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", "ranks hang for ever when one of them dies"),
    ];
    let costly = costs.into_iter().filter(|(name, bad, _)| is(name, bad));
    advice.extend(costly.map(|(name, bad, cost)| format!("`{name}={bad}`: {cost}")));
    advice
}

/// The variables as a shell would set them, what is left out as `NAME=`; only names for those that the operator said,
/// whose values may be secrets.
pub(super) fn told(settings: &[Setting]) -> String {
    let is_default = |setting: &Setting| {
        let value = setting.value.as_deref();
        DEFAULTS.iter().any(|(name, own)| setting.name == *name && value == Some(own.as_ref()))
    };
    let one = |setting: &Setting| match &setting.value {
        Some(value) if is_default(setting) => format!("{}={}", setting.name, value.display()),
        Some(_) => format!("{} as said", setting.name),
        None => format!("{}=", setting.name),
    };
    settings.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_counts_more_than_what_is_set_and_that_more_than_defaults() {
        let said: Vec<Setting> = ["NCCL_DEBUG=INFO", "NCCL_CUMEM_ENABLE=", "A=b=c"]
            .iter()
            .map(|text| parse(text).unwrap())
            .collect();
        let merged = merge(&said, false, |name| name == "PYTORCH_CUDA_ALLOC_CONF");
        let told: Vec<String> = merged
            .iter()
            .map(|it| format!("{}={}", it.name, it.value.as_deref().unwrap_or_default().display()))
            .collect();
        let expected = [
            "TORCH_NCCL_AVOID_RECORD_STREAMS=1",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
            "NCCL_TIMEOUT=1800",
            "NCCL_IB_DISABLE=0",
            "OMP_NUM_THREADS=8",
            "NCCL_DEBUG=INFO",
            "NCCL_CUMEM_ENABLE=",
            "A=b=c",
        ];
        assert_eq!(told, expected);
        assert_eq!(merge(&said, true, |_| false), said);
    }

    #[test]
    fn a11_what_the_write_up_sets_is_set_unless_the_environment_says_otherwise_and_told() {
        let wanted = ["NCCL_TIMEOUT=1800", "NCCL_IB_DISABLE=0", "OMP_NUM_THREADS=8"];
        let told_without = |set: &str| told(&merge(&[], false, |name| name == set));
        for one in wanted {
            assert!(told_without("").contains(one), "{one}");
            let (name, _) = one.split_once('=').unwrap();
            assert!(!told_without(name).contains(name), "{name} is set already");
        }
        assert!(told_without("").contains("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
        let secret = merge(&[parse("TOKEN=hidden").unwrap()], true, |_| false);
        assert_eq!(told(&secret), "TOKEN as said");
    }

    #[test]
    fn costly_variables_are_named_and_the_defaults_are_not() {
        let advice = |set: &[(&str, &str)], is_exempt| {
            let value =
                |name: &str| set.iter().find(|one| one.0 == name).map(|one| one.1.to_owned());
            advice_of(is_exempt, value)
        };
        assert_eq!(advice(&DEFAULTS, false), [""; 0]);
        let first = advice(&[("OMP_NUM_THREADS", "8")], false);
        assert!(first.len() == 1 && first[0].contains("ALLOC_CONF` is not set"), "{first:?}");
        assert_eq!(advice(&[("OMP_NUM_THREADS", "8")], true), [""; 0]);
        let split = ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128");
        let all = advice(&[split, ("NCCL_IB_DISABLE", "1")], false);
        let parts = ["max_split_size_mb:128`", "OMP_NUM_THREADS", "InfiniBand"];
        assert_eq!(all.len(), parts.len(), "{all:?}");
        assert!(all.iter().zip(parts).all(|(one, part)| one.contains(part)), "{all:?}");
    }

    #[test]
    fn a_setting_that_is_none_is_refused() {
        for text in ["NCCL_DEBUG", "=x", "A B=c", ""] {
            assert!(parse(text).expect_err(text).contains("NAME=VALUE"));
        }
    }

    #[test]
    fn the_help_lists_every_default() {
        for (name, value) in DEFAULTS {
            assert!(super::super::EXAMPLES.contains(&format!("{name}={value}")), "{name}");
        }
    }
}
