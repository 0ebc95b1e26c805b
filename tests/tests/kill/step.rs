//! The steps of a volume's life, and what must hold on the node and in the driver when some of them were answered and one was cut off. Apart
//! because both ways to kill ask the same.

use std::path::{Path, PathBuf};
use tonic::{Code, Status};
use wasmount_tests::host::Host;
use wasmount_tests::orchestrator::{Orchestrator, Volume, code};

/// What the volume holds.
pub(crate) const CONTENT: &str = "kept";

/// A call of the life, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Create,
    Stage,
    Publish,
    Unpublish,
    Unstage,
    Delete,
}

impl Step {
    pub(crate) const ALL: [Step; 6] = [
        Step::Create,
        Step::Stage,
        Step::Publish,
        Step::Unpublish,
        Step::Unstage,
        Step::Delete,
    ];

    /// Makes the call.
    pub(crate) async fn call(
        self,
        orchestrator: &Orchestrator,
        name: &str,
        volume: &mut Volume,
    ) -> Result<(), Status> {
        match self {
            Step::Create => {
                let bytes = wasmount_tests::orchestrator::VOLUME_BYTES;
                let request = wasmount_tests::requests::create(name, bytes);
                volume.id = orchestrator.create(request).await?.0;
                Ok(())
            }
            Step::Stage => orchestrator.stage(volume).await,
            Step::Publish => orchestrator.publish(volume).await,
            Step::Unpublish => orchestrator.unpublish(volume).await,
            Step::Unstage => orchestrator.unstage(volume).await,
            Step::Delete => orchestrator.delete(&volume.id).await,
        }
    }

    /// Whether what `begin` makes and `end` takes away must be there (true), must not (false), or may be either, when this step was cut off
    /// and all before it were answered.
    fn between(self, begin: Step, end: Step) -> Option<bool> {
        if self == begin || self == end {
            None
        } else {
            Some(begin < self && self < end)
        }
    }
}

/// Checks the node and the driver when `step` was cut off.
pub(crate) async fn assert_all_or_nothing(
    host: &Host,
    orchestrator: &Orchestrator,
    volume: &Volume,
    step: Step,
) {
    assert_mount(
        host,
        &volume.staging,
        step.between(Step::Stage, Step::Unstage),
    );
    let published = step.between(Step::Publish, Step::Unpublish);
    assert_mount(host, &volume.target, published);
    if published == Some(false) {
        assert!(
            !volume.target.exists(),
            "{} is left",
            volume.target.display()
        );
    }
    if !volume.id.is_empty() {
        let known = code(&orchestrator.is_known(&volume.id).await);
        let allowed: &[Code] = match step.between(Step::Create, Step::Delete) {
            Some(true) => &[Code::Ok],
            Some(false) => &[Code::NotFound],
            None => &[Code::Ok, Code::NotFound],
        };
        assert!(allowed.contains(&known), "{}: {known:?}", volume.id);
    }
}

/// Checks that a path has one whole mount or none. `expected`: none if either is right.
fn assert_mount(host: &Host, path: &Path, expected: Option<bool>) {
    let mounts = mounts_at(host, path);
    let there = mounts.len() == 1;
    assert!(mounts.len() <= 1, "stacked: {mounts:?}");
    assert_eq!(
        there,
        expected.unwrap_or(there),
        "mount at {}",
        path.display()
    );
    if there {
        let content = std::fs::read_to_string(path.join("data")).unwrap_or_default();
        assert_eq!(content, CONTENT, "at {}", path.display());
    }
}

fn mounts_at(host: &Host, path: &Path) -> Vec<PathBuf> {
    let mounts = host.mounts().unwrap();
    mounts.into_iter().filter(|mount| mount == path).collect()
}
