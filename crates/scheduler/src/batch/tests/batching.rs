//! Steps that compute prompts or answers, not both (`docs/design/batch.md#r11`).

use super::*;

fn prefill_first(step_tokens: u32, blocks: u32) -> Scheduler {
    let batching = Batching::PrefillFirst;
    Scheduler::new(BatchLimits { batching, ..limits(step_tokens, blocks) })
}

#[test]
fn answers_stand_still_while_there_are_prompts() {
    let mut s = prefill_first(16, 64);
    arrive(&mut s, 1, 0, 5);
    check(&mut s, "seq1[0..5] last, +seq1");
    check(&mut s, "seq1[5..6] last");
    arrive(&mut s, 2, 1000, 20);
    arrive(&mut s, 3, 2000, 6);
    // The first prompt gets all that it can use; the next one what is left.
    check(&mut s, "seq2[0..16] none, +seq2");
    check(&mut s, "seq2[16..20] last, seq3[0..6] last, +seq3");
    check(&mut s, "seq1[6..7] last, seq2[20..21] last, seq3[6..7] last");
}

#[test]
fn a_prompt_that_has_no_room_does_not_stop_the_answers() {
    let mut s = prefill_first(16, 6);
    arrive(&mut s, 1, 0, 8);
    arrive(&mut s, 2, 1000, 8);
    check(&mut s, "seq1[0..8] last, seq2[0..8] last, +seq1, +seq2");
    arrive(&mut s, 3, 2000, 8);
    check(&mut s, "seq1[8..9] last, seq2[8..9] last");
    finish(&mut s, 2);
    check(&mut s, "seq3[0..8] last, +seq3");
    check(&mut s, "seq1[10..11] last, seq3[8..9] last");
}
