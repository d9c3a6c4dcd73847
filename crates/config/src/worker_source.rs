//! Source of the workers: the file, or somewhere else too.

/// Where workers come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerSource {
    /// From the file, which must name some.
    #[default]
    File,
    /// From the file, or embedded ones where it names none and discovers none.
    FileOrEmbedded,
    /// From elsewhere too, such as the command line; the file need not name any.
    Elsewhere,
}
