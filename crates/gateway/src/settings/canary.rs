//! Settings of canaries: what is tried on a share of the requests.

use overdraft_core::cost::Prices;

/// What is tried on a share of the requests for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanarySettings {
    /// The model or cascade that is tried.
    pub model: String,
    /// Its share of the requests, in thousandths.
    pub share_permille: u16,
    /// What tokens cost where no cascade tells: of what has been in force, then of what is tried.
    pub prices: Option<[Prices; 2]>,
}
