//! The steps of a volume's life, of whatever kind it is, and what must hold on the node and in the driver when some of them were answered and one was
//! cut off.

use std::io;
use std::path::{Path, PathBuf};
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::ListVolumesRequest;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::kinds::Kind;
use wasmount_tests::namespace;
use wasmount_tests::orchestrator::{Orchestrator, Volume, code};
use wasmount_tests::root::needs_root;
use xtask::workspace::Workspace;

/// What the volume holds.
pub(crate) const CONTENT: &[u8] = b"kept";

/// A volume, as far as its client knows it.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// Its id is empty until the driver has said it.
    pub(crate) volume: Volume,
    pool: PathBuf,
    /// [`CONTENT`] was.
    is_written: bool,
}

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

    /// Makes the call, and writes as soon as one can: a directory is there once it is created, an image has a file system once a pod has it.
    pub(crate) async fn call(
        self,
        orchestrator: &Orchestrator,
        life: &mut Life,
    ) -> Result<(), Status> {
        let (kind, volume) = (life.kind, &mut life.volume);
        match self {
            Step::Create => {
                let request = kind.create(&life.name);
                volume.id = orchestrator.create(request).await?.0;
                if kind == Kind::Directory {
                    let tree = life.pool.join(&life.volume.id);
                    life.write(&tree);
                }
                Ok(())
            }
            Step::Stage => orchestrator.stage_as(kind.stage(volume)).await,
            Step::Publish => {
                let request = kind.publish(volume, &volume.target);
                orchestrator.publish_as(request).await?;
                if kind != Kind::Directory {
                    life.write(&life.volume.target.clone());
                }
                Ok(())
            }
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

impl Life {
    /// Before its first step.
    pub(crate) fn new(
        kind: Kind,
        name: String,
        pool: PathBuf,
        orchestrator: &Orchestrator,
    ) -> Self {
        Self {
            kind,
            volume: orchestrator.place(&name, String::new()).unwrap(),
            name,
            pool,
            is_written: false,
        }
    }

    /// Checks that the volume shows here what was written.
    pub(crate) fn assert_content(&self, at: &Path) {
        self.assert_read(self.read(at), at);
    }

    fn read(&self, at: &Path) -> io::Result<Vec<u8>> {
        self.kind.read(at, CONTENT.len())
    }

    fn assert_read(&self, content: io::Result<Vec<u8>>, at: &Path) {
        if self.is_written {
            assert_eq!(content.unwrap(), CONTENT, "at {}", at.display());
        }
    }

    fn write(&mut self, at: &Path) {
        self.kind.write(at, CONTENT).unwrap();
        self.is_written = true;
    }
}

/// Every test's first line.
pub(crate) fn begin() {
    needs_root();
    namespace::enter();
}

/// Hosts with plugins/hostpath, which makes all kinds.
pub(crate) fn options() -> HostOptions {
    let document = Workspace::locate().unwrap().backend_document("hostpath");
    HostOptions {
        backends: vec![document],
        ..HostOptions::default()
    }
}

/// Checks the node and the driver when `step` was cut off.
pub(crate) async fn assert_all_or_nothing(
    host: &Host,
    orchestrator: &Orchestrator,
    life: &Life,
    step: Step,
) {
    let volume = &life.volume;
    // A raw block volume is staged without a mount on the staging directory.
    if life.kind != Kind::Block {
        let staged = step.between(Step::Stage, Step::Unstage);
        assert_mount(host, life, &volume.staging, staged);
    }
    let published = step.between(Step::Publish, Step::Unpublish);
    assert_mount(host, life, &volume.target, published);
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

/// Checks that the driver knows none of the volumes whose deletion it has answered.
pub(crate) async fn assert_deleted(orchestrator: &Orchestrator, ids: &[String]) {
    for id in ids {
        let known = code(&orchestrator.is_known(id).await);
        assert_eq!(known, Code::NotFound, "{id} was deleted");
    }
}

/// Checks that the driver has no volume at all, not even a record of one whose files are gone.
pub(crate) async fn assert_no_volumes(orchestrator: &Orchestrator) {
    let mut controller = orchestrator.clients().controller;
    let listed = controller.list_volumes(ListVolumesRequest::default()).await;
    let entries = listed.unwrap().into_inner().entries;
    assert!(entries.is_empty(), "still listed: {entries:#?}");
}

/// Checks that a path has one whole mount or none. `expected`: none if either is right.
fn assert_mount(host: &Host, life: &Life, path: &Path, expected: Option<bool>) {
    let mounts = mounts_at(host, path);
    let there = mounts.len() == 1;
    assert!(mounts.len() <= 1, "stacked: {mounts:?}");
    assert_eq!(
        there,
        expected.unwrap_or(there),
        "mount of {:?} at {}",
        life.kind,
        path.display()
    );
    if there {
        let content = life.read(path);
        // Where either is right, recovery may be taking it off at this moment.
        if expected.is_some() || !mounts_at(host, path).is_empty() {
            life.assert_read(content, path);
        }
    }
}

fn mounts_at(host: &Host, path: &Path) -> Vec<PathBuf> {
    let mounts = host.mounts().unwrap();
    mounts.into_iter().filter(|mount| mount == path).collect()
}
