//! Guessing ahead that can be read and cannot be meant.

use crate::check;

#[test]
fn a_rule_and_a_depth_that_there_are_not() {
    check(
        "bad.yaml",
        "workers:
  - url: http://10.0.0.5:8000
speculation:
  policy: magic
  max_depth: 9
",
        &[],
        "
bad.yaml:4:11: `magic` is not a speculation policy
  |
4 |   policy: magic
  |           ^^^^^
  = expected `off`, `fixed:N` with N up to 8, `threshold`, `threshold-per-token`, `batch-table`, `batch-table:1-8=4,9-64=0` or `goodput`

bad.yaml:5:14: `9` is not a valid depth
  |
5 |   max_depth: 9
  |              ^
  = expected 1 to 8
",
    );
}
