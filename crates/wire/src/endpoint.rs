//! Endpoints of the API that workers serve and the gateway forwards to them, with their properties.
//!
//! A new endpoint is one variant here and one row in each table of this file; routes, metric labels,
//! the response cache, cascades, token counting and the list at `/` follow from its properties.

/// An endpoint of a worker, by OpenAI's path or vLLM's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// `POST /v1/chat/completions`
    ChatCompletions,
    /// `POST /v1/completions`
    Completions,
    /// `POST /v1/embeddings`
    Embeddings,
    /// `POST /v1/rerank`
    Rerank,
    /// `POST /v1/score`
    Score,
    /// `POST /tokenize`
    Tokenize,
    /// `POST /detokenize`
    Detokenize,
}

/// The shape of what a generating endpoint takes and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// Messages in, a message out.
    Chat,
    /// A prompt in, its continuation out.
    Completion,
}

impl Generation {
    /// The endpoint that takes it.
    pub const fn endpoint(self) -> Endpoint {
        match self {
            Self::Chat => Endpoint::ChatCompletions,
            Self::Completion => Endpoint::Completions,
        }
    }
}

impl Endpoint {
    /// Every endpoint, in the order in which they are listed.
    pub const ALL: [Self; 7] = [
        Self::ChatCompletions,
        Self::Completions,
        Self::Embeddings,
        Self::Rerank,
        Self::Score,
        Self::Tokenize,
        Self::Detokenize,
    ];

    /// The endpoint at a path.
    ///
    /// ```
    /// use overdraft_wire::Endpoint;
    ///
    /// assert_eq!(Endpoint::of_path("/v1/completions"), Some(Endpoint::Completions));
    /// assert_eq!(Endpoint::of_path("/v1/models"), None);
    /// ```
    pub fn of_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|endpoint| endpoint.path() == path)
    }

    /// Its path, which is its label in metrics as well.
    pub const fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Embeddings => "/v1/embeddings",
            Self::Rerank => "/v1/rerank",
            Self::Score => "/v1/score",
            Self::Tokenize => "/tokenize",
            Self::Detokenize => "/detokenize",
        }
    }

    /// What it does, in a few words.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat, streamed with \"stream\": true",
            Self::Completions => "plain completions",
            Self::Embeddings => "embeddings, if a worker serves them",
            Self::Rerank => "documents by how well they answer a query, likewise",
            Self::Score => "how like two texts are, likewise",
            Self::Tokenize => "text to token ids",
            Self::Detokenize => "token ids to text",
        }
    }

    /// What it generates, if it generates tokens.
    pub const fn generation(self) -> Option<Generation> {
        match self {
            Self::ChatCompletions => Some(Generation::Chat),
            Self::Completions => Some(Generation::Completion),
            Self::Embeddings | Self::Rerank | Self::Score | Self::Tokenize | Self::Detokenize => {
                None
            }
        }
    }

    /// The members of a request whose texts the model reads without generating anything; none of an endpoint that
    /// generates, or that no model is asked for.
    pub const fn read_members(self) -> &'static [&'static str] {
        match self {
            Self::Embeddings => &["input", "messages"],
            Self::Rerank => &["query", "documents"],
            Self::Score => &["text_1", "text_2", "queries", "documents", "items"],
            Self::ChatCompletions | Self::Completions | Self::Tokenize | Self::Detokenize => &[],
        }
    }

    /// Whether it generates tokens: such a request is admitted, queued, bounded in length and tried as a canary.
    pub const fn generates(self) -> bool {
        self.generation().is_some()
    }

    /// Whether its answer may be a stream.
    pub const fn streams(self) -> bool {
        self.generates()
    }

    /// Whether the response cache may hold its answers.
    pub const fn is_cacheable(self) -> bool {
        self.generates()
    }

    /// Whether a cascade may put it to a draft model first.
    pub const fn is_cascadable(self) -> bool {
        self.generates()
    }

    /// Whether the tokens of its prompt can be counted before it is routed.
    pub const fn counts_tokens(self) -> bool {
        self.generates()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_found_by_its_path_and_by_no_other() {
        for endpoint in Endpoint::ALL {
            assert_eq!(Endpoint::of_path(endpoint.path()), Some(endpoint));
            assert!(!endpoint.summary().is_empty());
        }
        for path in ["", "/", "/v1/chat/completions/", "/V1/completions", "v1/completions"] {
            assert_eq!(Endpoint::of_path(path), None, "{path}");
        }
    }

    #[test]
    fn only_what_generates_is_streamed_cached_or_cascaded() {
        for endpoint in Endpoint::ALL {
            let others = [endpoint.streams(), endpoint.is_cacheable(), endpoint.is_cascadable()];
            assert!(endpoint.generates() || others == [false; 3], "{endpoint:?}");
        }
    }
}
