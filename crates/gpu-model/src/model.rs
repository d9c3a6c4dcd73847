//! Model: the dimensions that decide what a step reads, multiplies and keeps.
//!
//! Beside the dense transformer there are three forms, each optional (`docs/design/gpu-model.md#r12`): layers with
//! experts, of which a token computes a few; latent attention, which caches one row for all heads;
//! layers that attend to a window of positions only.

use serde::Deserialize;

/// Tokens of a sequence, where a window's share of the cache depends on how long sequences are.
///
/// A layer with a window keeps that many positions of each sequence however long it is. How many
/// sequences share the cache is not known, so the window counts as spread over this many tokens.
const SEQUENCE_TOKENS: f64 = 1_024.0;

/// A model's dimensions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// How profiles call it, such as `llama-3-8b`.
    pub name: String,
    /// Transformer layers.
    pub layers: u32,
    /// Width of a row between layers.
    pub hidden: u32,
    /// Heads that ask.
    pub query_heads: u32,
    /// Heads that are cached; one where the cache holds a latent row for all heads.
    pub kv_heads: u32,
    /// Numbers per head.
    pub head_dimension: u32,
    /// Parameters of the layers that every token computes: without embeddings, output head and
    /// routed experts.
    pub linear_parameters: f64,
    /// Entries of the vocabulary.
    pub vocabulary: u32,
    /// Positions it is served with, in tokens.
    pub context: u32,
    /// Bytes of a cached number.
    pub kv_bytes_per_number: u32,
    /// Experts, where layers have some.
    pub experts: Option<Experts>,
    /// Latent attention, where the model has it.
    pub latent: Option<Latent>,
    /// Layers that attend to a window, where the model has some.
    pub window: Option<Window>,
    /// Where the figures are from.
    pub source: String,
}

/// Routed experts: each token computes a few of them.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experts {
    /// Routed experts of a layer; shared ones are linear parameters.
    pub count: u32,
    /// Of which a token computes so many.
    pub per_token: u32,
    /// Layers that have experts.
    pub layers: u32,
    /// Parameters of one expert in one layer.
    pub parameters: f64,
}

/// Multi-head latent attention: the cache holds one row for all heads.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latent {
    /// Numbers of the compressed keys and values.
    pub rank: u32,
    /// Numbers of the rotary key, cached beside them.
    pub rope_dimension: u32,
    /// Numbers of a head's value, where prompts are computed with whole keys and values.
    pub value_dimension: u32,
}

/// Layers that attend to the newest positions only.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Positions that such a layer attends to.
    pub tokens: u32,
    /// How many of the layers are such.
    pub layers: u32,
}

impl Experts {
    /// Distinct experts of a layer that so many tokens are expected to touch, each token choosing
    /// evenly and independently: E (1 - (1 - k/E)^T).
    pub fn touched(&self, tokens: f64) -> f64 {
        let count = f64::from(self.count);
        let missed = (1.0 - f64::from(self.per_token) / count).powf(tokens);
        count * (1.0 - missed)
    }

    /// Parameters of all experts.
    pub fn all_parameters(&self) -> f64 {
        f64::from(self.layers) * f64::from(self.count) * self.parameters
    }

    /// Parameters that a token is multiplied by.
    pub fn active_parameters(&self) -> f64 {
        f64::from(self.layers) * f64::from(self.per_token) * self.parameters
    }

    /// Parameters that a step of so many tokens reads.
    pub(crate) fn read_parameters(&self, tokens: f64) -> f64 {
        f64::from(self.layers) * self.touched(tokens) * self.parameters
    }
}

impl Model {
    /// Bytes of keys and values that a token takes in the cache.
    pub fn kv_bytes_per_token(&self) -> f64 {
        self.kv_bytes_per_layer() * self.layers_that_keep()
    }

    /// Bytes that a decode reads for each position that all layers attend to.
    pub(crate) fn kv_bytes_per_position(&self) -> f64 {
        self.kv_bytes_per_layer() * f64::from(self.layers)
    }

    fn kv_bytes_per_layer(&self) -> f64 {
        let numbers = match &self.latent {
            Some(latent) => f64::from(latent.rank) + f64::from(latent.rope_dimension),
            None => 2.0 * f64::from(self.kv_heads) * f64::from(self.head_dimension),
        };
        numbers * f64::from(self.kv_bytes_per_number)
    }

