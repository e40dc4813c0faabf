//! Every capacity: named when it is passed, and nothing has changed.
