//! GGUF header parser: reads metadata and tensor entries of an untrusted file, with bounds.
//!
//! Layout: magic, version, counts, metadata entries, tensor entries, padding, tensor data.
//! Source: the GGUF specification, <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};

use candle_core::quantized::gguf_file::Value;

use super::source::{Opened, Reader};
use super::{Metadata, OpenError, TensorInfo, TensorType};

/// Maximum metadata entries in one file; real ones have fewer than a hundred.
const METADATA_MAX: u64 = 65_536;
/// Maximum tensors in one file; the largest models have a few thousand.
const TENSORS_MAX: u64 = 65_536;
/// Maximum bytes of one string; chat templates reach some ten thousand.
const STRING_MAX: u64 = 16 << 20;
/// Maximum array elements in the whole header; the largest vocabularies with merges have two
/// million.
const ELEMENTS_MAX: u64 = 16 << 20;
/// Arrays within arrays.
const DEPTH_MAX: u32 = 4;
/// Dimensions of a tensor.
const DIMENSIONS_MAX: u32 = 4;
/// Alignment of tensor data where the file does not say.
const ALIGNMENT_DEFAULT: u64 = 32;
/// The largest alignment anyone could mean.
const ALIGNMENT_MAX: u64 = 1 << 20;

/// Everything before the tensor data.
pub(super) fn read(source: &Opened) -> Result<(Metadata, BTreeMap<String, TensorInfo>), OpenError> {
    let mut header = Header {
        source,
        reader: BufReader::new(source.reader()),
        position: 0,
        elements_left: ELEMENTS_MAX,
    };
    header.magic()?;
    let tensor_count = header.count("tensors", TENSORS_MAX)?;
    let metadata_count = header.count("metadata entries", METADATA_MAX)?;

    let mut metadata = BTreeMap::new();
    for _ in 0..metadata_count {
        let key = header.string("a metadata key")?;
        let kind = header.u32(&key)?;
        let value = header.value(kind, &key, 0)?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(corrupt(format!("the metadata entry `{key}` occurs twice")));
        }
    }
    let metadata = Metadata::new(metadata);
    let mut tensors = BTreeMap::new();
    for _ in 0..tensor_count {
        let (name, info) = header.tensor()?;
        if tensors.insert(name.clone(), info).is_some() {
            return Err(corrupt(format!("the tensor `{name}` occurs twice")));
        }
    }
    place(&mut tensors, header.position, alignment(&metadata)?, source.len())?;
    Ok((metadata, tensors))
}

/// Turns offsets within the data into offsets within the file, and checks that all data is there.
fn place(
    tensors: &mut BTreeMap<String, TensorInfo>,
    header_end: u64,
    alignment: u64,
    length: u64,
) -> Result<(), OpenError> {
    let data = header_end.div_ceil(alignment) * alignment;
    for (name, info) in tensors {
        let offset = data.saturating_add(info.offset);
        if offset.checked_add(info.bytes).is_none_or(|end| length < end) {
            let what = format!("the tensor `{name}`");
            return Err(OpenError::Truncated { what, offset, needed: info.bytes, length });
        }
        info.offset = offset;
    }
    Ok(())
}

fn alignment(metadata: &Metadata) -> Result<u64, OpenError> {
    let key = "general.alignment";
    let found = metadata.unsigned(key)?.unwrap_or(ALIGNMENT_DEFAULT);
    if !found.is_power_of_two() || ALIGNMENT_MAX < found {
        return Err(OpenError::Metadata {
            key: key.to_owned(),
            found: found.to_string(),
            expected: "a power of two".to_owned(),
        });
    }
    Ok(found)
}

fn corrupt(what: String) -> OpenError {
    OpenError::Corrupt { what }
}

/// The header, read from front to back.
struct Header<'a> {
    source: &'a Opened,
    reader: BufReader<Reader<'a>>,
    position: u64,
    elements_left: u64,
}

