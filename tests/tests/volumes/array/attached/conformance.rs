//! What csi-sanity never looks at, on disks of the array: mount flags, volumes for reading only, raw devices, and content that is never formatted.

use super::{Node, Playground, iscsi, nvme};
use crate::conformance::driver::options_at;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::volume_capability::AccessType;
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_csi::wire::csi::v1::{CreateVolumeRequest, VolumeCapability};
use wasmount_tests::array::Protocol;
use wasmount_tests::kinds::{Kind, random_bytes};
use wasmount_tests::orchestrator::{Volume, code};
use wasmount_tests::requests;

/// File systems, each with a flag of its own, how the kernel names that, and another file system.
const FILE_SYSTEMS: [[&str; 4]; 3] = [
    ["ext4", "commit=30", "commit=30", "xfs"],
    ["xfs", "largeio", "largeio", "ext4"],
    ["btrfs", "compress=zstd", "compress=zstd:3", "ext4"],
];

/// No whole number of blocks.
const CONTENT_BYTES: usize = 70_001;

/// The second sector of a disk of LVM.
const LVM: (u64, &[u8]) = (512, b"LABELONE\x01\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0LVM2 001");

/// A volume on the node, as a test wants it.
#[derive(Clone)]
struct Wish {
    capability: VolumeCapability,
    readonly: bool,
}

impl Wish {
    fn of(kind: Kind) -> Self {
        Self {
            capability: kind.capability(),
            readonly: false,
        }
    }

    fn flagged(kind: Kind, flags: &[&str]) -> Self {
        let mut wish = Self::of(kind);
        if let Some(AccessType::Mount(mount)) = &mut wish.capability.access_type {
            mount.mount_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        }
        wish
    }

    /// Stages the volume as wished; it may be staged already.
    async fn stage(&self, node: &Node, volume: &Volume) -> Result<(), Status> {
        let mut stage = requests::stage(&volume.id, &volume.staging);
        stage.publish_context = node.orchestrator.attach(&volume.id, node.name).await?;
        stage.volume_capability = Some(self.capability.clone());
        node.orchestrator.stage_as(stage).await
    }

    async fn show(&self, node: &Node, volume: &Volume) {
        self.stage(node, volume).await.unwrap();
        let mut publish = requests::publish(&volume.id, &volume.staging, &volume.target);
        publish.volume_capability = Some(self.capability.clone());
        publish.readonly = self.readonly;
        node.orchestrator.publish_as(publish).await.unwrap();
    }
}

async fn created(node: &Node, kind: Kind, name: &str) -> Volume {
    let request = CreateVolumeRequest {
        volume_capabilities: vec![kind.capability()],
        ..requests::create(name, kind.bytes())
    };
    let (id, _) = node.orchestrator.create(request).await.unwrap();
    node.orchestrator.place(name, id).unwrap()
}

/// A file system lives with its flags, is not written by readers, and is not taken for another one.
async fn a_file_system_conforms(node: &Node, [name, flag, shown, other]: [&'static str; 4]) {
    let kind = Kind::Filesystem(name);
    let volume = created(node, kind, name).await;
    let content = random_bytes(CONTENT_BYTES);
    let flagged = Wish::flagged(kind, &["noexec", "noatime", flag]);
    flagged.show(node, &volume).await;
    let options = options_at(&volume.target);
    for flag in ["noexec", "noatime", shown] {
        assert!(
            options.iter().any(|it| it == flag),
            "{name} {flag}: {options:?}"
        );
    }
    kind.write(&volume.target, &content).unwrap();
    flagged.stage(node, &volume).await.unwrap();
    let refused = Wish::of(kind).stage(node, &volume).await;
    assert_eq!(code(&refused), Code::AlreadyExists, "{name}");
    node.hide(&volume).await.unwrap();

    let by_pod = Wish {
        readonly: true,
        ..Wish::of(kind)
    };
    let by_claim = Wish {
        capability: kind.capability_in(Mode::SingleNodeReaderOnly),
        ..Wish::of(kind)
    };
    for reader in [by_pod, by_claim] {
        reader.show(node, &volume).await;
        let written = kind.write(&volume.target, b"more");
        let refused = written.map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::ReadOnlyFilesystem), "{name}");
        assert!(kind.read(&volume.target, CONTENT_BYTES).unwrap() == content);
        node.hide(&volume).await.unwrap();
    }

    let wrong = Wish::of(Kind::Filesystem(other));
    let refused = wrong.stage(node, &volume).await;
    assert_eq!(
        code(&refused),
        Code::FailedPrecondition,
        "{name} as {other}"
    );
    node.hide(&volume).await.unwrap();
    Wish::of(kind).show(node, &volume).await;
    assert!(kind.read(&volume.target, CONTENT_BYTES).unwrap() == content);
    node.remove(&volume).await.unwrap();
}

/// What a pod wrote to its device is there again, and is never formatted.
async fn a_raw_device_conforms(node: &Node) {
    let volume = created(node, Kind::Block, "raw").await;
    let raw = Wish::of(Kind::Block);
    let (at, label) = LVM;
    let read = || {
        let mut found = vec![0; label.len()];
        let device = std::fs::File::open(&volume.target).unwrap();
        device.read_exact_at(&mut found, at).unwrap();
        found
    };
    raw.show(node, &volume).await;
    assert!(read().iter().all(|byte| *byte == 0));
    let device = std::fs::File::options().write(true).open(&volume.target);
    let device = device.unwrap();
    device.write_all_at(label, at).unwrap();
    device.sync_all().unwrap();
    drop(device);
    node.hide(&volume).await.unwrap();
    let refused = Wish::of(Kind::Filesystem("ext4"))
        .stage(node, &volume)
        .await;
    assert_eq!(code(&refused), Code::FailedPrecondition, "{refused:?}");
    node.hide(&volume).await.unwrap();
    raw.show(node, &volume).await;
    assert_eq!(read(), label);
    node.remove(&volume).await.unwrap();
}

async fn disks_conform(protocol: Protocol) {
    let playground = Playground::start(protocol).await;
    let node = playground.node(&[]).await;
    for file_system in FILE_SYSTEMS {
        a_file_system_conforms(&node, file_system).await;
    }
    a_raw_device_conforms(&node).await;
    playground.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_iscsi_disks_conform() {
    disks_conform(iscsi()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_nvme_disks_conform() {
    disks_conform(nvme()).await;
}
