//! Dimensions of the models that ship, against published figures.

use super::*;
use crate::Catalogue;

fn model(profile: &str) -> Model {
    Catalogue::builtin().find(profile).unwrap().model
}

#[track_caller]
fn touched(count: u32, per_token: u32, tokens: f64, expected: f64) {
    let experts = Experts { count, per_token, layers: 1, parameters: 1.0 };
    let found = experts.touched(tokens);
    assert!((found - expected).abs() < 1e-6, "{found}; expected {expected}");
}

#[test]
fn a_step_touches_as_many_experts_as_even_choice_expects() {
    touched(128, 8, 0.0, 0.0);
    touched(128, 8, 1.0, 8.0);
    // 128 (1 - (15/16)^2) and 256 (1 - (31/32)^4), by hand.
    touched(128, 8, 2.0, 15.5);
    touched(256, 8, 4.0, 30.531_005_859_375);
    touched(32, 4, 3.0, 10.5625);
    // All choose all: nothing is left to touch.
    touched(4, 4, 7.0, 4.0);
    let many = Experts { count: 128, per_token: 4, layers: 36, parameters: 2.0 };
    assert!((many.touched(8_192.0) - 128.0).abs() < 1e-9);
    assert!((many.all_parameters() - 9_216.0).abs() < 1e-9);
    assert!((many.active_parameters() - 288.0).abs() < 1e-9);
}

#[track_caller]
fn parameters(profile: &str, all: f64, active: f64, matrices: f64) {
    let model = model(profile);
    let experts = model.experts.unwrap();
    let embedded = f64::from(model.vocabulary) * f64::from(model.hidden);
    let found = model.linear_parameters + experts.all_parameters() + 2.0 * embedded;
    assert!((found / all - 1.0).abs() < 0.002, "{profile}: {found}; expected {all}");
    let found = model.linear_parameters + experts.active_parameters() + matrices * embedded;
    assert!((found / active - 1.0).abs() < 0.02, "{profile}: {found}; expected {active}");
}

#[test]
fn models_have_as_many_parameters_as_their_makers_say() {
    // Active are a token's own, and the output head; some makers count the embeddings as well.
    parameters("h100/qwen-3-30b-a3b-bf16", 30.5e9, 3.3e9, 2.0);
    parameters("h100/gpt-oss-20b-mxfp4", 20.91e9, 3.61e9, 1.0);
    parameters("h100-tp2/gpt-oss-120b-mxfp4", 116.83e9, 5.13e9, 1.0);
    parameters("h200-tp8/deepseek-v3-fp8", 671.0e9, 37.0e9, 1.0);
}

#[track_caller]
fn per_token(profile: &str, bytes: f64) {
    let found = model(profile).kv_bytes_per_token();
    assert!((found - bytes).abs() < 1e-6, "{profile}: {found} bytes; expected {bytes}");
}

#[test]
fn a_token_takes_the_known_bytes_of_the_cache() {
    per_token("h100/llama-3-8b-bf16", 131_072.0);
    per_token("h100-tp4/llama-3-70b-bf16", 327_680.0);
    per_token("h100/qwen-3-30b-a3b-bf16", 98_304.0);
    // 61 layers of 576 numbers of two bytes.
    per_token("h200-tp8/deepseek-v3-fp8", 70_272.0);
    // 36 layers of 2 x 8 x 64 numbers of two bytes; 18 of them keep 128 positions of 1,024.
    per_token("h100-tp2/gpt-oss-120b-mxfp4", 2_048.0 * (18.0 + 18.0 / 8.0));
    let mut halved = model("h200-tp8/deepseek-v3-fp8");
    halved.kv_bytes_per_number = 1;
    assert!((halved.kv_bytes_per_token() - 35_136.0).abs() < 1e-6);
}

#[test]
fn a_window_bounds_what_its_layers_attend_to() {
    let model = model("h100-tp2/gpt-oss-120b-mxfp4");
    // Two sequences within the window, and two of 1,000 positions: half of the layers see 128 of each.
    assert!((model.attended(200.0, 2.0) - 200.0).abs() < 1e-9);
    assert!((model.attended(2_000.0, 2.0) - (1_000.0 + 128.0)).abs() < 1e-9);
    let mut whole = model;
    whole.window = None;
    assert!((whole.attended(2_000.0, 2.0) - 2_000.0).abs() < 1e-9);
    assert!(whole.kv_bytes_per_token() > 1.7 * 2_048.0 * 20.25, "all layers keep all");
}

const MINE: &str = "[[model]]
name = \"mine\"
layers = 10
hidden = 64
query_heads = 4
kv_heads = 1
head_dimension = 16
linear_parameters = 1000
vocabulary = 100
context = 4096
kv_bytes_per_number = 2
source = \"a test\"
[model.experts]
count = 16
per_token = 2
layers = 8
parameters = 500
[model.latent]
rank = 32
rope_dimension = 8
value_dimension = 12
[model.window]
tokens = 64
layers = 5
";

#[track_caller]
fn refused(from: &str, to: &str, sentence: &str) {
    assert!(MINE.contains(from), "`{from}` is not there to be replaced");
    let text = MINE.replace(from, to);
    let found = Catalogue::builtin().add("mine.toml", &text).unwrap_err().to_string();
    assert!(found.starts_with("mine.toml: "), "{found}");
    assert!(found.contains(sentence), "{found}");
}

#[test]
fn dimensions_that_cannot_be_are_refused_by_name() {
    Catalogue::builtin().add("mine.toml", MINE).unwrap();
    refused(
        "per_token = 2",
        "per_token = 0",
        "model `mine`: `experts.per_token = 0`; expected 1 to `experts.count = 16`",
    );
    // Without heads a token would take no room, and without parameters nothing would be read.
    refused("kv_heads = 1", "kv_heads = 0", "model `mine`: `kv_heads = 0`; expected at least 1");
    refused("head_dimension = 16", "head_dimension = 0", "`head_dimension = 0`");
    refused("linear_parameters = 1000", "linear_parameters = -1", "`linear_parameters = -1`");
    refused("per_token = 2", "per_token = 17", "`experts.per_token = 17`; expected 1 to");
    refused("layers = 8", "layers = 11", "`experts.layers = 11`; expected 1 to `layers = 10`");
    refused(
        "parameters = 500",
        "parameters = 0",
        "`experts.parameters = 0`; expected the parameters of one expert",
    );
    refused("parameters = 500", "parameters = nan", "`experts.parameters = NaN`");
    refused("rank = 32", "rank = 0", "`latent.rank = 0`");
    refused("kv_heads = 1", "kv_heads = 4", "`kv_heads = 4` beside `latent`");
    refused("tokens = 64", "tokens = 0", "`window.tokens = 0`; expected at least 1");
    refused("layers = 5", "layers = 0", "`window.layers = 0`; expected 1 to `layers = 10`");
    refused("per_token = 2", "top_k = 2", "unknown field `top_k`");
}
