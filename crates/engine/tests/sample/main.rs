//! The sampler against a slow and obvious one.

mod draws;
mod edits;
mod filters;
mod guess;
mod logprobs;
mod oracle;
