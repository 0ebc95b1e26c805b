//! Versions of a backend: what must hold before one serves. Swapping and draining will live here too.
//!
//! It decides; the engine looks and runs. It must not know wasmtime, sockets or Kubernetes.
#![forbid(unsafe_code)]

mod admission;
mod imports;
mod plugin_file;
mod pools;
mod refusal;

pub use admission::{Admitted, admit};
pub use refusal::Refusal;
