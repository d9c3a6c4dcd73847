//! JSON patch: sets or removes members of a request and copies the rest unchanged.
//!
//! Re-serialising a parsed tree would reorder keys, reprint numbers and lose duplicates; a worker
//! could then see something else than the client sent. **Invariant:** every byte outside a patched
//! member is copied as it was.

use serde::Serialize;

use super::scan::{Member, Object};

/// Changes to the members of an object.
///
/// ```
/// use overdraft_wire::{Object, Patch};
///
/// let object = Object::parse(br#"{"model":"m", "odd" : 0.30}"#).unwrap();
/// let patched = Patch::new().set("model", &"n").apply(&object);
/// assert_eq!(patched, br#"{"model":"n", "odd" : 0.30}"#);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Patch {
    edits: Vec<(String, Edit)>,
}

#[derive(Clone, Debug)]
enum Edit {
    /// The JSON text of the new value.
    Set(String),
    Remove,
}

impl Patch {
    /// Changes nothing.
    pub const fn new() -> Self {
        Self { edits: Vec::new() }
    }

    /// Whether applying it would change nothing.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Gives the member `name` the value `value`; adds it at the end if there is none. All duplicates
    /// get it, so that no reader can disagree about which of them counts.
    #[must_use]
    pub fn set(self, name: &str, value: &impl Serialize) -> Self {
        let text = serde_json::to_string(value).expect("values that are set have string keys");
        self.edit(name, Edit::Set(text))
    }

    /// Like [`Patch::set`] with a value that is JSON text already.
    #[must_use]
    pub fn set_raw(self, name: &str, json: &str) -> Self {
        debug_assert!(
            serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok(),
            "`{json}` is not JSON"
        );
        self.edit(name, Edit::Set(json.to_owned()))
    }

    /// Takes the member `name` away, and its duplicates.
    #[must_use]
    pub fn remove(self, name: &str) -> Self {
        self.edit(name, Edit::Remove)
    }

    fn edit(mut self, name: &str, edit: Edit) -> Self {
        self.edits.retain(|(other, _)| other != name);
        self.edits.push((name.to_owned(), edit));
        self
    }

    /// The text of `object` with the changes made.
    pub fn apply(&self, object: &Object<'_>) -> Vec<u8> {
        let source = object.source();
        let members = object.members();
        let Some((first, last)) = members.first().zip(members.last()) else {
            return self.filled(source);
        };
        let added: usize = self.edits.iter().map(|(name, edit)| name.len() + edit.len() + 4).sum();
        let mut out = String::with_capacity(source.len() + added);
        out.push_str(&source[..first.start]);
        let before = out.len();
        // The text between two members goes with the earlier one, and only if another is kept.
        let mut separator = "";
        for (index, member) in members.iter().enumerate() {
            let edit = self.find(&member.key());
            if matches!(edit, Some(Edit::Remove)) {
                continue;
            }
            out.push_str(separator);
            push_member(&mut out, source, member, edit);
            let next = members.get(index + 1);
            separator = next.map_or(",", |next| &source[member.end()..next.start]);
        }
        for (name, text) in self.missing(members) {
            out.push_str(if out.len() == before { "" } else { "," });
            push_new(&mut out, name, text);
        }
        out.push_str(&source[last.end()..]);
        out.into_bytes()
    }

    /// An empty object with the values that are set put in.
    fn filled(&self, source: &str) -> Vec<u8> {
        let inside = source.find('{').map_or(0, |brace| brace + 1);
        let mut out = source[..inside].to_owned();
        for (index, (name, text)) in self.missing(&[]).enumerate() {
            out.push_str(if index == 0 { "" } else { "," });
            push_new(&mut out, name, text);
        }
        out.push_str(&source[inside..]);
        out.into_bytes()
    }

    fn find(&self, key: &str) -> Option<&Edit> {
        self.edits.iter().find(|(name, _)| name == key).map(|(_, edit)| edit)
    }

    /// Values that are set and have no member yet.
    fn missing(&self, members: &[Member<'_>]) -> impl Iterator<Item = (&str, &str)> {
        self.edits.iter().filter_map(move |(name, edit)| match edit {
            Edit::Set(text) if members.iter().all(|member| member.key() != name.as_str()) => {
                Some((name.as_str(), text.as_str()))
            }
            Edit::Set(_) | Edit::Remove => None,
        })
    }
}

impl Edit {
    fn len(&self) -> usize {
        match self {
            Self::Set(text) => text.len(),
            Self::Remove => 0,
        }
    }
}

fn push_member(out: &mut String, source: &str, member: &Member<'_>, edit: Option<&Edit>) {
    if let Some(Edit::Set(text)) = edit {
        out.push_str(&source[member.start..member.value_start]);
        out.push_str(text);
    } else {
        out.push_str(&source[member.start..member.end()]);
    }
}

fn push_new(out: &mut String, name: &str, text: &str) {
    out.push_str(&serde_json::to_string(name).expect("a string serialises"));
    out.push(':');
    out.push_str(text);
}
