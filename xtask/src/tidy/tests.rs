//! The gate must catch what it says it catches.

use std::path::{Path, PathBuf};

use super::{arguments, http, imports, layers, prose, shape};
use crate::docs::tables::Page;

#[track_caller]
fn check(name: &str, text: &str, expected: &[&str]) {
    let faults = shape::faults(Path::new(name), text);
    assert_eq!(faults.len(), expected.len(), "{faults:?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.contains(expected), "`{fault}` does not say `{expected}`");
    }
}

#[test]
fn a_file_without_a_header_is_a_fault() {
    check("crates/core/src/a.rs", "fn f() {}\n", &["header"]);
    check("crates/core/src/a.rs", "//! Says.\nfn f() {}\n", &[]);
}

#[test]
fn a_long_file_is_a_fault_and_a_long_test_is_not() {
    let long = format!("//! Long.\n{}", "const A: u8 = 0;\n".repeat(600));
    check("crates/core/src/a.rs", &long, &["601 lines, at most 500"]);
    check("crates/core/src/tests.rs", &long, &[]);
}

#[test]
fn a_long_function_is_a_fault() {
    let long = format!("//! F.\npub(crate) fn long() {{\n{}}}\n", "    call();\n".repeat(75));
    check("crates/core/src/a.rs", &long, &["`long` has 77 lines, at most 70"]);
}

#[test]
fn unsafe_stays_in_its_room() {
    let text = concat!("//! U.\nfn f() {\n    uns", "afe { g() }\n}\n");
    check("crates/engine/src/a.rs", text, &["crates/kernels only"]);
    check("crates/kernels/src/a.rs", text, &[]);
}

#[test]
fn what_is_unfinished_is_a_fault() {
    check("crates/core/src/a.rs", concat!("//! T.\n// TO", "DO later\n"), &["finish it"]);
}

#[test]
fn a_forbidden_arrow_is_a_fault() {
    let manifest = "[dependencies]\noverdraft-units.workspace = true\noverdraft-http = \"1\"\n";
    assert_eq!(layers::arrows("core", manifest), ["crates/core: may not depend on overdraft-http"]);
    let test_only = "[dev-dependencies]\noverdraft-http.workspace = true\n";
    assert!(layers::arrows("core", test_only).is_empty());
    assert_eq!(layers::arrows("attic", "").len(), 1);
}

#[test]
fn a_code_map_that_says_otherwise_is_a_fault() {
    let map = include_str!("../../../ARCHITECTURE.md");
    let faults = |text: &str| layers::map_faults(&Page::read(text));
    assert_eq!(faults(map), Vec::<String>::new());
    let none = "| `tls` | ";
    assert_eq!(map.matches(none).count(), 1);
    let renamed = faults(&map.replace(none, "| `attic` | "));
    assert_eq!(renamed.len(), 2, "{renamed:?}");
    assert!(renamed[0].contains("`tls` may name –") && renamed[1].contains("`attic`"));
}

/// Plants files in a crate and expects as many faults as words, each with its word.
#[track_caller]
fn check_imports(name: &str, files: &[(&str, &str)], expected: &[&str]) {
    let texts: Vec<(PathBuf, String)> =
        files.iter().map(|(file, text)| (file.into(), (*text).to_owned())).collect();
    let faults = imports::faults(name, &texts);
    assert_eq!(faults.len(), expected.len(), "{faults:?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.contains(expected), "`{fault}` does not say `{expected}`");
    }
}

#[test]
fn a_cycle_that_leaves_its_folder_is_a_fault() {
    let there = ("a/one.rs", "use crate::b::Two; struct One;");
    let back = ("b/mod.rs", "use crate::a::one::One; struct Two;");
    let both = "a/one.rs imports b/mod.rs (`crate::b::Two`)\n    b/mod.rs imports a/one.rs";
    check_imports("attic", &[there, back], &[both]);
    check_imports("attic", &[there, ("b/mod.rs", "struct Two;")], &[]);
}

#[test]
fn a_module_and_its_children_may_know_each_other() {
    let parent = ("a/mod.rs", "mod one; use one::One; struct Parent;");
    let one = ("a/one.rs", "use super::Parent; struct One;");
    check_imports("attic", &[parent, one], &[]);
    let two = ("a/two.rs", "fn two(parent: &super::Parent) {}");
    check_imports("attic", &[parent, one, two], &[]);
    let grandchild = ("a/one/below.rs", "use crate::a::Parent; struct Below;");
    let child = ("a/one.rs", "mod below; use self::below::Below; struct One;");
    check_imports("attic", &[parent, child, grandchild], &["3 files import each other"]);
}

