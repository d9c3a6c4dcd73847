//! Token usage of streams: asks for `stream_options.include_usage` and hides it if need be.
//!
//! Engines report the tokens of a stream only where `stream_options.include_usage` asks for it.
//! Budgets, the ledger and the estimates of lengths and of bytes per token need those counts, so
//! the gateway always asks; where the client did not, the gateway drops the chunk with the counts.

use overdraft_wire::RequestPeek;
use overdraft_wire::json::{Object, Patch, Prelude};
use overdraft_wire::request::StreamUsage;

use super::extras::COUNTS;

/// The request member for stream options.
const OPTIONS: &str = "stream_options";
const INCLUDE: &str = "include_usage";

/// For whom the chunk is that tells a stream's token counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Counts {
    /// The client asked for it, or there is none.
    #[default]
    Relayed,
    /// It is ours alone.
    KeptBack,
}

impl Counts {
    /// For whom they are in the stream that `peek` asks for.
    pub(crate) const fn of(peek: &RequestPeek<'_>) -> Self {
        match peek.usage {
            StreamUsage::Never if peek.stream => Self::KeptBack,
            _ => Self::Relayed,
        }
    }
}

/// Asks for the counts of a stream that has no options yet.
pub(crate) fn told(prelude: Prelude) -> Prelude {
    prelude.with(OPTIONS, &serde_json::json!({ INCLUDE: true }))
}

/// The same with every chunk.
pub(crate) fn told_often(prelude: Prelude) -> Prelude {
    prelude.with(OPTIONS, &serde_json::json!({ INCLUDE: true, COUNTS: true }))
}

/// Asks for counts with every chunk, whatever else was asked of the stream.
pub(crate) fn asked_often(patch: Patch, object: &Object<'_>) -> Patch {
    let options = object.raw(OPTIONS).and_then(|raw| Object::parse(raw.as_bytes()).ok());
    let added = Patch::new().set(INCLUDE, &true).set(COUNTS, &true);
    let text = options.and_then(|options| String::from_utf8(added.apply(&options)).ok());
    let alone = r#"{"include_usage":true,"continuous_usage_stats":true}"#;
    patch.set_raw(OPTIONS, text.as_deref().unwrap_or(alone))
}

/// Whether a stream has options, so that asking for its counts changes them.
pub(crate) fn has_options(peek: &RequestPeek<'_>) -> bool {
    peek.object.raw(OPTIONS).is_some()
}

/// The same where members are patched.
pub(crate) fn asked_anew(patch: Patch) -> Patch {
    patch.set(OPTIONS, &serde_json::json!({ INCLUDE: true }))
}

/// Asks for the counts of a stream, whatever else was asked of it.
pub(crate) fn asked(patch: Patch, peek: &RequestPeek<'_>) -> Patch {
    let options = peek.object.raw(OPTIONS).and_then(|raw| Object::parse(raw.as_bytes()).ok());
    let added = Patch::new().set(INCLUDE, &true);
    let text = options.and_then(|options| String::from_utf8(added.apply(&options)).ok());
    patch.set_raw(OPTIONS, text.as_deref().unwrap_or(r#"{"include_usage":true}"#))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(body: &str) -> String {
        let peek = RequestPeek::parse(body.as_bytes()).unwrap();
        let patch = asked(Patch::new(), &peek);
        String::from_utf8(patch.apply(&peek.object)).unwrap()
    }

    #[test]
    fn what_else_is_asked_of_a_stream_stays() {
        let bare = r#"{"stream":true}"#;
        assert_eq!(patched(bare), r#"{"stream":true,"stream_options":{"include_usage":true}}"#);
        let none = r#"{"stream_options":null,"stream":true}"#;
        assert_eq!(patched(none), r#"{"stream_options":{"include_usage":true},"stream":true}"#);
        let other = r#"{"stream_options":{"x":1,"include_usage":false},"stream":true}"#;
        assert_eq!(
            patched(other),
            r#"{"stream_options":{"x":1,"include_usage":true},"stream":true}"#
        );
    }

    #[test]
    fn counts_are_kept_back_from_who_did_not_ask() {
        let counts = |body: &str| Counts::of(&RequestPeek::parse(body.as_bytes()).unwrap());
        assert_eq!(counts(r#"{"stream":true}"#), Counts::KeptBack);
        let asked = r#"{"stream":true,"stream_options":{"include_usage":true}}"#;
        assert_eq!(counts(asked), Counts::Relayed);
        assert_eq!(counts("{}"), Counts::Relayed);
    }
}
