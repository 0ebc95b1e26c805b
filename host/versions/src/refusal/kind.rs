//! Refusals as machines tell them apart, and whether one may pass by itself.

use super::Refusal;
use wasmount_engine::EngineError;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal),+ $(,)?) => {
        /// What kind of refusal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum RefusalKind { $($(#[$doc])* $name),+ }

        impl RefusalKind {
            /// All of them, in the order of admission.
            pub const ALL: &[RefusalKind] = &[$(RefusalKind::$name),+];

            /// For machines, such as the label of a metric.
            pub fn as_str(self) -> &'static str {
                match self { $(RefusalKind::$name => $word),+ }
            }
        }
    };
}

kinds! {
    /// The component could not be had.
    Source = "source",
    /// A secret could not be had.
    Secret = "secret",
    /// Too large.
    Size = "size",
    /// Other bytes than the document means.
    Digest = "digest",
    /// Not signed by who must have.
    Signature = "signature",
    /// Not a component.
    NotAComponent = "not_a_component",
    /// It does not compile.
    Compile = "compile",
    /// Another line of the contract.
    ApiLine = "api_line",
    /// It imports what there is not.
    Imports = "imports",
    /// It does not link, start, or say who it is.
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
    /// Records of the version before cannot be taken over.
    Migration = "migration",
    /// What it was granted cannot be put to use.
    Grants = "grants",
    /// The host's own files.
    Disk = "disk",
    /// There is no such version to go back to.
    History = "history",
    /// Something else came first.
    Overtaken = "overtaken",
}

/// Whether it is of use to try again what was refused, with nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Yes: what is missing may come.
    AsLongAsItTakes,
    /// A few times: it may have been an accident.
    AFewTimes,
    /// No: the same would be refused again.
    None,
}

impl Refusal {
    /// What kind it is.
    pub fn kind(&self) -> RefusalKind {
        self.class().0
    }

    /// Whether it may pass by itself.
    pub fn patience(&self) -> Patience {
        self.class().1
    }

    /// A file that is being written looks like one that is no component, so what the bytes are is never final; the same bytes are not tried twice
    /// for it.
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
                // All places of the engine, or the memory of the machine, may have been taken.
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
