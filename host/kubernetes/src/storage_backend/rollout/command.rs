//! What an administrator may ask of a rollout. The request is an annotation of the object, which the elected host carries out: a controller that
//! applies the object from a repository leaves annotations alone that it did not write.

use super::state::{RolloutPhase, RolloutStatus};
use jiff::Timestamp;
use wasmount_core::named;

/// The annotation with the last request: a command, and after `@` what makes it another one than the last.
pub const ROLLOUT: &str = "wasmount.io/rollout";

named! {
    /// A command.
    pub enum RolloutCommand, name {
        /// Stay at this step.
        Pause = "pause",
        /// Go on, or begin again after a failure or an undo.
        Resume = "resume",
        /// All hosts return to what was promoted before.
        Undo = "undo",
    }
}

/// Why a command cannot be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RolloutRefused {
    /// There is nothing to pause.
    #[error("no rollout is under way: it is {}", .0.name())]
    NotUnderWay(RolloutPhase),
    /// It goes on already.
    #[error("the rollout is {} and needs no `resume`", .0.name())]
    NotStopped(RolloutPhase),
    /// The hosts serve it already.
    #[error(
        "the hosts already serve what was promoted before; `resume` begins again, or change the spec"
    )]
    AlreadyBack,
    /// Nothing was promoted before.
    #[error("there is no earlier spec to return to: it is the first one that was promoted")]
    NothingBefore,
}

impl RolloutCommand {
    /// The command of an annotation.
    pub(in crate::storage_backend) fn of_annotation(annotation: &str) -> Option<Self> {
        let (name, _) = annotation.split_once('@').unwrap_or((annotation, ""));
        Self::parse(name)
    }

    /// The value of the annotation, which differs from each earlier one.
    pub(in crate::storage_backend) fn annotation(self, now: Timestamp) -> String {
        format!("{}@{now}", self.name())
    }

    /// The state afterwards.
    pub fn applied(
        self,
        rollout: &RolloutStatus,
        now: Timestamp,
    ) -> Result<RolloutStatus, RolloutRefused> {
        let phase = rollout.phase;
        let mut next = RolloutStatus {
            since: now,
            ..rollout.clone()
        };
        match (self, phase) {
            (Self::Pause, RolloutPhase::Progressing) => {
                next.phase = RolloutPhase::Paused;
                next.message = "paused by an administrator".to_owned();
            }
            (Self::Pause, _) => return Err(RolloutRefused::NotUnderWay(phase)),
            (Self::Resume, RolloutPhase::Paused) => next.phase = RolloutPhase::Progressing,
            (Self::Resume, RolloutPhase::Failed | RolloutPhase::RolledBack) => {
                next.phase = RolloutPhase::Progressing;
                next.attempt += 1;
                next.step = 0;
                (next.bound, next.served_since) = (None, None);
                next.message = "begins again".to_owned();
            }
            (Self::Resume, _) => return Err(RolloutRefused::NotStopped(phase)),
            (Self::Undo, RolloutPhase::Progressing | RolloutPhase::Paused) => {
                next.phase = RolloutPhase::RolledBack;
                next.message = "undone by an administrator".to_owned();
            }
            (Self::Undo, RolloutPhase::Promoted) => {
                let previous = next.previous.take();
                next.stable = previous.ok_or(RolloutRefused::NothingBefore)?;
                next.phase = RolloutPhase::RolledBack;
                next.message = "undone by an administrator after its promotion".to_owned();
            }
            (Self::Undo, _) => return Err(RolloutRefused::AlreadyBack),
        }
        next.progress = next.shown();
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::rollout;
    use super::*;
    use serde_json::json;

    fn in_phase(phase: RolloutPhase) -> RolloutStatus {
        RolloutStatus {
            phase,
            bound: Some(7),
            ..rollout(&json!({ "a": 2 }), &json!({ "a": 1 }))
        }
    }

    #[test]
    fn each_command_is_applied_where_it_means_something() {
        use RolloutCommand::{Pause, Resume, Undo};
        use RolloutPhase::{Failed, Paused, Progressing, Promoted, RolledBack};
        let now = Timestamp::from_second(60).unwrap();
        for (command, phase, after) in [
            (Pause, Progressing, Ok(Paused)),
            (Pause, Paused, Err(RolloutRefused::NotUnderWay(Paused))),
            (Pause, Promoted, Err(RolloutRefused::NotUnderWay(Promoted))),
            (Resume, Paused, Ok(Progressing)),
            (Resume, Failed, Ok(Progressing)),
            (Resume, RolledBack, Ok(Progressing)),
            (Resume, Promoted, Err(RolloutRefused::NotStopped(Promoted))),
            (
                Resume,
                Progressing,
                Err(RolloutRefused::NotStopped(Progressing)),
            ),
            (Undo, Progressing, Ok(RolledBack)),
            (Undo, Paused, Ok(RolledBack)),
            (Undo, Failed, Err(RolloutRefused::AlreadyBack)),
            (Undo, RolledBack, Err(RolloutRefused::AlreadyBack)),
            (Undo, Promoted, Err(RolloutRefused::NothingBefore)),
        ] {
            let next = command.applied(&in_phase(phase), now);
            assert_eq!(next.map(|it| it.phase), after, "{command:?} {phase:?}");
        }
    }

    #[test]
    fn an_attempt_after_a_failure_begins_before_the_first_step() {
        let failed = in_phase(RolloutPhase::Failed);
        let again = RolloutCommand::Resume.applied(&failed, Timestamp::UNIX_EPOCH);
        let again = again.unwrap();
        assert_eq!((again.attempt, again.step, again.bound), (2, 0, None));
        // After a pause it goes on where it was.
        let paused = in_phase(RolloutPhase::Paused);
        let on = RolloutCommand::Resume.applied(&paused, Timestamp::UNIX_EPOCH);
        let on = on.unwrap();
        assert_eq!((on.attempt, on.step, on.bound), (1, 1, Some(7)));
    }

    #[test]
    fn an_undo_after_promotion_returns_to_the_spec_before() {
        let mut promoted = in_phase(RolloutPhase::Promoted);
        promoted.stable = json!({ "a": 2 });
        promoted.previous = Some(json!({ "a": 1 }));
        let back = RolloutCommand::Undo.applied(&promoted, Timestamp::UNIX_EPOCH);
        let back = back.unwrap();
        assert_eq!(back.phase, RolloutPhase::RolledBack);
        assert_eq!((back.stable, back.previous), (json!({ "a": 1 }), None));
    }

    #[test]
    fn an_annotation_names_a_command_with_or_without_a_time() {
        let now = Timestamp::UNIX_EPOCH;
        let text = RolloutCommand::Undo.annotation(now);
        assert_eq!(text, "undo@1970-01-01T00:00:00Z");
        assert_eq!(
            RolloutCommand::of_annotation(&text),
            Some(RolloutCommand::Undo)
        );
        assert_eq!(
            RolloutCommand::of_annotation("pause"),
            Some(RolloutCommand::Pause)
        );
        assert_eq!(RolloutCommand::of_annotation("stop@1"), None);
    }
}
