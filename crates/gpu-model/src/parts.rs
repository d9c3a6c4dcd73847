//! Breakdown of a step's time.

/// The parts of a step's time, each in seconds. They add up to the step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepParts {
    /// Matrix products that every row takes part in: reading weights, multiplying.
    pub layers: f64,
    /// Matrix products of routed experts; none in a dense model.
    pub experts: f64,
    /// The output head.
    pub head: f64,
    /// Attention of sequences that generate.
    pub decode_attention: f64,
    /// Attention of prompts.
    pub prefill_attention: f64,
    /// Norms, activations and small kernels.
    pub elementwise: f64,
    /// Between GPUs.
    pub links: f64,
    /// What the CPU adds: all that it takes, or what of it no other part hides (`Scheduling`).
    pub host: f64,
}

impl StepParts {
    /// The whole step, in seconds.
    pub fn seconds(&self) -> f64 {
        self.layers
            + self.experts
            + self.head
            + self.decode_attention
            + self.prefill_attention
            + self.elementwise
            + self.links
            + self.host
    }
}
