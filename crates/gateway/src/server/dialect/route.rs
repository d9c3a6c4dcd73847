//! Dialect routes: the paths of both dialects, and which methods they take.

use http::Method;
use overdraft_wire::dialect::Dialect;

use super::super::percent::unescaped;

/// What a path of a dialect leads to.
#[derive(Debug)]
pub(in crate::server) enum DialectRoute {
    Messages,
    CountTokens,
    Responses,
    InputTokens,
    Compact,
    Response(String),
    Cancel(String),
    InputItems(String),
}

impl DialectRoute {
    /// What is at a path, if it is one of a dialect's.
    pub(in crate::server) fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/messages" => return Some(Self::Messages),
            "/v1/messages/count_tokens" => return Some(Self::CountTokens),
            "/v1/responses" => return Some(Self::Responses),
            "/v1/responses/input_tokens" => return Some(Self::InputTokens),
            "/v1/responses/compact" => return Some(Self::Compact),
            _ => {}
        }
        let rest = path.strip_prefix("/v1/responses/")?;
        match rest.split_once('/') {
            None => Some(Self::Response(unescaped(rest))),
            Some((id, "cancel")) => Some(Self::Cancel(unescaped(id))),
            Some((id, "input_items")) => Some(Self::InputItems(unescaped(id))),
            Some(_) => None,
        }
    }

    /// What metrics call it.
    pub(in crate::server) const fn path(&self) -> &'static str {
        match self {
            Self::Messages => "/v1/messages",
            Self::CountTokens => "/v1/messages/count_tokens",
            Self::Responses => "/v1/responses",
            Self::InputTokens => "/v1/responses/input_tokens",
            Self::Compact => "/v1/responses/compact",
            Self::Response(_) => "/v1/responses/{id}",
            Self::Cancel(_) => "/v1/responses/{id}/cancel",
            Self::InputItems(_) => "/v1/responses/{id}/input_items",
        }
    }

    pub(super) const fn allowed(&self) -> &'static [Method] {
        match self {
            Self::Messages
            | Self::CountTokens
            | Self::Responses
            | Self::InputTokens
            | Self::Compact
            | Self::Cancel(_) => &[Method::POST],
            Self::Response(_) => &[Method::GET, Method::DELETE],
            Self::InputItems(_) => &[Method::GET],
        }
    }

    pub(super) const fn dialect(&self) -> Dialect {
        match self {
            Self::Messages | Self::CountTokens => Dialect::Messages,
            Self::Responses
            | Self::InputTokens
            | Self::Compact
            | Self::Response(_)
            | Self::Cancel(_)
            | Self::InputItems(_) => Dialect::Responses,
        }
    }
}
