//! Why a plugin is rejected, each with what to do about it; the kinds of rejections for machines, and whether trying again may succeed.

use std::io;
use std::path::PathBuf;
use wasmount_core::backend::{BackendError, PluginLabel};
use wasmount_core::status::RefusalKind;
use wasmount_engine::{CONTRACT_LINE, EngineError};

/// A plugin that was not admitted. The version that served before continues.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The file is missing or not readable.
    #[error(
        "the plugin {path} cannot be read: {source}; build it, let this user read it, or correct the path: `plugin.path` of a document, or what a command names"
    )]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The error of the system.
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
    /// Its digest is not the document's.
    #[error(
        "the plugin has the digest {found}, the document wants {expected}; fetch the right file, or correct plugin.digest"
    )]
    OtherDigest {
        /// The document's digest.
        expected: String,
        /// The file's digest.
        found: String,
    },
    /// A WebAssembly module, not yet a component.
    #[error(
        "the plugin is a core module, not a component; build it for the target wasm32-wasip2, or wrap it with `wasm-tools component new`"
    )]
    CoreModule,
    /// Machine code or something else.
    #[error(
        "the plugin is not WebAssembly; compiled code (.cwasm) is not accepted, give the .wasm file"
    )]
    NotWasm,
    /// No bytes.
    #[error("the plugin is an empty file; build it or copy it again: a disk may have been full")]
    Empty,
    /// The engine rejected it.
    #[error("{0}{hint}", hint = to_do(.0))]
    Engine(#[from] EngineError),
    /// Built for another line of the contract.
    #[error(
        "the plugin is built for version {version} of the contract ({name}), this host for version {CONTRACT_LINE}: build the plugin with the SDK of {CONTRACT_LINE}, or use a host for version {version}"
    )]
    OtherLine {
        /// The first name of another line.
        name: String,
        /// Its version.
        version: String,
    },
    /// It imports what no plugin may have.
    #[error("the plugin imports what this host does not offer: {imports}; {hint}")]
    UnknownImports {
        /// The first of them, and how many more.
        imports: String,
        /// What to do.
        hint: &'static str,
    },
    /// It trapped or failed while its identity was queried.
    #[error("the plugin does not report its identity: {0}; this is a fault of the plugin")]
    Identity(#[source] BackendError),
    /// A feature that this host does not know, or without the service that it belongs to.
    #[error("{0}")]
    Features(String),
    /// The plugin does not accept its settings.
    #[error(
        "the plugin does not accept its settings: {0}; correct `settings`, `secrets` or `grants` of the backend document"
    )]
    Settings(#[source] BackendError),
    /// The host, or storage that the check of the settings asks, failed: the mounter may start after the host.
    #[error("the plugin cannot check its settings at the moment: {0}")]
    SettingsUnchecked(#[source] BackendError),
    /// `probe` trapped or exceeded a limit.
    #[error("the plugin does not report whether it is ready: {0}; this is a fault of the plugin")]
    Probe(#[source] BackendError),
    /// It could not be fetched from where the document says.
    #[error("the plugin cannot be fetched from {place}: {reason}")]
    Source {
        /// The source.
        place: String,
        /// Why, and what to do.
        reason: String,
        /// Whether trying again may succeed.
        passes: bool,
    },
    /// Not signed as the document requires.
    #[error("the signatures of the plugin are not sufficient: {0}")]
    Signature(String),
    /// A secret of the document could not be read: which, why, and what to do; never a value.
    #[error("{0}")]
    Secret(String),
    /// Capabilities that sidecars know of would be removed: sidecars ask once, when they start.
    #[error(
        "{plugin} does not offer what the running version does: {}; build it with them, or swap with --allow-service-change and restart the sidecars",
        removed.join(", ")
    )]
    ServicesRemoved {
        /// Which plugin.
        plugin: PluginLabel,
        /// What would be removed, by CSI's names and the contract's.
        removed: Vec<String>,
    },
    /// Volumes and records of the driver belong to another plugin.
    #[error(
        "{plugin} is another plugin than {running}, whose volumes and records the driver has: correct what `plugin` of the document names, or, if the plugin was renamed, swap with --allow-service-change"
    )]
    OtherPlugin {
        /// Which plugin.
        plugin: PluginLabel,
        /// The name that the running plugin reports.
        running: String,
    },
    /// The records of the version before cannot be migrated to this one.
    #[error("the records of the earlier version cannot be migrated: {0}")]
    Migration(String),
    /// Several hosts share the records, and another one is elected.
    #[error(
        "the records must be migrated for this version by the elected controller: after that this version serves here too"
    )]
    NotElected,
    /// The mounter does not accept the grants.
    #[error("the grants of the document cannot be applied: {0}")]
    Grants(String),
    /// The host cannot write to disk which version serves, so it activates none that a restart would not find.
    #[error("could not {operation} {path}: {source}; repair the disk of the data directory")]
    Disk {
        /// The operation.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// No such version is on disk.
    #[error(
        "version {number} is not kept; versions that are kept: {}",
        if kept.is_empty() { "none".to_owned() } else { list(kept) }
    )]
    NotKept {
        /// The number that was requested.
        number: u64,
        /// The versions on disk.
        kept: Vec<u64>,
    },
    /// There is no version before.
    #[error("no earlier version is kept for a rollback; swap to another version")]
    NothingToGoBackTo,
    /// The requested version already serves.
    #[error("version {number} serves already")]
    Serves {
        /// Its number.
        number: u64,
    },
    /// An administrator or the host changed the version first.
    #[error(
        "{}, not version {expected}: it was changed meanwhile; check `wasmount history` and repeat the command",
        serves.map_or_else(|| "no version serves".to_owned(), |number| format!("version {number} serves"))
    )]
    OtherServes {
        /// The version that was expected to serve.
        expected: u64,
        /// The one that serves.
        serves: Option<u64>,
    },
    /// Records were changed since they were migrated.
    #[error(
        "version {number} cannot read what was written since version {since} took its records over; swap to a corrected version instead"
    )]
    Written {
        /// The version to roll back to.
        number: u64,
        /// The version that replaced it.
        since: u64,
    },
    /// A version cannot have a share of the volumes, or not this one.
    #[error("no share of the volumes: {0}")]
    Share(String),
    /// A rollback, or a newer desired revision, ended it.
    #[error(
        "another request for this backend came meanwhile: check its status and repeat the command"
    )]
    Overtaken,
    /// The host stops, or the backend is deleted.
    #[error("the backend is being deleted: no version is swapped any more")]
    Stopped,
}

