//! The SELinux label of a pod, which kubelet has a volume mounted with where CSIDriver says `seLinuxMount`: it reaches the kernel whole, and what
//! comes of it depends on the kernel. Most machines that run these tests have no SELinux; there the label must be refused, not dropped.

use crate::local_images::{assert_nothing_left, created, serving};
use std::path::Path;
use tonic::Code;
use wasmount_csi::wire::csi::v1::VolumeCapability;
use wasmount_csi::wire::csi::v1::volume_capability::AccessType;
use wasmount_csi::wire::csi::v1::{NodePublishVolumeRequest, NodeStageVolumeRequest};
use wasmount_tests::kinds::Kind;
use wasmount_tests::orchestrator::{Volume, code};
use wasmount_tests::other_kernel::needs_other_kernel;
use wasmount_tests::strace::Recording;

/// What kubelet sends (`AddSELinuxMountOption`).
const FLAG: &str = r#"context="system_u:object_r:container_file_t:s0:c10,c20""#;
/// Another pod's.
const OTHER: &str = r#"context="system_u:object_r:container_file_t:s0:c30,c40""#;
/// The system call that gives the kernel the first one, as strace prints it.
const TOLD: &str =
    r#"FSCONFIG_SET_STRING, "context", "system_u:object_r:container_file_t:s0:c10,c20", 0)"#;
/// What the kernel says that a file has.
const ATTRIBUTE: &str = "security.selinux";
/// The first one as it says it.
const LABEL: &[u8] = b"system_u:object_r:container_file_t:s0:c10,c20\0";
/// More than a label has, in bytes.
const LABEL_BYTES: usize = 256;
/// There while SELinux is on (selinuxfs).
const ENFORCE: &str = "/sys/fs/selinux/enforce";

fn labelled(kind: Kind, flag: &str) -> VolumeCapability {
    let mut capability = kind.capability();
    if let Some(AccessType::Mount(mount)) = &mut capability.access_type {
        mount.mount_flags = vec![flag.to_owned()];
    }
    capability
}

fn stage(kind: Kind, volume: &Volume, flag: &str) -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_capability: Some(labelled(kind, flag)),
        ..kind.stage(volume)
    }
}

fn publish(kind: Kind, volume: &Volume, flag: &str) -> NodePublishVolumeRequest {
    NodePublishVolumeRequest {
        volume_capability: Some(labelled(kind, flag)),
        ..kind.publish(volume, &volume.target)
    }
}

#[tokio::test]
async fn privileged_an_selinux_label_is_passed_whole() {
    let (host, orchestrator) = serving(None).await;
    for kind in ["ext4", "xfs"].map(Kind::Filesystem) {
        let volume = created(&orchestrator, kind, "pvc").await;
        let recording = Recording::begin(host.id(), &["fsconfig"]).unwrap();
        let staged = orchestrator.stage_as(stage(kind, &volume, FLAG)).await;
        let told = recording.written().unwrap();
        assert!(told.contains(TOLD), "{told}");
        if Path::new(ENFORCE).exists() {
            staged.unwrap();
            let published = orchestrator.publish_as(publish(kind, &volume, FLAG)).await;
            published.unwrap();
            let again = orchestrator.stage_as(stage(kind, &volume, OTHER)).await;
            assert_eq!(code(&again), Code::AlreadyExists);
        } else {
            assert_eq!(code(&staged), Code::Unimplemented, "{staged:?}");
            let said = staged.unwrap_err().message().to_owned();
            assert!(said.contains("no SELinux"), "{said}");
            assert!(!said.contains("container_file_t"), "{said}");
            assert!(host.mounts().unwrap().is_empty());
        }
        orchestrator.tear_down(&volume).await.unwrap();
    }
    assert_nothing_left(&host);
}

#[tokio::test]
async fn on_other_kernel_an_selinux_label_is_on_every_file() {
    needs_other_kernel();
    assert!(
        Path::new(ENFORCE).exists(),
        "SELinux is off: add `--selinux`"
    );
    let (host, orchestrator) = serving(None).await;
    for kind in ["ext4", "xfs"].map(Kind::Filesystem) {
        let volume = created(&orchestrator, kind, "pvc").await;
        let staged = orchestrator.stage_as(stage(kind, &volume, FLAG)).await;
        staged.unwrap();
        let published = orchestrator.publish_as(publish(kind, &volume, FLAG)).await;
        published.unwrap();
        kind.write(&volume.target, b"labelled").unwrap();
        for path in [volume.target.clone(), volume.target.join("data")] {
            let mut label = Vec::with_capacity(LABEL_BYTES);
            let value = rustix::buffer::spare_capacity(&mut label);
            rustix::fs::getxattr(&path, ATTRIBUTE, value).unwrap();
            assert_eq!(label, LABEL, "{}", path.display());
        }
        // Without it the same volume is another mount.
        let again = orchestrator.stage_as(kind.stage(&volume)).await;
        assert_eq!(code(&again), Code::AlreadyExists);
        orchestrator.tear_down(&volume).await.unwrap();
    }
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_stage_without_label_is_not_published_with_one() {
    let (host, orchestrator) = serving(None).await;
    let kind = Kind::Filesystem("ext4");
    let volume = created(&orchestrator, kind, "pvc").await;
    orchestrator.stage_as(kind.stage(&volume)).await.unwrap();
    let refused = orchestrator.publish_as(publish(kind, &volume, FLAG)).await;
    assert_eq!(code(&refused), Code::AlreadyExists, "{refused:?}");
    let said = refused.unwrap_err().message().to_owned();
    assert!(said.contains("SELinux label"), "{said}");
    let refused = orchestrator.stage_as(stage(kind, &volume, FLAG)).await;
    assert_eq!(code(&refused), Code::AlreadyExists, "{refused:?}");
    assert!(!volume.target.exists());
    let unlabelled = kind.publish(&volume, &volume.target);
    orchestrator.publish_as(unlabelled).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_what_is_no_label_does_not_reach_the_kernel() {
    let (host, orchestrator) = serving(None).await;
    let kind = Kind::Filesystem("ext4");
    let volume = created(&orchestrator, kind, "pvc").await;
    for flag in [
        r#"context="u:r:t",suid"#,
        "context=u:r:t:s0:c1,c2",
        r#"context="u:r:t suid""#,
        "context=",
    ] {
        let refused = orchestrator.stage_as(stage(kind, &volume, flag)).await;
        assert_eq!(code(&refused), Code::InvalidArgument, "{flag}: {refused:?}");
    }
    for flag in ["fscontext=u:r:t", "defcontext=u:r:t"] {
        let refused = orchestrator.stage_as(stage(kind, &volume, flag)).await;
        assert_eq!(
            code(&refused),
            Code::PermissionDenied,
            "{flag}: {refused:?}"
        );
    }
    assert!(host.mounts().unwrap().is_empty());
    orchestrator.delete(&volume.id).await.unwrap();
    assert_nothing_left(&host);
}
