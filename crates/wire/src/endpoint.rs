//! Endpoints of the API that workers serve and the gateway forwards to them, with their properties.
//!
//! A new endpoint is one variant here and one row in each table of this file; routes, metric labels,
//! the response cache, cascades, token counting and the list at `/` follow from its properties. Another path to
//! one that is here is a word in its row of spellings.

use crate::dialect::Dialect;

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
    /// `POST /classify`
    Classify,
    /// `POST /pooling`
    Pooling,
    /// `POST /v1/moderations`
    Moderations,
    /// `POST /v1/audio/transcriptions`
    Transcriptions,
    /// `POST /v1/audio/translations`
    Translations,
    /// `POST /v1/audio/speech`
    Speech,
    /// `POST /v1/images/generations`
    ImageGenerations,
    /// `POST /v1/images/edits`
    ImageEdits,
    /// `POST /v1/images/variations`
    ImageVariations,
    /// `POST /tokenize`
    Tokenize,
    /// `POST /detokenize`
    Detokenize,
    /// `POST /v1/chat/completions/render`
    RenderChat,
    /// `POST /v1/completions/render`
    RenderCompletion,
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/responses`
    Responses,
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
    /// Every endpoint that is forwarded by its path, in the order in which they are listed. Those of dialects are not
    /// among them: their requests are translated unless their model says otherwise.
    pub const ALL: [Self; 18] = [
        Self::ChatCompletions,
        Self::Completions,
        Self::Embeddings,
        Self::Rerank,
        Self::Score,
        Self::Classify,
        Self::Pooling,
        Self::Moderations,
        Self::Transcriptions,
        Self::Translations,
        Self::Speech,
        Self::ImageGenerations,
        Self::ImageEdits,
        Self::ImageVariations,
        Self::Tokenize,
        Self::Detokenize,
        Self::RenderChat,
        Self::RenderCompletion,
    ];

    /// The endpoint at a path, by whichever of its spellings.
    ///
    /// ```
    /// use overdraft_wire::Endpoint;
    ///
    /// assert_eq!(Endpoint::of_path("/v1/completions"), Some(Endpoint::Completions));
    /// assert_eq!(Endpoint::of_path("/v2/rerank"), Some(Endpoint::Rerank));
    /// assert_eq!(Endpoint::of_path("/v1/models"), None);
    /// ```
    pub fn of_path(path: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|endpoint| endpoint.path() == path || endpoint.other_paths().contains(&path))
    }

    /// The path at which a worker is asked for what a client asked for at `path`: the client's own spelling, or the
    /// usual path where the client spoke another dialect.
    pub fn spelled_as(self, path: &str) -> &'static str {
        let other = self.other_paths().iter().find(|other| **other == path);
        other.copied().unwrap_or(self.path())
    }

    /// Its usual path, which is its label in metrics as well.
    pub const fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Embeddings => "/v1/embeddings",
            Self::Rerank => "/v1/rerank",
            Self::Score => "/v1/score",
            Self::Classify => "/classify",
            Self::Pooling => "/pooling",
            Self::Moderations => "/v1/moderations",
            Self::Transcriptions => "/v1/audio/transcriptions",
            Self::Translations => "/v1/audio/translations",
            Self::Speech => "/v1/audio/speech",
            Self::ImageGenerations => "/v1/images/generations",
            Self::ImageEdits => "/v1/images/edits",
            Self::ImageVariations => "/v1/images/variations",
            Self::Tokenize => "/tokenize",
            Self::Detokenize => "/detokenize",
            Self::RenderChat => "/v1/chat/completions/render",
            Self::RenderCompletion => "/v1/completions/render",
            Self::Messages => "/v1/messages",
            Self::Responses => "/v1/responses",
        }
    }

    /// Other paths at which engines serve the same.
    pub const fn other_paths(self) -> &'static [&'static str] {
        match self {
            Self::Rerank => &["/rerank", "/v2/rerank"],
            Self::Score => &["/score"],
            _ => &[],
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
            Self::Classify => "labels of a text, likewise",
            Self::Pooling => "what a model makes of each token of a text, likewise",
            Self::Moderations => "whether a text is harmful, likewise",
            Self::Transcriptions => "a recording as text, likewise",
            Self::Translations => "a recording as English text, likewise",
            Self::Speech => "a text as a recording, likewise",
            Self::ImageGenerations => "pictures of what a text describes, likewise",
            Self::ImageEdits => "pictures changed as a text says, likewise",
            Self::ImageVariations => "pictures like another, likewise",
            Self::Tokenize => "text to token ids",
            Self::Detokenize => "token ids to text",
            Self::RenderChat => "the prompt that a chat becomes, if a worker serves it",
            Self::RenderCompletion => "the same of a completion",
            Self::Messages => "chat in Anthropic's dialect",
            Self::Responses => "chat in the dialect of OpenAI's Responses",
        }
    }

    /// What it generates, if it generates tokens.
    pub const fn generation(self) -> Option<Generation> {
        match self {
            Self::ChatCompletions => Some(Generation::Chat),
            Self::Completions => Some(Generation::Completion),
            _ => None,
        }
    }

    /// The dialect that it speaks, where that is none of chats and completions.
    pub const fn dialect(self) -> Option<Dialect> {
        match self {
            Self::Messages => Some(Dialect::Messages),
            Self::Responses => Some(Dialect::Responses),
            _ => None,
        }
    }

    /// The members of a request whose texts the model reads without generating anything; none of an endpoint that
    /// generates, or that no model is asked for.
    pub const fn read_members(self) -> &'static [&'static str] {
        match self {
            Self::Embeddings => &["input", "messages"],
            Self::Rerank => &["query", "documents"],
            Self::Score => &["text_1", "text_2", "query", "queries", "documents", "items"],
            Self::Classify => &["input", "messages", "text"],
            Self::Pooling => &["input", "messages", "data"],
            Self::Moderations => &["input"],
            Self::Speech => &["input", "instructions"],
            Self::Transcriptions | Self::Translations => &["prompt"],
            Self::ImageGenerations | Self::ImageVariations => &["prompt"],
            Self::ImageEdits => &["prompt", "images"],
            Self::ChatCompletions | Self::Completions | Self::Messages | Self::Responses => &[],
            Self::Tokenize | Self::Detokenize | Self::RenderChat | Self::RenderCompletion => &[],
        }
    }

    /// Whether its request tells the worker a cache salt: what the model reads of it may stay in a cache of prefixes.
    /// Engines know no such field where an answer is a recording or a picture.
    pub const fn takes_salt(self) -> bool {
        self.generates() || (!self.read_members().is_empty() && !self.answers_media())
    }

    /// Whether its request may be a form (`multipart/form-data`), as one with a file is.
    pub const fn takes_forms(self) -> bool {
        matches!(
            self,
            Self::Transcriptions | Self::Translations | Self::ImageEdits | Self::ImageVariations
        )
    }

    /// Whether its answer may be a recording, a picture or subtitles, or a stream of events with parts of one.
    pub const fn answers_media(self) -> bool {
        matches!(self, Self::Speech | Self::ImageGenerations) || self.takes_forms()
    }

    /// Whether its stream is a recording as it is made, in which no comment can stand.
    pub const fn streams_bytes(self) -> bool {
        matches!(self, Self::Speech)
    }

    /// Whether it generates tokens: such a request is admitted, queued, bounded in length and tried as a canary.
    pub const fn generates(self) -> bool {
        self.generation().is_some() || self.dialect().is_some()
    }

    /// Whether its answer may be a stream of tokens, which tells their counts where it is asked to.
    pub const fn streams(self) -> bool {
        self.generation().is_some()
    }

    /// Whether the response cache may hold its answers.
    pub const fn is_cacheable(self) -> bool {
        self.generation().is_some()
    }

    /// Whether a cascade may put it to a draft model first.
    pub const fn is_cascadable(self) -> bool {
        self.generation().is_some()
    }

    /// Whether the tokens of its prompt can be counted before it is routed.
    pub const fn counts_tokens(self) -> bool {
        self.generation().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_found_by_its_path_and_by_no_other() {
        for endpoint in Endpoint::ALL {
            assert!(!endpoint.summary().is_empty());
            let paths = || endpoint.other_paths().iter().copied().chain([endpoint.path()]);
            for path in paths() {
                assert_eq!(Endpoint::of_path(path), Some(endpoint));
                assert_eq!(endpoint.spelled_as(path), path);
            }
            for other in Endpoint::ALL.into_iter().filter(|other| *other != endpoint) {
                assert!(paths().all(|path| other.spelled_as(path) == other.path()), "{other:?}");
            }
        }
        assert_eq!(Endpoint::ChatCompletions.spelled_as("/v1/messages"), "/v1/chat/completions");
        for (endpoint, dialect) in
            [(Endpoint::Messages, Dialect::Messages), (Endpoint::Responses, Dialect::Responses)]
        {
            assert_eq!(
                (Endpoint::of_path(endpoint.path()), endpoint.dialect()),
                (None, Some(dialect))
            );
            assert!(endpoint.generates() && !endpoint.streams() && !endpoint.is_cacheable());
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
            assert!(!(endpoint.generates() && endpoint.answers_media()), "{endpoint:?}");
            assert!(!endpoint.answers_media() || !endpoint.read_members().is_empty());
        }
    }

    #[test]
    fn what_a_model_reads_is_salted_but_for_media_and_what_takes_no_engine_is_not() {
        let read = [
            Endpoint::Embeddings,
            Endpoint::Rerank,
            Endpoint::Score,
            Endpoint::Classify,
            Endpoint::Pooling,
            Endpoint::Moderations,
        ];
        for endpoint in Endpoint::ALL {
            let is_salted = endpoint.generates() || read.contains(&endpoint);
            assert_eq!(endpoint.takes_salt(), is_salted, "{endpoint:?}");
        }
    }
}
