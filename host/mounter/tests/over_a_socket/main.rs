//! Client and server over a real socket, with a mounter that waits on demand: what a killed client or server leaves behind, and what a hostile client
//! can do.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may end where it fails"
)]

mod bench;
mod calls;
mod hostile;
mod lives;
