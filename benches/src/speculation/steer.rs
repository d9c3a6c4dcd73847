//! Steered models: two random-weight models that agree with a chosen probability.
//!
//! Every forward pass is computed at full cost; then the logit of one token is raised above all
//! others. That token is a function of the last token and its position, so the target generates the
//! same text with and without speculation, and the draft agrees with the chosen probability. Token
//! ids encode the kind of text, so one pair generates texts that are easy and hard to draft.

use overdraft_engine::{Backend, BackendError, BatchSlot, ModelShape};
use overdraft_scheduler::batch::Logits;
use overdraft_units::TokenId;

/// Tokens of one kind of text; those before the first kind are of none.
const TOKENS: u32 = 1_024;
/// Tokens of a verse: what is copied is one of those, again and again.
const VERSE: u32 = 64;
/// One token in so many of a copy is followed by another place of the same verse.
const SLIP_ONE_IN: u64 = 32;
/// Above every logit of random weights.
const RAISED: f32 = 1e4;

/// Kinds of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// The draft model is mostly right.
    Easy,
    /// It is right four times in five.
    Even,
    /// It is mostly wrong.
    Hard,
    /// The text says again what stands before it.
    Copy,
}

/// Whose logits are steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Target,
    Draft,
}

/// A model that says what it is told to, after it has computed what it would have said.
pub(crate) struct Steered {
    inner: Box<dyn Backend>,
    role: Role,
}

impl Text {
    const ALL: [Self; 4] = [Self::Easy, Self::Even, Self::Hard, Self::Copy];

    /// The chance that the draft model's token is the target's, in hundredths.
    pub(crate) const fn chance(self) -> u64 {
        match self {
            Self::Easy => 90,
            Self::Even => 80,
            Self::Hard => 35,
            Self::Copy => 70,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Easy => "easy",
            Self::Even => "even",
            Self::Hard => "hard",
            Self::Copy => "copy",
        }
    }

    const fn first(self) -> u32 {
        let place = match self {
            Self::Easy => 1,
            Self::Even => 2,
            Self::Hard => 3,
            Self::Copy => 4,
        };
        TOKENS * place
    }

    fn of(token: TokenId) -> Option<Self> {
        Self::ALL.into_iter().find(|text| token.0 / TOKENS == text.first() / TOKENS)
    }

    /// A prompt of so many tokens; one of a copy holds its verse, from the beginning.
    pub(crate) fn prompt(self, dice: u64, length: u32) -> Vec<TokenId> {
        let verse = u32::try_from(dice % u64::from(TOKENS / VERSE)).unwrap_or(0);
        let token = |place: u32| match self {
            Self::Copy => self.first() + verse * VERSE + place % VERSE,
            _ => self.at(mix(dice, u64::from(place))),
        };
        (0..length).map(|place| TokenId(token(place))).collect()
    }

    /// The token that follows another at a position.
    fn next(self, token: TokenId, position: u32) -> u32 {
        let dice = mix(u64::from(token.0), u64::from(position));
        if self != Self::Copy {
            return self.at(dice);
        }
        let place = token.0 - self.first();
        let (verse, after) = (place / VERSE * VERSE, (place + 1) % VERSE);
        let slipped = u32::try_from(dice / SLIP_ONE_IN % u64::from(VERSE)).unwrap_or(0);
        self.first() + verse + if dice.is_multiple_of(SLIP_ONE_IN) { slipped } else { after }
    }

    fn at(self, dice: u64) -> u32 {
        self.first() + u32::try_from(dice % u64::from(TOKENS)).unwrap_or(0)
    }
}

impl Steered {
    pub(crate) fn new(inner: Box<dyn Backend>, role: Role) -> Self {
        Self { inner, role }
    }
}

impl Role {
    /// What this model says after a token at a position; nothing particular after no kind of text.
    fn says(self, token: TokenId, position: u32) -> Option<u32> {
        let text = Text::of(token)?;
        let next = text.next(token, position);
        let agrees = mix(u64::from(next), u64::from(position) << 20) % 100 < text.chance();
        let other = text.first() + (next + 1 - text.first()) % TOKENS;
        Some(if self == Self::Target || agrees { next } else { other })
    }
}

impl Backend for Steered {
    fn shape(&self) -> ModelShape {
        self.inner.shape()
    }

    fn forward(
        &mut self,
        batch: &[BatchSlot<'_>],
        logits: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        self.inner.forward(batch, logits)?;
        let mut rows = logits.chunks_exact_mut(self.inner.shape().vocabulary);
        for slot in batch {
            let last = slot.tokens.len() - 1;
            let wanted = match slot.logits {
                Logits::None => continue,
                Logits::Last => last..last + 1,
                Logits::Every => 0..last + 1,
            };
            for place in wanted {
                let Some(row) = rows.next() else { break };
                let position = slot.start + u32::try_from(place).unwrap_or(u32::MAX);
                let says = self.role.says(slot.tokens[place], position);
                let at = says.and_then(|id| usize::try_from(id).ok());
                if let Some(logit) = at.and_then(|at| row.get_mut(at)) {
                    *logit = RAISED;
                }
            }
        }
        Ok(())
    }
}

/// Any number, decided by two (splitmix64's last steps).
fn mix(one: u64, other: u64) -> u64 {
    let mut value =
        one.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ other.wrapping_mul(0xd6e8_feb8_6659_fd93);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many tokens of a text, those that the draft model says as well, in thousandths.
    fn agreement(text: Text) -> usize {
        let mut token = text.prompt(7, 1)[0];
        let mut agreed = 0;
        for position in 0..20_000 {
            let says = |role: Role| role.says(token, position).unwrap();
            agreed += usize::from(says(Role::Target) == says(Role::Draft));
            token = TokenId(says(Role::Target));
        }
        agreed / 20
    }

    #[test]
    fn the_two_agree_as_often_as_the_text_says() {
        for text in Text::ALL {
            let (found, wanted) = (agreement(text), usize::try_from(10 * text.chance()).unwrap());
            assert!(found.abs_diff(wanted) < 30, "{}: {found} of {wanted}", text.name());
        }
    }

    #[test]
    fn a_copy_says_again_what_its_prompt_said() {
        let mut text: Vec<TokenId> = Text::Copy.prompt(3, 80);
        for position in 79..400 {
            let next = Role::Target.says(*text.last().unwrap(), position).unwrap();
            text.push(TokenId(next));
        }
        let pairs =
            |text: &[TokenId]| text.windows(2).map(|two| (two[0], two[1])).collect::<Vec<_>>();
        let before = pairs(&text[..80]);
        let again = pairs(&text[80..]).iter().filter(|pair| before.contains(pair)).count();
        assert!(280 <= again, "{again} of 320 pairs were there before");
    }

    #[test]
    fn text_stays_of_its_kind() {
        for text in Text::ALL {
            let mut token = text.prompt(5, 4)[3];
            for position in 0..500 {
                token = TokenId(Role::Target.says(token, position).unwrap());
                assert_eq!(Text::of(token), Some(text));
            }
        }
    }
}
