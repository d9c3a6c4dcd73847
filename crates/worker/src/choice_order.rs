//! Choice order: which completions of a prompt may be told of next.
//!
//! The engine may start two completions between two looks at their streams. The SDKs' helpers append a choice that they
//! see for the first time to those they have, and then look it up by its number. So each prompt's choices begin in their
//! order; the first also brings the log probabilities of the prompt, which the others tell again.

/// How many choices of each prompt have begun.
#[derive(Debug)]
pub(crate) struct ChoiceOrder {
    begun: Vec<usize>,
    per_prompt: usize,
}

impl ChoiceOrder {
    /// No choice has begun; each prompt has at least one.
    pub(crate) fn new(prompts: usize, per_prompt: usize) -> Self {
        Self { begun: vec![0; prompts], per_prompt }
    }

    /// Whether a choice has begun or may be the next to begin.
    pub(crate) fn admits(&self, choice: usize) -> bool {
        choice % self.per_prompt <= self.begun[choice / self.per_prompt]
    }

    /// Something was told of a choice.
    pub(crate) fn note(&mut self, choice: usize) {
        let begun = &mut self.begun[choice / self.per_prompt];
        *begun = (*begun).max(choice % self.per_prompt + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(order: &ChoiceOrder) -> Vec<usize> {
        (0..6).filter(|choice| order.admits(*choice)).collect()
    }

    #[test]
    fn the_choices_of_a_prompt_begin_in_their_order() {
        let mut order = ChoiceOrder::new(2, 3);
        assert_eq!(admitted(&order), [0, 3]);
        order.note(3);
        assert_eq!(admitted(&order), [0, 3, 4]);
        order.note(0);
        order.note(1);
        order.note(0);
        assert_eq!(admitted(&order), [0, 1, 2, 3, 4]);
        order.note(4);
        assert_eq!(admitted(&order), [0, 1, 2, 3, 4, 5]);
    }
}
