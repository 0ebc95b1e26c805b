//! Kinds of rejections for machines, and whether trying again may succeed.

use super::Refusal;
use wasmount_engine::EngineError;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal),+ $(,)?) => {
        /// The kind of a rejection.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum RefusalKind { $($(#[$doc])* $name),+ }

        impl RefusalKind {
            /// All kinds, in the order of admission.
            pub const ALL: &[RefusalKind] = &[$(RefusalKind::$name),+];

            /// The name for machines, such as the label of a metric.
            pub fn as_str(self) -> &'static str {
                match self { $(RefusalKind::$name => $word),+ }
            }
        }
    };
}

kinds! {
    /// The component could not be fetched.
    Source = "source",
    /// A secret could not be read.
    Secret = "secret",
    /// Too large.
    Size = "size",
    /// The digest is not the document's.
    Digest = "digest",
    /// A required signature is missing.
    Signature = "signature",
    /// Not a component.
    NotAComponent = "not_a_component",
    /// It does not compile.
    Compile = "compile",
    /// Another line of the contract.
    ApiLine = "api_line",
    /// It imports what the host lacks.
    Imports = "imports",
    /// It does not link, start, or report its identity.
    TrialLoad = "trial_load",
    /// Its features contradict its services.
    Features = "features",
    /// It lacks what the running version offers.
    Services = "services",
    /// Its limits are higher than this host's.
    Limits = "limits",
    /// It does not accept its settings.
    Settings = "settings",
    /// It cannot say whether it is ready.
    Probe = "probe",
    /// Records of the version before cannot be migrated.
    Migration = "migration",
    /// Its grants cannot be applied.
    Grants = "grants",
    /// The host's files cannot be written.
    Disk = "disk",
    /// There is no such version to roll back to.
    History = "history",
    /// Another request was done first.
    Overtaken = "overtaken",
}

/// Whether trying again may succeed with nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Yes: what is missing may appear.
    AsLongAsItTakes,
    /// A few times: it may have been an accident.
    AFewTimes,
    /// No: it would be rejected again.
    None,
}

impl Refusal {
    /// What kind it is.
    pub fn kind(&self) -> RefusalKind {
        self.class().0
    }

    /// Whether trying again may succeed.
    pub fn patience(&self) -> Patience {
        self.class().1
    }

    /// A file that is being written looks like one that is not a component, so a rejection of the bytes is never final; the same bytes are not tried
    /// twice.
    fn class(&self) -> (RefusalKind, Patience) {
        use Patience::{AFewTimes, AsLongAsItTakes};
        use RefusalKind as Kind;
        match self {
            Refusal::Source { passes: false, .. } => (Kind::Source, Patience::None),
            Refusal::Unreadable { .. } | Refusal::NotAFile { .. } | Refusal::Source { .. } => {
                (Kind::Source, AsLongAsItTakes)
            }
            Refusal::Secret { .. } => (Kind::Secret, AsLongAsItTakes),
            Refusal::TooLarge { .. } => (Kind::Size, Patience::None),
            Refusal::BadDigest => (Kind::Digest, Patience::None),
            Refusal::OtherDigest { .. } => (Kind::Digest, AsLongAsItTakes),
            Refusal::Signature { .. } => (Kind::Signature, AsLongAsItTakes),
            Refusal::CoreModule | Refusal::NotWasm => (Kind::NotAComponent, AsLongAsItTakes),
            Refusal::Engine(error) => match error {
                EngineError::Compile(_) => (Kind::Compile, Patience::None),
                EngineError::Lost => (Kind::Compile, AFewTimes),
                // All compile slots of the engine, or the memory of the machine, may have been in use.
                EngineError::NotCompiled(_) => (Kind::Compile, AsLongAsItTakes),
                EngineError::Instantiate(_) => (Kind::TrialLoad, AsLongAsItTakes),
                EngineError::LimitTooHigh { .. } => (Kind::Limits, Patience::None),
                _ => (Kind::TrialLoad, Patience::None),
            },
            Refusal::OtherLine { .. } => (Kind::ApiLine, Patience::None),
            Refusal::UnknownImports { .. } => (Kind::Imports, Patience::None),
            Refusal::Identity(_) => (Kind::TrialLoad, Patience::None),
            Refusal::UnknownFeature { .. } | Refusal::Features { .. } => {
                (Kind::Features, Patience::None)
            }
            Refusal::OtherPlugin { .. } | Refusal::ServicesRemoved { .. } => {
                (Kind::Services, Patience::None)
            }
            Refusal::Settings(_) => (Kind::Settings, Patience::None),
            Refusal::Probe(_) => (Kind::Probe, AsLongAsItTakes),
            Refusal::Migration { .. } => (Kind::Migration, AFewTimes),
            Refusal::NotElected => (Kind::Migration, AsLongAsItTakes),
            Refusal::Grants { .. } => (Kind::Grants, AsLongAsItTakes),
            Refusal::Disk { .. } => (Kind::Disk, AsLongAsItTakes),
            Refusal::NotKept { .. }
            | Refusal::NothingToGoBackTo
            | Refusal::Serves { .. }
            | Refusal::Written { .. } => (Kind::History, Patience::None),
            Refusal::OtherServes { .. } | Refusal::Stopped => (Kind::Overtaken, Patience::None),
            Refusal::Overtaken => (Kind::Overtaken, AsLongAsItTakes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_kind_has_a_word_of_its_own() {
        let words: BTreeSet<_> = RefusalKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(words.len(), RefusalKind::ALL.len());
    }

    #[test]
    fn what_may_come_is_waited_for_and_what_was_judged_is_not() {
        for (refusal, kind, patience) in [
            (
                Refusal::NotWasm,
                "not_a_component",
                Patience::AsLongAsItTakes,
            ),
            (Refusal::BadDigest, "digest", Patience::None),
            (
                Refusal::Engine(EngineError::Compile("x".to_owned())),
                "compile",
                Patience::None,
            ),
            (
                Refusal::Engine(EngineError::NotCompiled("x".to_owned())),
                "compile",
                Patience::AsLongAsItTakes,
            ),
            (
                Refusal::Engine(EngineError::Lost),
                "compile",
                Patience::AFewTimes,
            ),
            (
                Refusal::Engine(EngineError::NoIdentity),
                "trial_load",
                Patience::None,
            ),
            (Refusal::NothingToGoBackTo, "history", Patience::None),
        ] {
            assert_eq!(
                (refusal.kind().as_str(), refusal.patience()),
                (kind, patience)
            );
        }
    }
}
