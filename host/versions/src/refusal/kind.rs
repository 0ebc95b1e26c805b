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
        match self {
            Refusal::Unreadable { .. } | Refusal::NotAFile { .. } | Refusal::Source { .. } => {
                RefusalKind::Source
            }
            Refusal::TooLarge { .. } => RefusalKind::Size,
            Refusal::BadDigest | Refusal::OtherDigest { .. } => RefusalKind::Digest,
            Refusal::Signature { .. } => RefusalKind::Signature,
            Refusal::CoreModule | Refusal::NotWasm => RefusalKind::NotAComponent,
            Refusal::Engine(error) => of_engine(error),
            Refusal::OtherLine { .. } => RefusalKind::ApiLine,
            Refusal::UnknownImports { .. } => RefusalKind::Imports,
            Refusal::Identity(_) => RefusalKind::TrialLoad,
            Refusal::UnknownFeature { .. } | Refusal::Features { .. } => RefusalKind::Features,
            Refusal::OtherPlugin { .. } | Refusal::ServicesRemoved { .. } => RefusalKind::Services,
            Refusal::Settings(_) => RefusalKind::Settings,
            Refusal::Probe(_) => RefusalKind::Probe,
            Refusal::Secret { .. } => RefusalKind::Secret,
            Refusal::Migration { .. } | Refusal::NotElected => RefusalKind::Migration,
            Refusal::Grants { .. } => RefusalKind::Grants,
            Refusal::Disk { .. } => RefusalKind::Disk,
            Refusal::NotKept { .. }
            | Refusal::NothingToGoBackTo
            | Refusal::Serves { .. }
            | Refusal::Written { .. } => RefusalKind::History,
            Refusal::OtherServes { .. } | Refusal::Overtaken | Refusal::Stopped => {
                RefusalKind::Overtaken
            }
        }
    }

    /// Whether it may pass by itself. A file that is being written looks like one that is no component, so what the bytes are is never final;
    /// the same bytes are not tried twice for it.
    pub fn patience(&self) -> Patience {
        match self {
            Refusal::Source { passes: false, .. }
            | Refusal::TooLarge { .. }
            | Refusal::BadDigest
            | Refusal::OtherLine { .. }
            | Refusal::UnknownImports { .. }
            | Refusal::Identity(_)
            | Refusal::UnknownFeature { .. }
            | Refusal::Features { .. }
            | Refusal::OtherPlugin { .. }
            | Refusal::ServicesRemoved { .. }
            | Refusal::Settings(_)
            | Refusal::NotKept { .. }
            | Refusal::NothingToGoBackTo
            | Refusal::Serves { .. }
            | Refusal::OtherServes { .. }
            | Refusal::Written { .. }
            | Refusal::Stopped => Patience::None,
            Refusal::Engine(EngineError::Lost) | Refusal::Migration { .. } => Patience::AFewTimes,
            // All places of the engine, or the memory of the machine, may have been taken.
            Refusal::Engine(EngineError::Instantiate(_) | EngineError::NotCompiled(_)) => {
                Patience::AsLongAsItTakes
            }
            Refusal::Engine(_) => Patience::None,
            Refusal::Unreadable { .. }
            | Refusal::NotAFile { .. }
            | Refusal::Source { passes: true, .. }
            | Refusal::OtherDigest { .. }
            | Refusal::Signature { .. }
            | Refusal::CoreModule
            | Refusal::NotWasm
            | Refusal::Secret { .. }
            | Refusal::Probe(_)
            | Refusal::NotElected
            | Refusal::Grants { .. }
            | Refusal::Disk { .. }
            | Refusal::Overtaken => Patience::AsLongAsItTakes,
        }
    }
}

fn of_engine(error: &EngineError) -> RefusalKind {
    match error {
        EngineError::Compile(_) | EngineError::NotCompiled(_) | EngineError::Lost => {
            RefusalKind::Compile
        }
        EngineError::LimitTooHigh { .. } => RefusalKind::Limits,
        _ => RefusalKind::TrialLoad,
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
