//! Guests in other languages than Rust, and the golden guests. This crate contains the generators of bindings and the encoder of components, which
//! the demo and the plugins in Rust do not need.
//!
//! `cargo xtask plugins --lang` and `cargo xtask golden` start its program; the tests call it as a library.

#![forbid(unsafe_code)]

mod c;
mod files;
mod go;
pub mod golden;
pub mod language;
mod world;
