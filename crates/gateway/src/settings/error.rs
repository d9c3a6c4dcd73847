//! Configuration errors: why a gateway cannot start.

use overdraft_core::fleet::WORKERS_MAX;

use super::keys::KEYS_MAX;

/// Why a gateway cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Nobody to forward to.
    #[error("no worker is configured; name at least one, as in `--worker http://127.0.0.1:8001`")]
    NoWorkers,
    /// More workers than a fleet holds.
    #[error("{count} workers are configured; at most {WORKERS_MAX} fit one gateway")]
    TooManyWorkers {
        /// How many there are.
        count: usize,
    },
    /// The address cannot be spoken to.
    #[error("`{url}` is not a worker's address: {why}; expected one as in `http://127.0.0.1:8001`")]
    WorkerUrl {
        /// As configured.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Two workers answer to one name.
    #[error("two workers are called `{name}`; give each a name of its own")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// The name cannot be told in a header.
    #[error("`{name}` is not a worker's name; expected printable ASCII")]
    WorkerName {
        /// As configured.
        name: String,
    },
    /// The key cannot be told in a header.
    #[error(
        "the `api_key` of worker `{name}` cannot be sent; expected printable ASCII without spaces"
    )]
    WorkerKey {
        /// The worker.
        name: String,
    },
    /// Certificates for connections that are not encrypted.
    #[error(
        "worker `{name}` has `tls`, and its address begins with `http://`; expected `https://`"
    )]
    TlsOfPlainWorker {
        /// The worker.
        name: String,
    },
    /// The operators' listener has no thread.
    #[error("the listener for operators could not start: {why}")]
    Operators {
        /// What the system says.
        why: String,
    },
    /// Certificates that cannot be used.
    #[error("TLS of {whose}: {error}")]
    Tls {
        /// The listener, a worker, or the workers of a source.
        whose: String,
        /// What is wrong.
        error: overdraft_tls::TlsError,
    },
    /// The token of operators is empty, which is no secret.
    #[error(
        "`admin.token` is empty; expected a secret, or nothing at all to trust the loopback only"
    )]
    EmptyToken,
    /// More keys than one gateway holds.
    #[error("{count} keys are configured; at most {KEYS_MAX} fit one gateway")]
    TooManyKeys {
        /// How many there are.
        count: usize,
    },
    /// Nobody could tell whose request it is.
    #[error("one key is given twice, to `{one}` and to `{other}`; give each key once")]
    DuplicateKey {
        /// A tenant.
        one: String,
        /// The same, or another.
        other: String,
    },
    /// Looking at an issuer's keys without a pause.
    #[error(
        "an interval of the issuer's keys is zero; expected some time between looks, as in 5 min"
    )]
    KeySetInterval,
    /// A source of workers that can never name one.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A restart hook that runs nothing.
    #[error(
        "the restart command of worker `{name}` is empty; expected a program and its arguments"
    )]
    EmptyHook {
        /// The worker.
        name: String,
    },
    /// Certificates of the store that cannot be used.
    #[error(transparent)]
    Store(#[from] overdraft_store::OpenError),
    /// Asking the store without a pause.
    #[error("an interval of the store is zero; expected some time between exchanges, as in 30 ms")]
    StoreInterval,
    /// Answers that could never be given again.
    #[error("answers are kept for no time at all; expected a `ttl`, as in 1 h, or the mode `off`")]
    CacheLife,
    /// Responses that nobody could ever ask for.
    #[error("responses are kept for no time at all; expected a `ttl`, as in 24 h")]
    ResponsesLife,
    /// Probing without a pause.
    #[error("the probe interval is zero; expected some time between probes, as in 500 ms")]
    ProbeInterval,
    /// Scraping without a pause.
    #[error("a scrape interval is zero; expected some time between scrapes, as in 200 ms")]
    ScrapeInterval,
}

/// Why a source cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// Nothing that the DNS could be asked for.
    #[error("`{name}` is not a name in the DNS; expected one as in `workers.example.com`")]
    DnsName {
        /// As configured.
        name: String,
    },
    /// A service is named by a label, which is short and has no punctuation but `-`.
    #[error(
        "`{service}` is not a service's name; expected one as in `vllm`, without its namespace"
    )]
    ServiceName {
        /// As configured.
        service: String,
    },
    /// A namespace is named as a service is.
    #[error("`{namespace}` is not a namespace; expected one as in `inference`")]
    Namespace {
        /// As configured.
        namespace: String,
    },
    /// The API server's address cannot be spoken to.
    #[error("`{url}` is not an API server's address; expected one as in `http://127.0.0.1:8001`")]
    ApiServer {
        /// As configured.
        url: String,
    },
    /// Built without it.
    #[error("this build cannot ask Kubernetes for `{service}`; build with `--features kubernetes`")]
    NoKubernetes {
        /// As configured.
        service: String,
    },
}
