//! Why a plugin is not put to use, each with what to do about it. Apart because these are the sentences that an administrator reads first.

use std::io;
use std::path::PathBuf;
use wasmount_core::backend::{BackendError, PluginLabel};
use wasmount_core::capabilities::FeatureWithoutExport;
use wasmount_engine::EngineError;

/// A plugin that was not admitted. Whatever served before goes on.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The file is missing or not readable.
    #[error(
        "the plugin {path} cannot be read: {source}; build it, or correct plugin.path in the backend document"
    )]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Not a regular file.
    #[error("the plugin {path} is not a file; name the .wasm file itself in plugin.path")]
    NotAFile {
        /// Which path.
        path: PathBuf,
    },
    /// Too large to be read into memory and compiled.
    #[error(
        "the plugin is larger than {limit} bytes; strip it (`strip = true` in the release profile)"
    )]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The digest of the document is not one.
    #[error("plugin.digest is not `sha256:` and 64 hexadecimal digits")]
    BadDigest,
    /// Another file than the document means.
    #[error(
        "the plugin has the digest {found}, the document wants {wanted}; fetch the right file, or correct plugin.digest"
    )]
    OtherDigest {
        /// As the document says.
        wanted: String,
        /// As the file is.
        found: String,
    },
    /// A WebAssembly module, not yet a component.
    #[error(
        "the plugin is a core module, not a component; build it for the target wasm32-wasip2, or wrap it with `wasm-tools component new`"
    )]
    CoreModule,
    /// Machine code or something else.
    #[error(
        "the plugin is not WebAssembly; compiled code (.cwasm) is never taken, give the .wasm file"
    )]
    NotWasm,
    /// The engine refused it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Made for another line of the contract.
    #[error(
        "the plugin speaks {found} and this host the line {line}; use a plugin built for it, or another version of the host"
    )]
    OtherLine {
        /// The first name of another line.
        found: String,
        /// This host's.
        line: &'static str,
    },
    /// Wants what no plugin gets.
    #[error("the plugin imports what this host does not offer: {}; {hint}", imports.join(", "))]
    UnknownImports {
        /// All of them.
        imports: Vec<String>,
        /// What to do.
        hint: &'static str,
    },
    /// It trapped or failed while it was asked who it is.
    #[error("the plugin cannot say who it is: {0}; this is a fault of the plugin")]
    Identity(#[source] BackendError),
    /// A feature that this host does not know.
    #[error("{plugin} has the unknown feature `{feature}`{}; correct it, or use a newer host", nearest.map(|nearest| format!(", did you mean `{nearest}`?")).unwrap_or_default())]
    UnknownFeature {
        /// Which plugin.
        plugin: PluginLabel,
        /// As the plugin spells it.
        feature: String,
        /// The known one that is most like it.
        nearest: Option<&'static str>,
    },
    /// A feature without the service that it is about.
    #[error("{plugin} contradicts itself: {source}; this is a fault of the plugin")]
    Features {
        /// Which plugin.
        plugin: PluginLabel,
        /// What does not fit.
        source: FeatureWithoutExport,
    },
    /// The plugin does not accept its settings.
    #[error(
        "the plugin does not accept its settings: {0}; correct `settings`, `secrets` or `grants` of the backend document"
    )]
    Settings(#[source] BackendError),
    /// `probe` trapped or went over a limit.
    #[error("the plugin cannot say whether it is ready: {0}; this is a fault of the plugin")]
    Probe(#[source] BackendError),
}
