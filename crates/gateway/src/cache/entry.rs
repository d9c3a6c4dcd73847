//! Cache entry: a packed answer with the metadata needed to serve it again.

use std::time::Duration;

use bytes::Bytes;
use overdraft_store::{NAME_BYTES, Name};
use overdraft_wire::response::Usage;

/// The form of the bytes that go to a response store.
const VERSION: u8 = 1;

/// Bytes before the packed answer.
const HEAD_BYTES: usize = 2 + 8 + 8 + 4 * 3 + 4;

/// What an entry costs beside its body.
const ENTRY_BYTES: u64 = 200;

/// In which form the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Whole,
    Events,
}

/// How an answer was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) kept: Kept,
    pub(crate) usage: Usage,
    /// Milliseconds since 1970 when it was whole.
    pub(crate) born_ms: u64,
    /// How long it took.
    pub(crate) took: Duration,
}

/// An answer that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kept: Kept,
    pub(crate) tenant: [u8; NAME_BYTES],
    pub(crate) model: [u8; NAME_BYTES],
    /// Milliseconds since 1970 when it was whole.
    pub(crate) born_ms: u64,
    /// How long it took to make.
    pub(crate) took: Duration,
    pub(crate) usage: Usage,
    /// Packed by LZ4.
    packed: Bytes,
    /// Bytes unpacked.
    length: u32,
}

impl Entry {
    /// Packs an answer to `name`.
    pub(crate) fn new(name: &Name, made: Made, answer: &[u8]) -> Option<Self> {
        let Made { kept, usage, born_ms, took } = made;
        Some(Self {
            kept,
            tenant: name.tenant,
            model: name.model,
            born_ms,
            took,
            usage,
            packed: lz4_flex::block::compress(answer).into(),
            length: u32::try_from(answer.len()).ok()?,
        })
    }

    /// Without its body, where only its being there matters.
    pub(crate) fn hollow(self) -> Self {
        Self { packed: Bytes::new(), length: 0, ..self }
    }

    /// The answer.
    pub(crate) fn answer(&self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.length).ok()?;
        lz4_flex::block::decompress(&self.packed, length).ok().filter(|it| it.len() == length)
    }

    /// What keeping it takes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.packed.len()).unwrap_or(u64::MAX).saturating_add(ENTRY_BYTES)
    }

    /// How old it is.
    pub(crate) const fn age(&self, now_ms: u64) -> Duration {
        Duration::from_millis(now_ms.saturating_sub(self.born_ms))
    }

    /// Bytes that an answer of so many comes to at most, as it goes to a response store: what cannot be packed
    /// grows a little.
    pub(crate) const fn encoded_max(answer: usize) -> usize {
        HEAD_BYTES.saturating_add(answer).saturating_add(answer / 128).saturating_add(64)
    }

    /// As it goes to a response store, whose envelope says whose it is.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.packed.len());
        bytes.push(VERSION);
        bytes.push(u8::from(self.kept == Kept::Events));
        bytes.extend_from_slice(&self.born_ms.to_le_bytes());
        let took = u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX);
        bytes.extend_from_slice(&took.to_le_bytes());
        let Usage { prompt_tokens, completion_tokens, total_tokens, .. } = self.usage;
        for count in [prompt_tokens, completion_tokens, total_tokens, self.length] {
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        bytes.extend_from_slice(&self.packed);
        bytes
    }

    /// Out of a response store; `None` where it is of another form, or unpacks to more than `answer_max` bytes.
    pub(crate) fn decode(bytes: Vec<u8>, name: &Name, answer_max: usize) -> Option<Self> {
        let mut reader = Reader(&bytes);
        let [version, kept] = reader.take()?;
        let kept = match (version, kept) {
            (VERSION, 0) => Kept::Whole,
            (VERSION, 1) => Kept::Events,
            _ => return None,
        };
        let born_ms = u64::from_le_bytes(reader.take()?);
        let took = Duration::from_micros(u64::from_le_bytes(reader.take()?));
        let mut counts = [0; 4];
        for count in &mut counts {
            *count = u32::from_le_bytes(reader.take()?);
        }
        let [prompt_tokens, completion_tokens, total_tokens, length] = counts;
        if usize::try_from(length).map_or(true, |length| answer_max < length) {
            return None;
        }
        let packed = Bytes::from(bytes).slice(HEAD_BYTES..);
        let usage = Usage { prompt_tokens, completion_tokens, total_tokens, ..Usage::default() };
        let (tenant, model) = (name.tenant, name.model);
        Some(Self { kept, tenant, model, born_ms, took, usage, packed, length })
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Name = Name { key: [1; 32], tenant: [2; 32], model: [3; 32] };

    fn entry(text: &str) -> Entry {
        let usage =
            Usage { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7, ..Usage::default() };
        let times = (1_000, Duration::from_millis(20));
        let (born_ms, took) = times;
        let made = Made { kept: Kept::Events, usage, born_ms, took };
        Entry::new(&NAME, made, text.as_bytes()).unwrap()
    }

    #[test]
    fn an_entry_comes_back_as_it_went() {
        let text = "the same and the same and the same again ".repeat(50);
        let entry = entry(&text);
        assert!(entry.bytes() < 700, "{}", entry.bytes());
        let back = Entry::decode(entry.encode(), &NAME, 10_000).unwrap();
        assert_eq!(back, entry);
        assert_eq!(back.answer().unwrap(), text.as_bytes());
        assert_eq!(back.age(4_000), Duration::from_secs(3));
    }

    #[test]
    fn what_cannot_be_packed_has_its_bound_too() {
        let noise: String = (0..2_000_u32)
            .map(|at| char::from(33 + u8::try_from(at.wrapping_mul(2_654_435_761) >> 26).unwrap()))
            .collect();
        assert!(entry(&noise).encode().len() <= Entry::encoded_max(noise.len()));
        assert!(entry("").encode().len() <= Entry::encoded_max(0));
    }

    #[test]
    fn what_is_no_entry_is_none() {
        let bytes = entry("an answer").encode();
        for length in 0..HEAD_BYTES {
            assert_eq!(Entry::decode(bytes[..length].to_vec(), &NAME, 100), None);
        }
        assert_eq!(Entry::decode(bytes.clone(), &NAME, 8), None, "it says that it is too long");
        let mut other = bytes.clone();
        other[0] = 9;
        assert_eq!(Entry::decode(other, &NAME, 100), None);
        let mut cut = bytes;
        cut.truncate(HEAD_BYTES + 3);
        assert_eq!(Entry::decode(cut, &NAME, 100).and_then(|entry| entry.answer()), None);
    }
}
