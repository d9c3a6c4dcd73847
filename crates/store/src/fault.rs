//! Redis errors: classifies what went wrong, without the server's words.

use redis::{ErrorKind, RedisError};

/// Why a command had no result. It never contains the command's arguments, so no password leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Fault {
    /// The breaker is open: nothing was sent.
    #[error("the store was not asked, for it failed a moment ago")]
    Fused,
    /// No answer in time.
    #[error("the store did not answer in time")]
    Timeout,
    /// No connection, or it broke.
    #[error("the store cannot be reached")]
    Unreachable,
    /// The server's certificate is not accepted: another name, an unknown authority, or expired.
    #[error("the store's certificate is not accepted for the name in its address")]
    Certificate,
    /// The password is not accepted, or one is wanted.
    #[error("the store does not accept the password; expected the one that Redis was given")]
    Password,
    /// The user may not do this.
    #[error(
        "the store's user may not do this; expected rights on the keys of the namespace and on scripts"
    )]
    Forbidden,
    /// It has no memory left.
    #[error("the store is full; give Redis more `maxmemory`, or a policy that evicts")]
    Full,
    /// It takes no writes.
    #[error("the store is read-only; expected a primary")]
    ReadOnly,
    /// It is still loading its data.
    #[error("the store is loading its data")]
    Loading,
    /// The cluster, or who watches over failovers, has no primary for the keys.
    #[error("the store's cluster has nobody for the keys")]
    Cluster,
    /// Another program's value lies at the key.
    #[error("something else lies under the store's key")]
    WrongType,
    /// The answer is none.
    #[error("the store's answer is not understood")]
    Garbage,
    /// Anything else.
    #[error("the store refused")]
    Refused,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Fused,
        Self::Timeout,
        Self::Unreachable,
        Self::Certificate,
        Self::Password,
        Self::Forbidden,
        Self::Full,
        Self::ReadOnly,
        Self::Loading,
        Self::Cluster,
        Self::WrongType,
        Self::Garbage,
        Self::Refused,
    ];

    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fused => "fused",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Certificate => "certificate",
            Self::Password => "password",
            Self::Forbidden => "forbidden",
            Self::Full => "full",
            Self::ReadOnly => "read_only",
            Self::Loading => "loading",
            Self::Cluster => "cluster",
            Self::WrongType => "wrong_type",
            Self::Garbage => "garbage",
            Self::Refused => "refused",
        }
    }

    /// Whether another connection may do better.
    pub(crate) const fn ends_the_connection(self) -> bool {
        match self {
            Self::Timeout
            | Self::Unreachable
            | Self::Certificate
            | Self::Password
            | Self::ReadOnly
            | Self::Cluster
            | Self::Garbage
            | Self::Refused => true,
            Self::Fused | Self::Forbidden | Self::Full | Self::Loading | Self::WrongType => false,
        }
    }
}

/// What rustls says of a certificate that it does not accept; the error's kind is that of any broken connection.
const BAD_CERTIFICATE: &str = "invalid peer certificate";

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        if error.is_timeout() {
            return Self::Timeout;
        }
        match code(&error) {
            Some("NOAUTH" | "WRONGPASS") => return Self::Password,
            Some("NOPERM") => return Self::Forbidden,
            Some("OOM" | "MISCONF") => return Self::Full,
            Some("READONLY" | "NOREPLICAS") => return Self::ReadOnly,
            Some("LOADING" | "BUSY") => return Self::Loading,
            Some("WRONGTYPE") => return Self::WrongType,
            Some("CLUSTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" | "MASTERDOWN" | "CROSSSLOT") => {
                return Self::Cluster;
            }
            _ => {}
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Password,
            ErrorKind::Io if error.to_string().contains(BAD_CERTIFICATE) => Self::Certificate,
            ErrorKind::Io => Self::Unreachable,
            ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::NoValidReplicasFoundBySentinel
            | ErrorKind::EmptySentinelList
            | ErrorKind::ClusterConnectionNotFound => Self::Cluster,
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Self::Garbage,
            _ => Self::Refused,
        }
    }
}

/// Whether a server asks who we are before it says anything.
pub(crate) fn wants_login(error: &RedisError) -> bool {
    code(error) == Some("NOAUTH")
}

/// The word that an error begins with. Before version 7, Redis wraps what befell a command of a script
/// into an error of the script's.
fn code(error: &RedisError) -> Option<&str> {
    const WRAPPED: [&str; 6] = ["READONLY", "OOM", "MISCONF", "NOREPLICAS", "WRONGTYPE", "NOPERM"];
    let detail = error.detail().filter(|detail| detail.contains("user_script"));
    let inner =
        |detail: &str| WRAPPED.into_iter().find(|code| detail.contains(&format!("-{code} ")));
    detail.and_then(inner).or_else(|| error.code())
}

/// Why a store cannot be opened at all, whatever Redis does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The address is none.
    #[error(transparent)]
    Place(#[from] crate::address::PlaceError),
    /// A file of TLS cannot be read.
    #[error("`{path}` cannot be read: {why}; expected a PEM file")]
    TlsFile {
        /// As configured.
        path: String,
        /// The system's words.
        why: String,
    },
    /// A certificate without its key, or the other way round.
    #[error("the store's client certificate and its key go together; expected both or neither")]
    HalfOfTls,
    /// Certificates that cannot be used.
    #[error(
        "the store's certificates cannot be used: {why}; expected PEM of a certificate and its key"
    )]
    Tls {
        /// What is wrong with them.
        why: String,
    },
}
