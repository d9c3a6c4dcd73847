//! KV event decoder: reads a `MessagePack` batch in array or map form.
//!
//! The two forms differ only in how fields are found: by position or by name. Both fill the same
//! [`Fields`]; unknown names, further positions and unknown events are ignored.
//!
//! **Invariant:** an event of a known kind has every field that gives it a meaning, or the batch is
//! refused.

use std::fmt;
use std::io::Cursor;

use overdraft_units::TokenId;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::extra::RawExtraKeys;
use super::{
    BATCH_BYTES_MAX, Batch, DecodeError, EngineHash, HASH_BYTES_MAX, KvEvent, Removed, Stored,
};

/// Maximum nesting; known events need five levels.
const DEPTH_MAX: usize = 32;

/// Reads a batch in either form.
///
/// # Errors
/// Says why these bytes are no batch.
pub fn decode(bytes: &[u8]) -> Result<Batch, DecodeError> {
    if bytes.len() > BATCH_BYTES_MAX {
        return Err(DecodeError::TooLarge { bytes: bytes.len() });
    }
    let mut reader = rmp_serde::Deserializer::new(Cursor::new(bytes));
    reader.set_max_depth(DEPTH_MAX);
    let batch = Batch::deserialize(&mut reader)?;
    let read = usize::try_from(reader.position()).unwrap_or(bytes.len());
    match bytes.len() - read {
        0 => Ok(batch),
        bytes => Err(DecodeError::Trailing { bytes }),
    }
}

impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(BatchVisitor)
    }
}

struct BatchVisitor;

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = Batch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of time, events and rank")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Batch, A::Error> {
        let missing = |place| de::Error::invalid_length(place, &self);
        let at_seconds = seq.next_element()?.ok_or_else(|| missing(0))?;
        let events = seq.next_element()?.ok_or_else(|| missing(1))?;
        let rank = seq.next_element::<Option<u32>>()?.flatten();
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Batch { at_seconds, events, rank })
    }
}

/// What an event may consist of; which of it means something depends on its kind.
#[derive(Default)]
struct Fields {
    kind: String,
    hashes: Option<Vec<EngineHash>>,
    parent: Option<EngineHash>,
    tokens: Option<Vec<u32>>,
    block_size: Option<u32>,
    medium: Option<String>,
    lora_name: Option<String>,
    lora_id: Option<i64>,
    extra_keys: Option<RawExtraKeys>,
    group: Option<u32>,
}

impl<'de> Deserialize<'de> for KvEvent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(EventVisitor)
    }
}

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = KvEvent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event, as an array that begins with its name or a map with a `type`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KvEvent, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                // Its fields may have our names and other meanings.
                _ if fields.is_unknown() => drop(map.next_value::<IgnoredAny>()?),
                "type" => fields.kind = map.next_value()?,
                "block_hashes" => fields.hashes = map.next_value()?,
                "parent_block_hash" => fields.parent = map.next_value()?,
                "token_ids" => fields.tokens = map.next_value()?,
                "block_size" => fields.block_size = map.next_value()?,
                "medium" => fields.medium = map.next_value()?,
                "lora_name" => fields.lora_name = map.next_value()?,
                "lora_id" => fields.lora_id = map.next_value()?,
                "extra_keys" => fields.extra_keys = map.next_value()?,
                "group_idx" => fields.group = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        fields.into_event()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<KvEvent, A::Error> {
        let mut fields = Fields { kind: next(&mut seq)?.unwrap_or_default(), ..Fields::default() };
        match fields.kind.as_str() {
            "BlockStored" => {
                fields.hashes = next(&mut seq)?;
                fields.parent = next(&mut seq)?;
                fields.tokens = next(&mut seq)?;
                fields.block_size = next(&mut seq)?;
                fields.lora_id = next(&mut seq)?;
                fields.medium = next(&mut seq)?; // since 0.10.2
                fields.lora_name = next(&mut seq)?; // since 0.15
                fields.extra_keys = next(&mut seq)?; // since 0.19
            }
            "BlockRemoved" => {
                fields.hashes = next(&mut seq)?;
                fields.medium = next(&mut seq)?;
            }
            _ => {}
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        fields.into_event()
    }
}

/// The next place of an array; `None` if it is nil or past the end.
fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(seq: &mut A) -> Result<Option<T>, A::Error> {
    Ok(seq.next_element::<Option<T>>()?.flatten())
}

impl Fields {
    /// Whether it is an event that only later releases know; engines say so first.
    fn is_unknown(&self) -> bool {
        !matches!(&*self.kind, "" | "BlockStored" | "BlockRemoved" | "AllBlocksCleared")
    }

    fn into_event<E: de::Error>(self) -> Result<KvEvent, E> {
        match self.kind.as_str() {
            "BlockStored" => self.into_stored().map(KvEvent::Stored),
            "BlockRemoved" => Ok(KvEvent::Removed(Removed {
                hashes: self.hashes.ok_or_else(|| E::missing_field("block_hashes"))?,
                medium: self.medium,
                group: self.group,
            })),
            "AllBlocksCleared" => Ok(KvEvent::Cleared),
            "" => Err(E::missing_field("type")),
            _ => Ok(KvEvent::Unknown),
        }
    }

    fn into_stored<E: de::Error>(self) -> Result<Stored, E> {
        let tokens = self.tokens.ok_or_else(|| E::missing_field("token_ids"))?;
        // Before adapters were named they had numbers, and the base model has none.
        let numbered = self.lora_id.map(|id| format!("#{id}"));
        let lora = self.lora_name.or(numbered);
        Ok(Stored {
            hashes: self.hashes.ok_or_else(|| E::missing_field("block_hashes"))?,
            parent: self.parent,
            tokens: tokens.into_iter().map(TokenId).collect(),
            block_size: self.block_size.ok_or_else(|| E::missing_field("block_size"))?,
            medium: self.medium,
            extra: self.extra_keys.unwrap_or_default().without(lora.as_deref()),
            lora,
            group: self.group,
        })
    }
}

impl<'de> Deserialize<'de> for EngineHash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(HashVisitor)
    }
}

struct HashVisitor;

impl Visitor<'_> for HashVisitor {
    type Value = EngineHash;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a hash, as a number of 64 bits or up to {HASH_BYTES_MAX} bytes")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<EngineHash, E> {
        Ok(EngineHash::Number(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<EngineHash, E> {
        // Python's own hashes are signed; the bits are what counts.
        Ok(EngineHash::Number(number.cast_unsigned()))
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<EngineHash, E> {
        if bytes.len() > HASH_BYTES_MAX {
            return Err(E::invalid_length(bytes.len(), &self));
        }
        Ok(EngineHash::Bytes(bytes.into()))
    }
}
