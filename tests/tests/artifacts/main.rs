//! Components before they serve: registries, bundles, signatures, compilation, golden guests and other languages. Files of a release.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may end where it fails"
)]

mod compile;
mod completions;
mod golden;
mod languages;
mod registry;
mod release;
mod signatures;