/// Whether trying again may succeed with nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Yes: what is missing may appear.
    Unlimited,
    /// A few times: it may have been an accident.
    FewTimes,
    /// No: it would be rejected again.
    Never,
}

impl Refusal {
    /// What kind it is.
    pub fn kind(&self) -> RefusalKind {
        self.class().0
    }

    /// Whether trying again may succeed.
    pub fn retry_policy(&self) -> RetryPolicy {
        self.class().1
    }

    /// A file that is being written looks like one that is not a component, so a rejection of the bytes is never final; the same bytes are not tried
    /// twice.
    fn class(&self) -> (RefusalKind, RetryPolicy) {
        use RefusalKind as Kind;
        use RetryPolicy::{FewTimes, Never, Unlimited};
        match self {
            Refusal::Source { passes: false, .. } => (Kind::Source, Never),
            Refusal::Unreadable { .. } | Refusal::NotAFile { .. } | Refusal::Source { .. } => {
                (Kind::Source, Unlimited)
            }
            Refusal::Secret(_) => (Kind::Secret, Unlimited),
            Refusal::TooLarge { .. } => (Kind::Size, Never),
            Refusal::OtherDigest { .. } => (Kind::Digest, Unlimited),
            Refusal::Signature(_) => (Kind::Signature, Unlimited),
            Refusal::CoreModule | Refusal::NotWasm | Refusal::Empty => {
                (Kind::NotAComponent, Unlimited)
            }
            Refusal::Engine(error) => match error {
                EngineError::Compile(_) => (Kind::Compile, Never),
                EngineError::Lost => (Kind::Compile, FewTimes),
                // All compile slots of the engine, or the memory of the machine, may have been in use.
                EngineError::NotCompiled(_) => (Kind::Compile, Unlimited),
                EngineError::Instantiate(_) => (Kind::TrialLoad, Unlimited),
                EngineError::LimitTooHigh { .. } => (Kind::Limits, Never),
                _ => (Kind::TrialLoad, Never),
            },
            Refusal::OtherLine { .. } => (Kind::ApiLine, Never),
            Refusal::UnknownImports { .. } => (Kind::Imports, Never),
            Refusal::Identity(_) => (Kind::TrialLoad, Never),
            Refusal::Features(_) => (Kind::Features, Never),
            Refusal::OtherPlugin { .. } | Refusal::ServicesRemoved { .. } => {
                (Kind::Services, Never)
            }
            Refusal::Settings(_) => (Kind::Settings, Never),
            Refusal::SettingsUnchecked(_) => (Kind::Settings, Unlimited),
            Refusal::Probe(_) => (Kind::Probe, Unlimited),
            Refusal::Migration(_) => (Kind::Migration, FewTimes),
            Refusal::NotElected => (Kind::Migration, Unlimited),
            Refusal::Grants(_) => (Kind::Grants, Unlimited),
            Refusal::Disk { .. } => (Kind::Disk, Unlimited),
            Refusal::NotKept { .. }
            | Refusal::NothingToGoBackTo
            | Refusal::Serves { .. }
            | Refusal::Written { .. } => (Kind::History, Never),
            Refusal::Share(_) => (Kind::Share, Never),
            Refusal::OtherServes { .. } | Refusal::Stopped => (Kind::Overtaken, Never),
            Refusal::Overtaken => (Kind::Overtaken, Unlimited),
        }
    }

