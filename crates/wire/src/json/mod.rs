//! Zero-copy JSON: locates the top-level members of a request and keeps every byte.
//!
//! Routing needs half a dozen fields of a request that may be 400 KB long, and forwards the rest
//! untouched. So the bytes are scanned once (`scan`), a few members are read (`peek`), a few replaced
//! (`patch`) and a few put before them (`prelude`); no tree is built. **Invariant:** what [`Object::parse`] accepts, any JSON
//! parser with a depth limit of 127 accepts, and the bytes outside a patch come out as they went in.

pub mod canonical;
mod patch;
mod peek;
mod prelude;
mod scan;
#[cfg(test)]
mod tests;
mod text;

pub use self::patch::Patch;
pub use self::peek::RequestPeek;
pub use self::prelude::Prelude;
pub use self::scan::{DEPTH_MAX, JsonError, Member, Object};
