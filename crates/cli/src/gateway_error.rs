//! Gateway error: why an address did not answer as a gateway does, and what to do about it.

use http::StatusCode;
use serde::Deserialize;

use crate::ask::AskError;
use crate::fault::Fault;
use crate::plain_text::plain;

/// Characters of a server's own message that are shown at most.
const MESSAGE_CHARS_MAX: usize = 400;

/// Why a gateway did not tell what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GatewayError {
    /// No answer.
    #[error("{0}; expected a gateway")]
    Unanswered(#[from] AskError),
    /// An answer with another status than 200.
    #[error("it answers `{status}`{}", behind(.message.as_deref()))]
    Refused {
        /// The status.
        status: StatusCode,
        /// What the server says of it.
        message: Option<String>,
        /// The member of the request that it finds fault with.
        param: Option<String>,
    },
    /// A gateway that does not know a request, in its own words.
    #[error("it answers `404 Not Found`: {0}")]
    RequestUnknown(String),
    /// An answer that no gateway of this version gives.
    #[error("it answers `{path}` with something else than a gateway does: {why}")]
    Unreadable {
        /// What was asked.
        path: String,
        /// What is wrong with the answer.
        why: String,
    },
}

/// The errors of gateways and workers, as far as they are shown.
#[derive(Deserialize)]
struct Refusal {
    error: Told,
}

#[derive(Deserialize)]
struct Told {
    message: String,
    /// Something else in the errors of some other servers.
    #[serde(default)]
    param: serde_json::Value,
}

impl GatewayError {
    /// Of an answer's status and body.
    pub(crate) fn refused(status: StatusCode, body: &[u8]) -> Self {
        let told: Option<Refusal> = serde_json::from_slice(body).ok();
        let param = told.as_ref().and_then(|told| told.error.param.as_str()).map(str::to_owned);
        let message = told.map(|told| plain(&told.error.message));
        let message = message.map(|text| text.chars().take(MESSAGE_CHARS_MAX).collect());
        Self::Refused { status, message, param }
    }

    /// The same, where a request was asked for. A gateway says what it does not find; most other servers do not.
    pub(crate) fn of_request(self) -> Self {
        match self {
            Self::Refused { status: StatusCode::NOT_FOUND, message: Some(message), .. } => {
                Self::RequestUnknown(message)
            }
            error => error,
        }
    }

    /// Of an answer to `path`.
    pub(crate) fn unreadable(path: &str, why: String) -> Self {
        Self::Unreadable { path: path.to_owned(), why }
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Unanswered(AskError::Unreachable(_) | AskError::Silent(_)) => {
                "is it running there? `overdraft serve` starts a gateway; the argument URL or `--url` names another"
            }
            Self::Unanswered(AskError::Untrusted(_)) => {
                "`SSL_CERT_FILE=FILE` in the environment names the authorities to trust; without TLS the address begins with `http://`"
            }
            Self::Unanswered(AskError::Broken(_)) => {
                "is that port a gateway's? With TLS its address begins with `https://`"
            }
            Self::Refused { status: StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, .. } => {
                "give the gateway's `admin.token` with `--token` or in `OVERDRAFT_ADMIN_TOKEN`; a proxy before it may refuse as well, so ask the gateway itself"
            }
            Self::Refused { status: StatusCode::NOT_FOUND, .. } => {
                "give the address of a gateway: where `admin.listen` is set, that one; a worker or another server knows nothing of it"
            }
            Self::RequestUnknown(_) => {
                "`overdraft explain ID --log FILE` looks in an access log; where `admin.listen` is set, that address alone knows requests"
            }
            Self::Refused { .. } | Self::Unreadable { .. } => {
                "is that a gateway, of this version? `curl URL/version` tells"
            }
        }
    }

    /// The end of a command that asked `url`.
    pub(crate) fn fault(&self, url: &str) -> Fault {
        Fault::running(format!("`{url}`: {self}")).hint(self.hint())
    }
}

/// A server's message behind its status.
fn behind(message: Option<&str>) -> String {
    message.map(|message| format!(": {message}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: &GatewayError, says: &str, hints: &str) {
        assert_eq!(error.to_string(), says);
        assert!(error.hint().contains(hints), "{error}: {}", error.hint());
    }

    #[test]
    fn what_a_server_says_is_shown_with_its_status_and_what_to_do() {
        let refused = |status, body: &str| GatewayError::refused(status, body.as_bytes());
        let told = r#"{"error":{"message":"for operators\u001b[2J"}}"#;
        let says = "it answers `403 Forbidden`: for operators\\u{1b}[2J";
        check(&refused(StatusCode::FORBIDDEN, told), says, "`--token`");
        let login = refused(StatusCode::UNAUTHORIZED, "<h1>Log in</h1>");
        check(&login, "it answers `401 Unauthorized`", "a proxy before it");
        let lost = refused(StatusCode::NOT_FOUND, r#"{"detail":"Not Found"}"#);
        check(&lost, "it answers `404 Not Found`", "`admin.listen`");
        check(&refused(StatusCode::BAD_GATEWAY, ""), "it answers `502 Bad Gateway`", "URL/version");
        let odd = r#"{"error":{"message":"no such model","param":404}}"#;
        let says = "it answers `404 Not Found`: no such model";
        check(&refused(StatusCode::NOT_FOUND, odd), says, "`admin.listen`");
        let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "x".repeat(100_000));
        let long = refused(StatusCode::NOT_FOUND, &long).to_string();
        assert!(long.len() < 500, "{} bytes", long.len());
    }

    #[test]
    fn a_request_that_is_not_known_is_told_from_an_address_that_is_no_gateway() {
        let of =
            |body: &str| GatewayError::refused(StatusCode::NOT_FOUND, body.as_bytes()).of_request();
        let lost = of(r#"{"error":{"message":"no such request","code":"not_found"}}"#);
        check(&lost, "it answers `404 Not Found`: no such request", "--log FILE");
        let other = of(r#"{"detail":"Not Found"}"#);
        check(&other, "it answers `404 Not Found`", "give the address of a gateway");
    }

    #[test]
    fn what_does_not_answer_is_said_to_be_expected() {
        let down = AskError::Unreachable("refused".to_owned());
        check(&down.into(), "no connection: refused; expected a gateway", "overdraft serve");
        let stranger = AskError::Untrusted("unknown issuer".to_owned());
        let says = "no TLS connection: unknown issuer; expected a gateway";
        check(&stranger.into(), says, "SSL_CERT_FILE");
        let page = GatewayError::unreadable("/admin/views/now", "expected value".to_owned());
        let says =
            "it answers `/admin/views/now` with something else than a gateway does: expected value";
        check(&page, says, "URL/version");
    }
}
