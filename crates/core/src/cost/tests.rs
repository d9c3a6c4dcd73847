//! What must hold of prices and of what follows from them.
