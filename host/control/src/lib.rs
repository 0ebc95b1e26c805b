//! The words of the admin socket, and the client that speaks them.
#![forbid(unsafe_code)]