    /// Layers that keep a token, where one that keeps it a part of the time is a part.
    fn layers_that_keep(&self) -> f64 {
        let layers = f64::from(self.layers);
        match &self.window {
            None => layers,
            Some(window) => {
                let kept = (f64::from(window.tokens) / SEQUENCE_TOKENS).min(1.0);
                layers - f64::from(window.layers) * (1.0 - kept)
            }
        }
    }

    /// What a layer attends to, mean over all layers: all of it, or where it has a window no more
    /// than so many whole windows.
    pub(crate) fn attended(&self, all: f64, windows: f64) -> f64 {
        match &self.window {
            None => all,
            Some(window) => {
                let near = all.min(windows * f64::from(window.tokens));
                let share = f64::from(window.layers) / f64::from(self.layers);
                all - (all - near) * share
            }
        }
    }

    /// Bytes of all weights when a parameter of the layers, and of the experts, takes so many.
    pub(crate) fn weight_bytes(&self, per_parameter: f64, per_expert_parameter: f64) -> f64 {
        let embedded = f64::from(self.vocabulary) * f64::from(self.hidden);
        let experts = self.experts.map_or(0.0, |experts| experts.all_parameters());
        // Embeddings and output head, both 16-bit.
        self.linear_parameters * per_parameter
            + 2.0 * embedded * 2.0
            + experts * per_expert_parameter
    }

    /// Why no model can have these dimensions.
    pub(crate) fn fault(&self) -> Option<String> {
        let forms = || self.experts_fault().or_else(|| self.latent_fault());
        self.dimensions_fault().or_else(forms).or_else(|| self.window_fault())
    }

    fn dimensions_fault(&self) -> Option<String> {
        let dimensions = [
            ("layers", self.layers),
            ("hidden", self.hidden),
            ("query_heads", self.query_heads),
            ("kv_heads", self.kv_heads),
            ("head_dimension", self.head_dimension),
            ("vocabulary", self.vocabulary),
            ("kv_bytes_per_number", self.kv_bytes_per_number),
        ];
        if let Some((name, _)) = dimensions.into_iter().find(|(_, dimension)| *dimension == 0) {
            return Some(format!("`{name} = 0`; expected at least 1"));
        }
        let parameters = self.linear_parameters;
        let known = parameters.is_finite() && 0.0 < parameters;
        (!known).then(|| format!("`linear_parameters = {parameters}`; expected them above zero"))
    }

    fn experts_fault(&self) -> Option<String> {
        let experts = self.experts?;
        let Experts { count, per_token, layers, parameters } = experts;
        if per_token == 0 || count < per_token {
            return Some(format!(
                "`experts.per_token = {per_token}`; expected 1 to `experts.count = {count}`"
            ));
        }
        if layers == 0 || self.layers < layers {
            return Some(format!(
                "`experts.layers = {layers}`; expected 1 to `layers = {}`",
                self.layers
            ));
        }
        let known = parameters.is_finite() && 0.0 < parameters;
        (!known).then(|| {
            format!(
                "`experts.parameters = {parameters}`; expected the parameters of one expert in one layer"
            )
        })
    }

    fn latent_fault(&self) -> Option<String> {
        let Latent { rank, rope_dimension: _, value_dimension } = self.latent?;
        if rank == 0 || value_dimension == 0 {
            return Some(format!(
                "`latent.rank = {rank}` and `latent.value_dimension = {value_dimension}`; expected both above zero"
            ));
        }
        (self.kv_heads != 1).then(|| {
            format!(
                "`kv_heads = {}` beside `latent`, which is one row for all heads; expected 1",
                self.kv_heads
            )
        })
    }

    fn window_fault(&self) -> Option<String> {
        let Window { tokens, layers } = self.window?;
        if tokens == 0 {
            return Some("`window.tokens = 0`; expected at least 1".to_owned());
        }
        (layers == 0 || self.layers < layers).then(|| {
            format!("`window.layers = {layers}`; expected 1 to `layers = {}`", self.layers)
        })
    }
}

#[cfg(test)]
mod tests;
