//! Unix sockets.
#![forbid(unsafe_code)]
