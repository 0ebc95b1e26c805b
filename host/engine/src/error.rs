//! Why a component could not be prepared.

use crate::redact::printable;
use std::fmt::Display;
use wasmount_core::text::shortened;

/// Longest text of the engine in an error, in bytes: it may repeat names of the component, of up to 100 kB each.
const TEXT_BYTES: usize = 1024;

/// A component that cannot be used, or an engine that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// wasmtime rejected its settings, or a thread could not be started.
    #[error("the WebAssembly engine cannot start: {0}")]
    Start(String),
    /// Not a component, or one that this engine does not support.
    #[error("the component does not compile: {0}")]
    Compile(String),
    /// Compiling failed for a reason that is not, or not certainly, the component's: a retry may succeed.
    #[error("the component was not compiled: {0}; the host retries")]
    NotCompiled(String),
    /// It imports an interface that the host does not have, or has with other types.
    #[error("the component does not link: {0}")]
    Link(String),
    /// It lacks the only interface that every backend must have.
    #[error(
        "the component does not export `wasmount:csi/identity`: is it a Wasmount plugin, built with `wasmount_guest::export!`?"
    )]
    NoIdentity,
    /// It has an interface with types that differ from the contract's.
    #[error(
        "the export `{interface}` does not have the shape of the contract: {reason}; rebuild the plugin with the SDK of this host"
    )]
    Shape {
        /// The interface.
        interface: &'static str,
        /// The difference.
        reason: String,
    },
    /// Its limits exceed those with which the host was started.
    #[error(
        "limits.{key} is {requested}, this host was started with room for {most}; lower it, or restart the host"
    )]
    LimitTooHigh {
        /// The limit.
        key: &'static str,
        /// The value in the document.
        requested: u64,
        /// The value of the host.
        most: u64,
    },
    /// Starting one instance failed.
    #[error("the component cannot be started: {0}")]
    Instantiate(String),
    /// A task of the host ended early: a bug of the host.
    #[error("compiling ended without an answer: this is a bug of the host")]
    Lost,
}

/// A library's message about a component, in one line of bounded length.
pub(crate) fn describe(error: &impl Display) -> String {
    shortened(printable(&format!("{error:#}")), TEXT_BYTES)
}
