//! A `Q4_K_M` file that llama.cpp's quantizer wrote is run as llama.cpp runs it. The file, its
//! recorded logits and the script that made both are in `data/`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod model_support;

use std::path::Path;

use model_support::{Sequence, relative_error, step, top};
use overdraft_engine::model::{Model, ModelSettings};
use overdraft_scheduler::batch::Logits;
use overdraft_units::TokenId;
use serde::Deserialize;

/// What llama.cpp computed.
#[derive(Deserialize)]
struct Recorded {
    prompt: Vec<u32>,
    /// The likeliest token at each position.
    top: Vec<usize>,
    /// How much likelier than the next, in logits.
    margin: Vec<f64>,
    /// The logits at every fourth position.
    logits: Vec<Vec<f64>>,
}

#[test]
fn a_q4_k_m_file_of_llama_cpp_runs_as_in_llama_cpp() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let recorded = std::fs::read_to_string(data.join("foreign-q4_k_m.json")).unwrap();
    let recorded: Recorded = serde_json::from_str(&recorded).unwrap();
    let file = data.join("foreign-q4_k_m.gguf");
    let mut model = Model::open(file, &ModelSettings::default()).unwrap();
    assert_eq!(model.info.file_type, "Q4_K_M");
    assert_eq!(model.info.name, "Foreign Q4_K_M");
    model.metadata.require_tokenizer().unwrap();

    let tokens: Vec<_> = recorded.prompt.iter().copied().map(TokenId).collect();
    let sequence = Sequence::new(&tokens, 0, 16);
    let slot = sequence.slot(0, tokens.len(), Logits::Every);
    let found = step(model.backend.as_mut(), &[slot]);
    for (found, expected) in found.iter().step_by(4).zip(&recorded.logits) {
        let error = relative_error(found, expected);
        // Both round inputs to eight bits, in blocks of 32 here and of 256 there.
        assert!(error < 0.05, "relative error {error}");
    }
    // Random weights leave near ties, which any rounding may turn.
    let clear = recorded.top.iter().zip(&recorded.margin).zip(&found);
    let clear: Vec<_> = clear.filter(|((_, margin), _)| 0.3 < **margin).collect();
    assert!(10 < clear.len());
    assert!(clear.iter().all(|((best, _), row)| top(row) == **best));
}
