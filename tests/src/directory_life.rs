//! A full volume lifecycle of the directory plugin, with the exact answers of the plugin in Rust: the same plugin in another language, and a
//! component of an old build, must give the same answers.

use crate::host::Host;
use crate::orchestrator::{Orchestrator, VOLUME_BYTES, code};
use crate::requests;
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_csi::wire::csi::v1::{CapacityRange, CreateVolumeRequest};
use xtask::failure::Failure;

/// The volume's name, and the id that is derived from it: `directory-` and its SHA-256.
const NAME: &str = "pvc-1";
const ID: &str = "directory-f2868e1aa7cab669517cd9f5ab1b7957c0b92df38fef583267e34e1acc8253fe";

/// A quota that is visible in the capacity of a disk while other tests use and free some of it, in bytes.
const LARGE_BYTES: i64 = 1 << 30;

/// The keys that external-provisioner adds with `--extra-create-metadata`, and of a provisioner's identity.
const ADDED: [&str; 2] = [
    "csi.storage.k8s.io/pvc/name",
    "storage.kubernetes.io/csiProvisionerIdentity",
];

/// Which build of the plugin lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Of the sources as they are.
    Now,
    /// A golden guest: those in other languages than Rust refused what Kubernetes adds to parameters.
    Golden,
}

/// Runs the lifecycle.
///
/// # Panics
/// If an answer differs, or something is left.
pub async fn live(host: &Host, orchestrator: &Orchestrator, build: Build) -> Result<(), Failure> {
    refuse_what_it_cannot_be(orchestrator).await;
    if build == Build::Now {
        accept_what_kubernetes_adds(orchestrator).await?;
    }

    for _ in 0..2 {
        let created = orchestrator
            .create(requests::create(NAME, VOLUME_BYTES))
            .await;
        assert_eq!(status(created)?, (ID.to_owned(), VOLUME_BYTES));
        status(orchestrator.is_known(ID).await)?;
    }
    assert_eq!(
        said(
            &orchestrator
                .create(requests::create(NAME, 2 * VOLUME_BYTES))
                .await
        ),
        (
            Code::AlreadyExists,
            "a volume of this name is there with 1048576 bytes: use another name"
        )
    );
    let before = status(orchestrator.capacity().await)?;
    let large = requests::create("large", LARGE_BYTES);
    let (large, _) = status(orchestrator.create(large).await)?;
    assert!(status(orchestrator.capacity().await)? < before);
    status(orchestrator.delete(&large).await)?;
    let grown = orchestrator
        .expand(requests::expand(ID, 2 * VOLUME_BYTES))
        .await;
    assert_eq!(status(grown)?, (2 * VOLUME_BYTES, false));

    let volume = orchestrator.place(NAME, ID.to_owned())?;
    for _ in 0..2 {
        status(orchestrator.set_up(&volume).await)?;
    }
    volume.write("kept")?;
    assert_eq!(volume.read_at(&volume.staging)?, "kept");
    let mounts = [volume.staging.as_path(), volume.target.as_path()];
    assert_eq!(host.mounts()?, mounts);
    assert_eq!(
        code(&orchestrator.delete(ID).await),
        Code::FailedPrecondition
    );

    status(orchestrator.unpublish(&volume).await)?;
    status(orchestrator.unstage(&volume).await)?;
    assert!(host.mounts()?.is_empty());
    for _ in 0..2 {
        status(orchestrator.delete(ID).await)?;
    }
    let gone = orchestrator.is_known(ID).await;
    assert_eq!(said(&gone).0, Code::NotFound);
    assert_eq!(said(&gone).1, format!("`{ID}` does not exist"));
    let made_elsewhere = requests::stage("../../etc", &volume.staging);
    assert_eq!(
        said(&orchestrator.stage_as(made_elsewhere).await),
        (
            Code::NotFound,
            "this driver makes no such ids: nothing has it"
        )
    );
    Ok(())
}

async fn refuse_what_it_cannot_be(orchestrator: &Orchestrator) {
    let request = || requests::create(NAME, VOLUME_BYTES);
    let unknown = [("sizze".to_owned(), "1".to_owned())];
    let refused: [(CreateVolumeRequest, Code, &str); 4] = [
        (
            CreateVolumeRequest {
                parameters: unknown.clone().into(),
                ..request()
            },
            Code::InvalidArgument,
            "unknown parameter `sizze`: this driver knows none",
        ),
        (
            CreateVolumeRequest {
                volume_capabilities: vec![requests::mounted(Mode::MultiNodeMultiWriter, &[])],
                ..request()
            },
            Code::InvalidArgument,
            "volumes of this driver are used on one node at a time: use ReadWriteOnce or ReadWriteOncePod",
        ),
        (
            CreateVolumeRequest {
                volume_capabilities: vec![crate::kinds::Kind::Block.capability()],
                ..request()
            },
            Code::InvalidArgument,
            "volumes of this driver are file systems: use volumeMode Filesystem",
        ),
        (
            CreateVolumeRequest {
                capacity_range: Some(CapacityRange {
                    required_bytes: 1,
                    limit_bytes: 100,
                }),
                ..request()
            },
            Code::OutOfRange,
            "the volume takes 4096 bytes, the limit is 100: raise the limit",
        ),
    ];
    for (request, code, words) in refused {
        assert_eq!(said(&orchestrator.create(request).await), (code, words));
    }
}

async fn accept_what_kubernetes_adds(orchestrator: &Orchestrator) -> Result<(), Failure> {
    let mut request = requests::create("added", VOLUME_BYTES);
    let added = ADDED.map(|key| (key.to_owned(), "claim".to_owned()));
    request.parameters.extend(added);
    let (id, _) = status(orchestrator.create(request.clone()).await)?;
    status(orchestrator.delete(&id).await)?;
    request
        .parameters
        .insert("sizze".to_owned(), "1".to_owned());
    assert_eq!(
        said(&orchestrator.create(request).await),
        (
            Code::InvalidArgument,
            "unknown parameter `sizze`: this driver knows none"
        )
    );
    Ok(())
}

/// Code and message of an answer.
fn said<T>(answer: &Result<T, Status>) -> (Code, &str) {
    (
        code(answer),
        answer.as_ref().err().map_or("", Status::message),
    )
}

fn status<T>(answer: Result<T, Status>) -> Result<T, Failure> {
    answer
        .map_err(|status| Failure::Unexpected(format!("{:?}: {}", status.code(), status.message())))
}
