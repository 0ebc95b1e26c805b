//! Work in a process of its own that may do almost nothing: this very program, started again with another subcommand. What it is given comes
//! on standard input, what it answers goes to standard output, why it refuses to standard error. Whatever it does, it costs its caller one
//! error.
//!
//! It is apart because bytes from outside are taken apart by large libraries, compilers and protocols, in which faults are found every year.
//! It must not know what the work is: nothing of WebAssembly, registries or documents.
//!
//! ```text
//! run ─▶ spawner: fork, die with the parent, three descriptors, exec ─▶ serve: confine, read, work, answer
//!  └───── feed, read within bounds, kill at the deadline, tell how it ended ◀───────────────────────┘
//! ```
#![forbid(unsafe_code)]

mod confine;
mod error;
mod run;
mod spawner;
mod system_calls;
mod walls;

pub use confine::{confine, serve};
pub use error::ChildError;
pub use run::run;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Work for a child: a subcommand of this program, which calls [`serve`] first of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Which.
    pub subcommand: &'static str,
    /// Its arguments, which everybody on the machine can read: no secret may be among them.
    pub arguments: Vec<OsString>,
    /// What it may use.
    pub bounds: Bounds,
}

/// What a child may use. Parent and child must mean the same: one holds time and output, the other holds the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Memory that it may write to.
    pub memory_bytes: u64,
    /// CPU time of all its threads together, in whole seconds.
    pub cpu: Duration,
    /// Time from start to answer.
    pub wall: Duration,
    /// Length of its answer.
    pub output_bytes: u64,
    /// Whether it may reach the network.
    pub network: bool,
    /// Files and directories that it may read. None, and no network: it opens nothing at all.
    pub readable: Vec<PathBuf>,
}
