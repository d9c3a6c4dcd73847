//! Optional page number in four bytes, to keep the structures that are walked small.

use core::num::NonZeroU32;

use overdraft_units::BlockId;

/// Names a page, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Link(Option<NonZeroU32>);

impl Link {
    /// Names no page.
    pub(super) const NONE: Self = Self(None);

    /// Names this page. There are at most `u32::MAX` of them, so the last one's number is below that.
    pub(super) fn to(block: BlockId) -> Self {
        Self(block.0.checked_add(1).and_then(NonZeroU32::new))
    }

    /// The page that it names.
    pub(super) fn page(self) -> Option<BlockId> {
        self.0.map(|number| BlockId(number.get() - 1))
    }
}
