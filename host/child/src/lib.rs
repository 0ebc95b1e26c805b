//! Work in a re-executed process of its own that may do almost nothing.
#![forbid(unsafe_code)]
