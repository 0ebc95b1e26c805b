//! Why a component could not be made ready.

use crate::redact::printable;
use wasmount_core::text::shortened;

/// Longest text of the engine's that stands in an error, in bytes: it may repeat names of the component, of up to 100 kB each.
const TEXT_BYTES: usize = 1024;

/// A component that cannot be put to use, or an engine that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// wasmtime refused its settings, or a thread could not be started.
    #[error("the WebAssembly engine cannot start: {0}")]
    Start(String),
    /// Not a component, or one that this engine does not take.
    #[error("the component does not compile: {0}")]
    Compile(String),
    /// Compiling failed for a reason that is not the component's, or not surely: the same may succeed a moment later.
    #[error("the component was not compiled: {0}; it is tried again")]
    NotCompiled(String),
    /// It imports something that the host does not have, or has in another shape.
    #[error("the component does not link: {0}")]
    Link(String),
    /// It lacks the one interface that every backend must have.
    #[error(
        "the component does not export `wasmount:csi/identity`: is it a Wasmount plugin, built with `wasmount_guest::export!`?"
    )]
    NoIdentity,
    /// It has an interface, in another shape than the contract's.
    #[error(
        "the export `{interface}` does not have the shape of the contract: {reason}; rebuild the plugin with the SDK of this host"
    )]
    Shape {
        /// Which interface.
        interface: &'static str,
        /// What differs.
        reason: String,
    },
    /// Its limits are larger than what the host was started with.
    #[error(
        "limits.{key} is {wanted}, this host was started with room for {most}; lower it, or restart the host"
    )]
    LimitTooHigh {
        /// Which limit.
        key: &'static str,
        /// As the document says.
        wanted: u64,
        /// What there is.
        most: u64,
    },
    /// Starting one instance failed.
    #[error("the component cannot be started: {0}")]
    Instantiate(String),
    /// A task of the host ended early: a bug of the host.
    #[error("compiling ended without an answer: this is a bug of the host")]
    Lost,
}

/// What the engine says of a component, in one line of bounded length.
pub(crate) fn words(error: &wasmtime::Error) -> String {
    shortened(printable(&format!("{error:#}")), TEXT_BYTES)
}
