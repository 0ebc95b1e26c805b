//! Runs a backend component. Each call has its own store and instance, within limits, and leaves nothing behind; the imports in this crate serve the
//! guest's host calls, and its answers are checked here.
//!
//! Only this crate knows wasmtime. It must not know gRPC, mounts or Kubernetes: pools and plans are handled by the traits of `core`.
//!
//! ```text
//! Engine ── load ──▶ LoadedComponent ── prepare ──▶ Candidate ── into_backend ──▶ WasmBackend (trait Backend)
//!              │                            │                                          │
//!   resident, cache, compile         link, trial load                  guest call: gate, store, limits, call, sync
//! ```
#![forbid(unsafe_code)]

mod answer;
mod backend;
#[allow(unreachable_pub, reason = "generated code")]
mod bindings;
mod cache;
mod compile;
mod component;
mod convert;
mod effects;
mod engine;
mod error;
mod exports;
mod fault;
mod function;
mod gate;
mod guest_call;
mod guest_log;
mod host;
mod host_error;
mod http;
mod invocation;
mod lease;
mod limits;
mod linker;
mod load;
mod names;
mod node_facts;
mod program;
mod recorder;
mod redact;
mod requests;
mod resident;
mod sealing;
mod settings;
mod slices;
mod ticker;
mod usage;

pub use backend::WasmBackend;
pub use compile::{Compile, InProcess, compile};
pub use component::{Candidate, LoadedComponent};
pub use engine::{Engine, EngineOptions};
pub use error::EngineError;
pub use exports::is_known_export;
pub use invocation::BackendParts;
pub use linker::{CONTRACT_LINE, CONTRACT_PACKAGE, is_linked, is_of_line};
pub use names::Names;
pub use node_facts::NodeFacts;
pub use program::PluginInfo;
pub use sealing::{Sealing, SealingKeyError};
pub use settings::{PoolSize, Target};
pub use usage::Usage;
