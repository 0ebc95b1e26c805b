//! The core of the host: CSI's terms as Rust types, the three traits that are substituted in tests, and the driver that combines them.
//!
//! It is a separate crate so that decisions can be read and tested without a socket, a kernel or a guest. It must not know tonic, wasmtime, rustix or
//! kube; a test of the workspace ensures this.
//!
//! ```text
//! csi ──▶ driver ──▶ trait Backend   (engine: a component; tests: native code)
//!            │  └──▶ trait Mounter   (mount: in this process, or behind a socket)
//!            └─────▶ trait StateStore (state: redb)
//! ```

#![forbid(unsafe_code)]

#[macro_use]
mod named;

pub mod attributes;
pub mod backend;
pub mod blame;
pub mod call;
pub mod capabilities;
mod claims;
pub mod code;
pub mod device_fact;
pub mod document;
pub mod driver;
pub mod error;
pub mod fault;
pub mod health;
pub mod migration;
pub mod mounter;
pub mod mutex;
pub mod names;
pub mod node_fact;
pub mod nodes;
pub mod plan;
pub mod pool;
pub mod rpc;
pub mod secrets;
pub mod services;
pub mod snapshot;
pub mod state;
pub mod status;
pub mod text;
pub mod topology;
pub mod volume;
