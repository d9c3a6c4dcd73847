//! KV cache sharing settings: peers, token and limits.

use super::peer::{Peer, PeerError};

/// Peers that a worker may have.
const PEERS_MAX: usize = 32;

/// Minimum length of a token: a shorter one can be guessed.
const TOKEN_LENGTH_MIN: usize = 16;

/// How a worker shares its blocks.
#[derive(Clone)]
pub struct KvShareSettings {
    /// Whether peers may fetch our blocks.
    pub(super) offers: bool,
    /// The peers.
    pub(super) peers: Vec<Peer>,
    /// Whether to ask whomever a request's header names.
    pub(super) trusts_gateway: bool,
    /// What all workers of the fleet know.
    pub(super) token: String,
}

/// Blocks cannot be shared like that.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvShareError {
    /// Not the address of a worker.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// More than anybody asks.
    #[error("`{asked}` peers are too many; expected at most {PEERS_MAX}")]
    TooMany {
        /// How many were given.
        asked: usize,
    },
    /// A token that says nothing, or that no header carries.
    #[error(
        "the token of shared blocks has `{length}` characters; expected at least \
         {TOKEN_LENGTH_MIN}, printable, as from `openssl rand -hex 32`"
    )]
    Token {
        /// How many it has.
        length: usize,
    },
}

impl KvShareSettings {
    /// Shares nothing yet with those who know `token`.
    ///
    /// # Errors
    /// [`KvShareError::Token`].
    pub fn new(token: &str) -> Result<Self, KvShareError> {
        let length = token.chars().count();
        let plain = token.bytes().all(|byte| byte.is_ascii_graphic());
        if length < TOKEN_LENGTH_MIN || !plain {
            return Err(KvShareError::Token { length });
        }
        let token = token.to_owned();
        Ok(Self { offers: false, peers: Vec::new(), trusts_gateway: false, token })
    }

    /// Gives blocks to peers that know the token.
    #[must_use]
    pub fn offering(self) -> Self {
        Self { offers: true, ..self }
    }

    /// Fetches blocks from these.
    ///
    /// # Errors
    /// [`KvShareError`] that names the address.
    pub fn fetching_from<'a>(
        self,
        peers: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, KvShareError> {
        let peers: Vec<Peer> = peers.into_iter().map(str::parse).collect::<Result<_, _>>()?;
        if peers.len() > PEERS_MAX {
            return Err(KvShareError::TooMany { asked: peers.len() });
        }
        Ok(Self { peers, ..self })
    }

    /// Fetches blocks from whomever a request's header names: only where nobody but gateways reaches
    /// this worker, for whoever is named is told the token.
    #[must_use]
    pub fn trusting_the_gateway(self) -> Self {
        Self { trusts_gateway: true, ..self }
    }
}

/// The token is a secret.
impl std::fmt::Debug for KvShareSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KvShareSettings")
            .field("offers", &self.offers)
            .field("peers", &self.peers)
            .field("trusts_gateway", &self.trusts_gateway)
            .finish_non_exhaustive()
    }
}