#[test]
fn a_cycle_of_seven_files_is_a_fault_and_one_of_six_is_not() {
    let ring = |length: usize| -> Vec<(String, String)> {
        let file = |n: usize| {
            let next = (n + 1) % length;
            (format!("f{n}.rs"), format!("use crate::f{next}::T{next}; struct T{n};"))
        };
        (0..length).map(file).collect()
    };
    let named = |ring: &[(String, String)], expected: &[&str]| {
        let files: Vec<(&str, &str)> = ring.iter().map(|(f, t)| (&f[..], &t[..])).collect();
        check_imports("attic", &files, expected);
    };
    named(&ring(6), &[]);
    named(&ring(7), &["7 files import each other in a cycle, at most 6"]);
}

#[test]
fn a_reexport_leads_to_where_the_thing_is_defined_and_is_no_import() {
    let face = ("lib.rs", "pub mod a; mod b; pub use a::One; pub use b::*;");
    let one = ("a/mod.rs", "mod deep; pub use self::deep::One;");
    let deep = ("a/deep.rs", "pub struct One;");
    check_imports("attic", &[face, one, deep, ("b.rs", "use crate::One; pub struct Two;")], &[]);
    let needs_b = ("a/deep.rs", "pub struct One(crate::Two);");
    check_imports(
        "attic",
        &[face, one, needs_b, ("b.rs", "use crate::One; pub struct Two;")],
        &["a/deep.rs imports b.rs (`crate::Two`)\n    b.rs imports a/deep.rs (`crate::One`)"],
    );
}

#[test]
fn paths_in_macros_count_and_tests_do_not() {
    let there = ("a/one.rs", "fn one() { assert!(crate::b::two() == 2); }");
    let back = ("b/mod.rs", "fn two() -> u8 { crate::a::one::one() }");
    check_imports("attic", &[there, back], &["2 files"]);
    let tested = ("b/mod.rs", "#[cfg(test)] mod tests { use crate::a::one::one; }");
    check_imports("attic", &[there, tested], &[]);
}

#[test]
fn an_import_of_a_higher_layer_is_a_fault_in_the_gateway() {
    let high = ("server/routes.rs", "pub struct Routes;");
    let low = ("fleet/probe.rs", "use crate::server::routes::Routes;");
    check_imports("gateway", &[high, low], &["`fleet` may not name `server`"]);
    check_imports("worker", &[high, low], &[]);
    let beside = [("cache/a.rs", "use crate::cascade::b::B;"), ("cascade/b.rs", "pub struct B;")];
    check_imports("gateway", &beside, &["`cache` may not name `cascade`"]);
    let down = [
        ("fleet/probe.rs", "pub struct Probe;"),
        ("server/a.rs", "use crate::fleet::probe::Probe;"),
    ];
    check_imports("gateway", &down, &[]);
}

#[track_caller]
fn check_packed(text: &str, expected: &[&str]) {
    assert_eq!(arguments::packed(text).expect("the planted text parses"), expected);
}

#[test]
fn a_tuple_of_arguments_is_a_fault() {
    check_packed("fn f((a, b): (u8, u8)) {}", &["f"]);
    check_packed("impl T { fn f(&self, at: (u8, u8)) {} }", &["f"]);
    check_packed("fn f(&(a, b): &(u8, u8)) {}", &["f"]);
    check_packed("mod m { fn f() { fn inner(at: (u8, u8)) {} } }", &["inner"]);
}

#[test]
fn pairs_that_are_data_are_no_fault() {
    check_packed("fn f(pairs: &[(u8, u8)], one: &(u8, u8), unit: ()) {}", &[]);
    check_packed("fn f(pairs: impl Iterator<Item = (u8, u8)>) { pairs.map(|(a, b)| a + b); }", &[]);
    check_packed("impl Extend<(u8, u8)> for T { fn add(&mut self, at: (u8, u8)) {} }", &[]);
    check_packed("#[test] fn f(at: (u8, u8)) {}", &[]);
}

const REFERENCE: &str = "## overdraft\n\n```text\n  -V, --version  Print version\n```\n\n## overdraft explain\n\n\
    ```text\n      --url <URL>  The gateway\n  -r, --request <FILE>  A file\n```\n\n## overdraft supervise\n";

#[track_caller]
fn commands(block: &str, expected: &[&str]) {
    let known = super::pages::binary_flags(REFERENCE);
    assert_eq!(super::pages::command_faults(block, &known), expected, "{block}");
}

