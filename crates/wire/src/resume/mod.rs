//! Resume formats: what the bytes of a stream say for resuming it, and the bytes that ask a second worker.
//!
//! [`Piece`] reads one chunk of an answer, [`without`] takes out members that only the gateway asked
//! for, [`Heading`] writes chunks in the first answer's name, and `asking` makes the request that goes
//! on. **Invariant:** a chunk that is not rewritten keeps every byte.

mod asking;
mod heading;
mod members;
mod piece;
mod template;
#[cfg(test)]
mod tests;
mod without;

pub use self::asking::{Left, by_ids, by_text, detokenize, text_of_detokenized};
pub use self::heading::{Choice, Heading, Sums, resumed};
pub use self::members::{Asked, Judged, judge};
pub use self::piece::{NotJson, Piece, PieceCall, Role};
pub use self::template::{Matched, Template};
pub use self::without::without;
