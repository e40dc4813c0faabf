//! What does not grow.
