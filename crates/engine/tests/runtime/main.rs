//! The engine's loop from outside: completions, their ends, and what stops them.

mod blocks;
mod cache;
mod completions;
mod drawn;
mod failures;
mod guessing;
mod life;
mod stop;
mod support;
