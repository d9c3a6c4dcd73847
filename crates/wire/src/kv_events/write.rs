//! KV event encoder: writes batches of our own worker in vLLM's map form.
//!
//! The form is that of vLLM from 0.24 on: maps with a `type`, fields in its order. Fields that
//! vLLM's decoder requires are written even where they are nil.
//!
//! **Invariant:** what is written reads back as the same batch.

use serde::ser::{Serialize, SerializeMap, SerializeTuple, Serializer};

use super::{Batch, EngineHash, KvEvent, Removed, Stored};

/// Writes a batch as tagged maps.
pub fn encode(batch: &Batch) -> Vec<u8> {
    rmp_serde::to_vec(batch).expect("events are numbers, strings, arrays and maps of known length")
}

impl Serialize for Batch {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut batch = to.serialize_tuple(3)?;
        batch.serialize_element(&self.at_seconds)?;
        // What we do not know we cannot repeat.
        let known = self.events.iter().filter(|event| !matches!(event, KvEvent::Unknown));
        batch.serialize_element(&known.collect::<Vec<_>>())?;
        batch.serialize_element(&self.rank)?;
        batch.end()
    }
}

impl Serialize for KvEvent {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Stored(stored) => stored.serialize(to),
            Self::Removed(removed) => removed.serialize(to),
            Self::Cleared | Self::Unknown => {
                let mut map = to.serialize_map(Some(1))?;
                map.serialize_entry("type", "AllBlocksCleared")?;
                map.end()
            }
        }
    }
}

impl Serialize for Stored {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let optional = usize::from(self.group.is_some()) + usize::from(!self.extra.is_empty());
        let mut map = to.serialize_map(Some(8 + optional))?;
        let tokens: Vec<u32> = self.tokens.iter().map(|token| token.0).collect();
        map.serialize_entry("type", "BlockStored")?;
        map.serialize_entry("block_hashes", &self.hashes)?;
        map.serialize_entry("parent_block_hash", &self.parent)?;
        map.serialize_entry("token_ids", &tokens)?;
        map.serialize_entry("block_size", &self.block_size)?;
        map.serialize_entry("lora_id", &None::<i64>)?;
        map.serialize_entry("medium", &self.medium)?;
        map.serialize_entry("lora_name", &self.lora)?;
        if !self.extra.is_empty() {
            map.serialize_entry("extra_keys", &self.extra)?;
        }
        if let Some(group) = self.group {
            map.serialize_entry("group_idx", &group)?;
        }
        map.end()
    }
}

impl Serialize for Removed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(3 + usize::from(self.group.is_some())))?;
        map.serialize_entry("type", "BlockRemoved")?;
        map.serialize_entry("block_hashes", &self.hashes)?;
        map.serialize_entry("medium", &self.medium)?;
        if let Some(group) = self.group {
            map.serialize_entry("group_idx", &group)?;
        }
        map.end()
    }
}

impl Serialize for EngineHash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => to.serialize_u64(*number),
            Self::Bytes(bytes) => to.serialize_bytes(bytes),
        }
    }
}