#[test]
fn a_page_shows_commands_that_exist() {
    commands(
        "```console\n$ overdraft explain -r f --url=http://a | jq --nonsense # --no\n```\n",
        &[],
    );
    commands(
        "```console\n$ overdraft explain --prompt 'a; --b'\n```\n",
        &["`overdraft explain` has no flag `--prompt`"],
    );
    commands(
        "```console\n$ KEY=1 overdraft explain \\\n    --much\noverdraft said\n```\n",
        &["`overdraft explain` has no flag `--much`"],
    );
    commands(
        "```sh\noverdraft guess && overdraft --version\n```\n",
        &["`overdraft guess` is no command"],
    );
    commands("```console\n$ overdraft supervise -- vllm serve --port 1\n```\n", &[]);
    commands("```text\noverdraft guess\n```\n", &[]);
}

#[test]
fn links_and_anchors_are_read_as_forges_do() {
    let text = "# Two words, `code`\n\n[a](b.md#c) ![d](e.png) `[f](g)` [h](https://i)\n\n```text\n[j](k)\n# no\n```\n# A\n# A\n";
    assert_eq!(super::pages::links(text), ["b.md#c", "e.png"]);
    assert!(super::pages::anchors(text).iter().eq(["a", "a-1", "two-words-code"]));
}

#[test]
fn the_http_reference_has_each_header_and_no_other() {
    let page = |name: &str| {
        Page::read(&format!(
            "# A\n## Request headers\n\n| header | values |\n|---|---|\n| `{name}` | |\n"
        ))
    };
    let code = "const WISH: HeaderName = HeaderName::from_static(\"x-overdraft-wish\");\n";
    assert!(http::header_faults(&page("x-overdraft-wish"), code).is_empty());
    let faults = http::header_faults(&page("x-overdraft-cash"), code);
    let [missing, stale] = faults.as_slice() else { panic!("{faults:?}") };
    assert!(missing.contains("`x-overdraft-wish` of the code is missing"), "{missing}");
    assert!(stale.contains("no code knows the header `x-overdraft-cash`"), "{stale}");
}

#[test]
fn the_http_reference_has_each_path_that_is_routed() {
    let page = Page::read(
        "# A\n## Endpoints\n\n| method | path |\n|---|---|\n| GET | `/v1/models/{id}` |\n",
    );
    let router =
        |part: &str| format!("    fn of(path: &str) {{\n        path == \"{part}\"\n    }}\n");
    assert!(http::path_faults(&page, &router("/v1/models/")).is_empty());
    assert_eq!(http::path_faults(&page, &router("/v1/files")).len(), 1);
}

#[test]
fn a_long_sentence_is_a_fault_and_code_is_one_word() {
    let words = |count: usize| "word ".repeat(count);
    assert_eq!(prose::long_sentences(&format!("{}end.\n", words(40))).len(), 1);
    assert!(prose::long_sentences(&format!("{}end. {}end.\n", words(30), words(30))).is_empty());
    assert!(prose::long_sentences(&format!("So `{}` is short.\n", words(40))).is_empty());
    assert!(prose::long_sentences(&format!("```text\n{}\n```\n", words(40))).is_empty());
    assert!(prose::long_sentences(&format!("| {}| {}|\n", words(30), words(30))).is_empty());
}

#[test]
fn headers_and_help_texts_are_prose_and_examples_are_not() {
    let words = |count: usize| "word ".repeat(count);
    let file = format!("//! A file.\n//!\n//! So {}end.\n\n/// Not {}\n", words(40), words(40));
    assert_eq!(prose::prose_faults(&prose::header(&file)).len(), 1);
    let page = |about: &str, flag: &str, example: &str| {
        format!(
            "## overdraft x\n\n```text\n{about}\n\nOptions:\n      --flag <NAME>  {flag}\n  -h, --help  \
             Print help\n\nExamples:\n  overdraft x  # {example}\n\nExit codes: 0 done\n```\n"
        )
    };
    let faults = |page: String| prose::prose_faults(&prose::help(&page)).len();
    let half = words(20);
    assert_eq!(faults(page(&half, &half, &words(40))), 0, "each is a passage of its own");
    assert_eq!(faults(page(&words(40), &half, "")), 1);
    assert_eq!(faults(page("About", &words(40), "")), 1);
    assert_eq!(faults(page("About", "For whoever asks", "")), 1);
}

#[test]
fn the_first_page_is_read_in_five_minutes() {
    assert!(prose::size_fault(&"word\n".repeat(150)).is_none());
    assert!(prose::size_fault(&"word\n".repeat(151)).is_some());
    assert!(prose::size_fault(&"word ".repeat(1_201)).is_some());
}
