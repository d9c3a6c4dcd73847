//! Which variables does an engine get?
//!
//! Those that keep its memory whole and its failures short (A11), unless the operator says
//! otherwise: in the environment, or with `--env`. `--help` lists them.

use std::ffi::OsString;

/// What an engine gets.
const DEFAULTS: [(&str, &str); 5] = [
    // Segments that grow can be given back and joined; fixed ones fragment under changing sizes.
    ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
    // Otherwise the allocator keeps each collective's buffers until the stream has passed them.
    ("TORCH_NCCL_AVOID_RECORD_STREAMS", "1"),
    // A rank that hangs for ever because another died is never restarted.
    ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
    // NCCL's own memory beside captured graphs is large with it; vLLM turns it off too.
    ("NCCL_CUMEM_ENABLE", "0"),
    ("NCCL_DEBUG", "WARN"),
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
            "NCCL_DEBUG=INFO",
            "NCCL_CUMEM_ENABLE=",
            "A=b=c",
        ];
        assert_eq!(told, expected);
        assert_eq!(merge(&said, true, |_| false), said);
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
