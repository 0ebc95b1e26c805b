//! A sandboxed child process: this program, started again with another subcommand and almost no rights.
//!
//! Input is on standard input, the answer on standard output, a rejection on standard error. Whatever the child does, its caller sees one error at
//! most.
//!
//! It is a separate process because untrusted bytes are parsed by large libraries, compilers and protocols, in which vulnerabilities are found every
//! year. It must not know what the work is: nothing of WebAssembly, registries or documents.
//!
//! ```text
//! run ─▶ thread: die with the parent, three descriptors, exec ─▶ serve: confine, read, work, answer
//!  └───── feed, read within bounds, kill at the deadline, report how it ended ◀───────────────┘
//! ```
#![forbid(unsafe_code)]

mod confine;
mod error;
mod landlock_rules;
mod run;
mod system_calls;

pub use confine::{confine, serve};
pub use error::ChildError;
pub use run::run;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Work for a child: a subcommand of this program, which calls [`serve`] before anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The subcommand.
    pub subcommand: &'static str,
    /// Its arguments. Every user of the machine can read them: no secret may be among them.
    pub arguments: Vec<OsString>,
    /// The bounds of the child.
    pub bounds: Bounds,
}

/// The bounds of a child. Parent and child must use the same values: the parent enforces time and output, the child the rest.
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
    /// Files and directories that it may read. If there are none, and no network, the child may open nothing at all.
    pub readable: Vec<PathBuf>,
}
