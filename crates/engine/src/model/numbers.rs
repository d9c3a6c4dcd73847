//! Dequantization: decodes tensors to single precision.
//!
//! It serves small tensors (norms, biases) and encodings without a kernel of their own.

use candle_core::Device;
use candle_core::quantized::{QStorage, QTensor};
use half::{bf16, f16};

use crate::gguf::{OpenError, TensorData, TensorType};

/// Decodes a whole tensor.
pub(crate) fn to_f32(data: &TensorData<'_>, name: &str) -> Result<Vec<f32>, OpenError> {
    let bytes = data.bytes.as_ref();
    match data.kind {
        TensorType::F32 => Ok(bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect()),
        TensorType::F16 => {
            Ok(bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect())
        }
        TensorType::BF16 => {
            Ok(bytes.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect())
        }
        _ => by_candle(data, name),
    }
}

fn by_candle(data: &TensorData<'_>, name: &str) -> Result<Vec<f32>, OpenError> {
    let unsupported = || OpenError::TensorType { name: name.to_owned(), found: data.kind.name() };
    let candle = data.kind.layout().and_then(|layout| layout.candle).ok_or_else(unsupported)?;
    // Candle wants the blocks aligned, which bytes inside a program need not be.
    let bytes = data.bytes.as_ref().to_vec();
    let storage = QStorage::from_data(bytes.into(), &Device::Cpu, candle);
    let decoded = storage
        .and_then(|storage| QTensor::new(storage, data.shape.to_vec()))
        .and_then(|tensor| tensor.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>());
    decoded.map_err(|error| OpenError::Corrupt { what: format!("the tensor `{name}`: {error}") })
}