    pub(crate) fn rewriting_without_transaction() -> Self {
        let reason = "this version rewrites them, which takes a transaction, and the records of this host are objects of Kubernetes; use a version that \
                      only adds to them, or keep the records on one host";
        Self::Migration(reason.to_owned())
    }
}

/// What to do, where the engine cannot know it.
fn to_do(error: &EngineError) -> &'static str {
    match error {
        // An error about the cost of compilation says itself what to do.
        EngineError::Compile(reason) if !reason.contains(';') => {
            "; fetch the file again, or build it again: it is damaged, or newer than this host's engine"
        }
        EngineError::Link(_) => "; build it with the SDK of this host",
        EngineError::Instantiate(_) => {
            "; this is a fault of the plugin, unless the host is short of memory"
        }
        _ => "",
    }
}

fn list(numbers: &[u64]) -> String {
    let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_kind_has_its_own_name() {
        let names: BTreeSet<_> = RefusalKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), RefusalKind::ALL.len());
    }

    #[test]
    fn what_may_come_is_waited_for_and_what_was_judged_is_not() {
        for (refusal, kind, retry_policy) in [
            (Refusal::NotWasm, "not_a_component", RetryPolicy::Unlimited),
            (Refusal::Empty, "not_a_component", RetryPolicy::Unlimited),
            (Refusal::TooLarge { limit: 1 }, "size", RetryPolicy::Never),
            (
                Refusal::Engine(EngineError::Compile("x".to_owned())),
                "compile",
                RetryPolicy::Never,
            ),
            (
                Refusal::Engine(EngineError::NotCompiled("x".to_owned())),
                "compile",
                RetryPolicy::Unlimited,
            ),
            (
                Refusal::Engine(EngineError::Lost),
                "compile",
                RetryPolicy::FewTimes,
            ),
            (
                Refusal::Engine(EngineError::NoIdentity),
                "trial_load",
                RetryPolicy::Never,
            ),
            (
                Refusal::Settings(BackendError::Cancelled),
                "settings",
                RetryPolicy::Never,
            ),
            (
                Refusal::SettingsUnchecked(BackendError::Cancelled),
                "settings",
                RetryPolicy::Unlimited,
            ),
            (Refusal::NothingToGoBackTo, "history", RetryPolicy::Never),
        ] {
            assert_eq!(
                (refusal.kind().as_str(), refusal.retry_policy()),
                (kind, retry_policy)
            );
        }
    }
}
