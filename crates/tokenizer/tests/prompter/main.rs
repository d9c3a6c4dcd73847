//! Prompts as workers make them, from folders, documents and a cache of pieces.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its world should panic")]

mod document;
mod folder;
mod hostile;
mod pieces;
mod requests;
mod support;
