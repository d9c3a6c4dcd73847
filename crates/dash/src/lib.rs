//! Dashboard: the operator's page as built files, and the JSON views that page and terminal read.
//!
//! The gateway fills the views from what it knows and serves both; `overdraft top` reads the same
//! views. Nothing here asks anybody anything: views are values, and [`conditions`] is a function of
//! them.
//!
//! | subject                                 | file            |
//! |-----------------------------------------|-----------------|
//! | The built page and its headers          | `assets.rs`     |
//! | JSON views, one file for each subject   | `views/`        |
//! | Conditions that need an operator's eyes | `conditions.rs` |
//!
//! **Invariants.** The page loads nothing from elsewhere and its policy forbids inline scripts; no view
//! carries the text of a prompt or of an answer; the unit of every number is in its name.

pub mod assets;
pub mod conditions;
pub mod views;
