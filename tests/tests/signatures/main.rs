//! `wasmount keygen`, `sign` and `verify` as a vendor and an administrator use them: on files and in a real registry, beside what cosign's own code
//! makes and accepts. One file a subject.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may end where it fails"
)]

mod files;
mod keys;
mod registry;
mod scene;
