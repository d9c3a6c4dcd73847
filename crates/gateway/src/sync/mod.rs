//! Sync: what several gateways before the same workers tell each other over the store.

mod peer_sync;

pub(crate) use self::peer_sync::PeerSync;