impl Header<'_> {
    fn magic(&mut self) -> Result<(), OpenError> {
        let magic: [u8; 4] = self.array("the magic number")?;
        if &magic != b"GGUF" {
            return Err(OpenError::NotGguf { found: magic.escape_ascii().to_string() });
        }
        match self.u32("the version")? {
            2 | 3 => Ok(()),
            found => Err(OpenError::Version { found }),
        }
    }

    fn tensor(&mut self) -> Result<(String, TensorInfo), OpenError> {
        let name = self.string("a tensor name")?;
        let dimensions = self.u32(&name)?;
        if dimensions == 0 || DIMENSIONS_MAX < dimensions {
            return Err(corrupt(format!(
                "the tensor `{name}` has `{dimensions}` dimensions; expected 1 to {DIMENSIONS_MAX}"
            )));
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            let size = self.u64(&name)?;
            shape.push(usize::try_from(size).map_err(|_| {
                corrupt(format!("the tensor `{name}` has a dimension of `{size}`"))
            })?);
        }
        // The file names the contiguous dimension first; everyone else last.
        shape.reverse();
        let kind = TensorType::new(self.u32(&name)?);
        let offset = self.u64(&name)?;
        let bytes = kind.bytes_for(&shape).ok_or_else(|| {
            let kind = kind.name();
            corrupt(format!("the tensor `{name}` cannot hold `{shape:?}` numbers as `{kind}`"))
        })?;
        Ok((name, TensorInfo { kind, shape, offset, bytes }))
    }

    fn value(&mut self, kind: u32, key: &str, depth: u32) -> Result<Value, OpenError> {
        Ok(match kind {
            0 => Value::U8(u8::from_le_bytes(self.array(key)?)),
            1 => Value::I8(i8::from_le_bytes(self.array(key)?)),
            2 => Value::U16(u16::from_le_bytes(self.array(key)?)),
            3 => Value::I16(i16::from_le_bytes(self.array(key)?)),
            4 => Value::U32(self.u32(key)?),
            5 => Value::I32(i32::from_le_bytes(self.array(key)?)),
            6 => Value::F32(f32::from_le_bytes(self.array(key)?)),
            // The format says 0 or 1; a reader gains nothing by refusing another true value.
            7 => Value::Bool(self.array::<1>(key)? != [0]),
            8 => Value::String(self.string(key)?),
            9 => self.list(key, depth)?,
            10 => Value::U64(self.u64(key)?),
            11 => Value::I64(i64::from_le_bytes(self.array(key)?)),
            12 => Value::F64(f64::from_le_bytes(self.array(key)?)),
            _ => {
                return Err(corrupt(format!(
                    "the metadata entry `{key}` has the value type `{kind}`; expected 0 to 12"
                )));
            }
        })
    }

    fn list(&mut self, key: &str, depth: u32) -> Result<Value, OpenError> {
        if DEPTH_MAX <= depth {
            return Err(corrupt(format!("the metadata entry `{key}` nests too deeply")));
        }
        let kind = self.u32(key)?;
        let count = self.u64(key)?;
        if self.elements_left < count {
            return Err(OpenError::TooMany {
                what: "array elements in its metadata",
                found: count,
                most: ELEMENTS_MAX,
            });
        }
        self.elements_left -= count;
        // No capacity in advance: the count is only a claim until the elements have been read.
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.value(kind, key, depth + 1)?);
        }
        Ok(Value::Array(values))
    }

    fn count(&mut self, what: &'static str, most: u64) -> Result<u64, OpenError> {
        let found = self.u64(what)?;
        if most < found {
            return Err(OpenError::TooMany { what, found, most });
        }
        Ok(found)
    }

    fn string(&mut self, what: &str) -> Result<String, OpenError> {
        let length = self.u64(what)?;
        if STRING_MAX < length {
            return Err(OpenError::TooMany {
                what: "bytes in a string",
                found: length,
                most: STRING_MAX,
            });
        }
        self.claim(length, what)?;
        let mut bytes = vec![0; usize::try_from(length).expect("bounded by STRING_MAX")];
        self.fill(&mut bytes)?;
        // Some writers end strings with a zero byte, and some tokens are not valid UTF-8.
        let text = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    fn u32(&mut self, what: &str) -> Result<u32, OpenError> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64, OpenError> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], OpenError> {
        self.claim(N as u64, what)?;
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Refuses what the file is too short for.
    fn claim(&self, needed: u64, what: &str) -> Result<(), OpenError> {
        let length = self.source.len();
        if length - self.position < needed {
            return Err(OpenError::Truncated {
                what: format!("`{what}`"),
                offset: self.position,
                needed,
                length,
            });
        }
        Ok(())
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), OpenError> {
        self.reader.read_exact(bytes).map_err(|error| self.source.unreadable(&error))?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}
