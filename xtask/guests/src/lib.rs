//! Guests in other languages than Rust, the golden guests, and the contract as others get it. This crate contains the generators of bindings and the
//! encoder of components, which the demo and the plugins in Rust do not need.
//!
//! `cargo xtask plugins --lang`, `golden`, `contract` and `wit-package` start its program; the tests call it as a library.

#![forbid(unsafe_code)]

mod c;
pub mod contract;
mod files;
mod go;
pub mod golden;
pub mod items;
mod javascript;
pub mod language;
mod python;
mod world;
