//! The gate must catch what it says it catches.

use std::path::Path;

use super::{layers, shape};

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
