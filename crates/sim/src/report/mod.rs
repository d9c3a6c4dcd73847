//! What became of the requests?
