//! Requantization: the same model in another weight format, derived from a GGUF file.
//!
//! Matrices are dequantized and quantized anew; vectors and metadata stay. What a format loses was
//! lost from the file's weights, not from those that the model was trained with: the derived file
//! shows how exactly a format is computed, not how good the format is.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use candle_core::Device;
use candle_core::quantized::gguf_file::{self, Content, Value};
use candle_core::quantized::{GgmlDType, QTensor};

/// A format to derive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// ggml's name.
    pub(crate) name: &'static str,
    kind: GgmlDType,
    /// `general.file_type`.
    file_type: u32,
}

/// Half precision, and eight bits.
pub(crate) const DERIVED: [Format; 2] = [
    Format { name: "F16", kind: GgmlDType::F16, file_type: 1 },
    Format { name: "Q8_0", kind: GgmlDType::Q8_0, file_type: 7 },
];

/// The file's model in another format; written on first use, beside the build.
///
/// # Errors
/// When the file cannot be read or the other one not written.
pub(crate) fn derive(file: &Path, format: Format) -> Result<PathBuf> {
    let program = std::env::current_exe().context("the bench cannot find itself")?;
    let folder = program.parent().context("the bench is in no folder")?.join("bench-models");
    let stem = file.file_stem().context("the model is no file")?.to_string_lossy();
    let derived = folder.join(format!("{stem}-as-{}.gguf", format.name.to_lowercase()));
    if derived.is_file() {
        return Ok(derived);
    }
    fs::create_dir_all(&folder)
        .with_context(|| format!("`{}` cannot be made", folder.display()))?;
    // Renamed when complete: an interrupted run must not leave half a model.
    let unfinished = derived.with_extension("part");
    write(file, format, &unfinished)?;
    fs::rename(&unfinished, &derived)?;
    Ok(derived)
}

fn write(file: &Path, format: Format, path: &Path) -> Result<()> {
    let shown = file.display();
    let mut source = File::open(file).with_context(|| format!("`{shown}` cannot be read"))?;
    let content = Content::read(&mut source).with_context(|| format!("`{shown}` is no GGUF"))?;
    let mut tensors = Vec::new();
    for name in content.tensor_infos.keys() {
        let tensor = content.tensor(&mut source, name, &Device::Cpu)?;
        let is_matrix = tensor.rank() > 1;
        tensors.push((name, if is_matrix { converted(&tensor, format.kind)? } else { tensor }));
    }
    let file_type = ("general.file_type", Value::U32(format.file_type));
    let metadata = content.metadata.iter().filter(|(key, _)| *key != file_type.0);
    let metadata: Vec<(&str, &Value)> = metadata
        .map(|(key, value)| (key.as_str(), value))
        .chain([(file_type.0, &file_type.1)])
        .collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let mut out = BufWriter::new(File::create(path)?);
    gguf_file::write(&mut out, &metadata, &tensors).context("the model cannot be written")
}

fn converted(tensor: &QTensor, kind: GgmlDType) -> Result<QTensor> {
    Ok(QTensor::quantize(&tensor.dequantize(&Device::Cpu)?, kind)?)
}
