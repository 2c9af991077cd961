//! What only the embedded store can do.
