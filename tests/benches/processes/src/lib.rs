//! Nothing: this package is its benchmark.
