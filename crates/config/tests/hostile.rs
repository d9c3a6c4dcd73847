//! Files that mean harm, and files that were cut or scrambled: each is read or refused, never more.

use std::path::Path;

use overdraft_config::{FILE_BYTES_MAX, Loaded, Loader, Variables, WorkerSource};
use proptest::prelude::*;

/// Loads `text` under `name`; a refusal is what it says.
fn load(name: &str, text: &[u8]) -> Result<Loaded, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("it is writable");
    let loader = Loader::new(&path).with_variables(Variables::default());
    let loaded = loader.with_workers(WorkerSource::Elsewhere).load();
    loaded.map_err(|errors| {
        let said = errors.to_string();
        assert!(said.starts_with(path.to_str().expect("a path in UTF-8")), "no place: {said}");
        said
    })
}

#[track_caller]
fn refused(name: &str, text: &str) -> String {
    load(name, text.as_bytes()).expect_err("it is refused")
}

/// As much of `piece` as fits into a file.
fn many(piece: &str) -> String {
    piece.repeat((FILE_BYTES_MAX - 64) / piece.len())
}

#[test]
fn nesting_is_bounded_in_every_notation() {
    for text in [many("["), many("{a: "), many("- "), many("? "), format!("a: {}", many("&a ["))] {
        refused("deep.yaml", &text);
    }
    for text in [
        format!("{}a = 1", many("a.")),
        format!("[{}a]", many("a.")),
        format!("[[{}a]]", many("a.")),
        format!("a = {}", many("[")),
        format!("a = {}", many("{a = ")),
        many("[[a]]\n"),
        format!("{}a = 1", "a.".repeat(255)),
        format!("{}a = 1", "a . ".repeat(40)),
        format!("{}a = 1", many("\",\".")),
        format!("{}a = 1", many("'\"='.")),
        format!("{}a = 1", many("\"\\\"#\".")),
        format!("a = {{{}a = 1}}", many("a.")),
        format!("x = {{s = \"\"\"\n\"\"\", {}a = 1}}", many("a.")),
    ] {
        refused("deep.toml", &text);
    }
}

#[test]
fn many_dots_are_no_deep_key() {
    let addresses = "'http://10.0.0.5:8000', ".repeat(1_000);
    let text = format!("# {}\ntermination.workers = [{addresses}]\n", ".".repeat(2_000));
    let loaded = load("dots.toml", text.as_bytes()).unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(loaded.config.termination.workers.len(), 1_000);
}

#[test]
fn anchors_that_hold_themselves_are_refused() {
    refused("self.yaml", "models: &m {a: *m}\n");
    refused("merged.yaml", "models: &m {<<: *m}\n");
}

#[test]
fn variables_that_multiply_are_refused() {
    let text = format!("model_default: \"{}\"\n", "${A:-aaaaaaaaaaaaaaaa}".repeat(10_000));
    let said = refused("long.yaml", &text);
    assert!(said.contains("the text grows too long"), "{}", &said[..200]);
}

#[test]
fn marks_and_line_ends_of_other_systems_are_read() {
    for (name, text) in [
        ("bom.yaml", "\u{feff}limits: {requests: 9, streams: 9}\n"),
        ("crlf.yaml", "limits:\r\n  requests: 9\r\n  streams: 9\r\n"),
        ("bom.toml", "\u{feff}limits = {requests = 9, streams = 9}\n"),
        ("crlf.toml", "[limits]\r\nrequests = 9\r\nstreams = 9\r\n"),
    ] {
        let loaded = load(name, text.as_bytes()).unwrap_or_else(|said| panic!("{said}"));
        assert_eq!(loaded.config.limits.requests, 9, "{name}");
    }
}

#[test]
fn places_are_counted_in_characters() {
    let said = refused("wide.yaml", "model_default: 'héllo wörld'\nprobe: {'intervål': 1s}\n");
    assert!(
        said.contains(":2:9: unknown key `intervål` in `probe`; did you mean `interval`?"),
        "{said}"
    );
    assert!(said.contains("\n2 | probe: {'intervål': 1s}\n  |         ^^^^^^^^^^\n"), "{said}");
    let said = refused("wide.toml", "probe = {'intervål' = '1s'}\n");
    assert!(said.contains(":1:10: unknown key `intervål` in `probe`"), "{said}");
}

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/overdraft.yaml");
    std::fs::read_to_string(path).expect("it is there")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text_is_read_or_refused(text in "[\\PC\\n]{0,80}", toml in any::<bool>()) {
        let _ = load(if toml { "any.toml" } else { "any.yaml" }, text.as_bytes());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = load("bytes.yaml", &bytes);
        let _ = load("bytes.toml", &bytes);
    }

    #[test]
    fn a_scrambled_example_is_read_or_refused(
        cut in any::<prop::sample::Index>(), length in 0_usize..40, put in "[\\[\\]{}:,'\"&*!|>%@`$ \\n-]{0,3}"
    ) {
        let mut text: Vec<char> = example().chars().collect();
        let from = cut.index(text.len());
        let to = (from + length).min(text.len());
        text.splice(from..to, put.chars());
        let text: String = text.into_iter().collect();
        let _ = load("scrambled.yaml", text.as_bytes());
    }
}
