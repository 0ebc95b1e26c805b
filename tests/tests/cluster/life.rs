//! A volume's life in pods: written and read, attached and detached, as a file system and as a device, for one pod or for a group, and on a node
//! that takes no more. What comes and goes here belongs to one claim; sizes and copies are other files' subject.

use crate::stage::Outcome;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wasmount_tests::cluster::drivers::HOSTPATH;
use wasmount_tests::cluster::objects::{Claim, Volume};
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait::NotYet;
use xtask::failure::Failure;

/// Claims, their classes and sizes, and what `stat` calls their file systems; a directory has its pool's.
const KINDS: [(&str, &str, &str, &str); 5] = [
    ("ext4", "ext4", "16Mi", "ext2/ext3"),
    ("xfs", "xfs", "300Mi", "xfs"),
    ("directory", "directory", "1Mi", "xfs"),
    ("local-ext4", "local-ext4", "16Mi", "ext2/ext3"),
    ("local-xfs", "local-xfs", "300Mi", "xfs"),
];

pub(crate) async fn privileged_what_one_pod_writes_the_next_one_reads(scene: Scene) -> Outcome {
    let volumes = KINDS.map(|(claim, ..)| Volume::Claim(claim));
    for (claim, class, size, _) in KINDS {
        scene.claim(&Claim::new(claim, class, size)).await?;
    }
    scene.pod("writer", &volumes).await?;
    for (claim, _, _, file_system) in KINDS {
        let write = format!("stat -f -c %T /{claim}; echo {claim} > /{claim}/file");
        let said = scene.shell("writer", &write).await?;
        assert_eq!(said.trim_end(), file_system, "{claim}");
    }
    scene.delete::<Pod>("writer").await?;

    scene.pod("reader", &volumes).await?;
    for (claim, ..) in KINDS {
        let read = scene.shell("reader", &format!("cat /{claim}/file")).await?;
        assert_eq!(read.trim_end(), claim);
    }
    Ok(())
}

pub(crate) async fn privileged_a_volume_is_attached_before_its_pod_and_detached(
    scene: Scene,
) -> Outcome {
    scene.claim(&Claim::new("data", "ext4", "16Mi")).await?;
    scene.pod("user", &[Volume::Claim("data")]).await?;
    let metadata = attached(&scene, "data", HOSTPATH.name).await?;
    assert_eq!(metadata["mountOptions"], "rw");
    scene.delete::<Pod>("user").await?;
    detached(&scene, "data").await
}

/// What the plugin answered to ControllerPublishVolume, for the node: of the only attachment of a claim, which is attached.
pub(crate) async fn attached(
    scene: &Scene,
    claim: &str,
    driver: &str,
) -> Result<BTreeMap<String, String>, Failure> {
    let volume = scene.volume_of(claim).await?.name_any();
    let all = attachments(scene, &volume).await;
    let all = all.map_err(Failure::cannot("list attachments"))?;
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].spec.attacher, driver);
    let status = all[0].status.clone().unwrap();
    assert!(status.attached, "{status:?}");
    Ok(status.attachment_metadata.unwrap_or_default())
}

/// Waits until the volume of a claim is not attached.
pub(crate) async fn detached(scene: &Scene, claim: &str) -> Outcome {
    let volume = scene.volume_of(claim).await?.name_any();
    scene
        .wait("the volume is detached", async || {
            match attachments(scene, &volume).await?.first() {
                None => Ok(()),
                Some(still) => Err(NotYet(format!("{still:?}"))),
            }
        })
        .await
}

async fn attachments(scene: &Scene, volume: &str) -> Result<Vec<VolumeAttachment>, kube::Error> {
    let all: Api<VolumeAttachment> = Api::all(scene.client());
    let mut all = all.list(&ListParams::default()).await?.items;
    all.retain(|it| it.spec.source.persistent_volume_name.as_deref() == Some(volume));
    Ok(all)
}

pub(crate) async fn privileged_a_pod_reads_and_writes_a_raw_block_device(scene: Scene) -> Outcome {
    let claim = Claim {
        mode: "Block",
        ..Claim::new("disk", "ext4", "8Mi")
    };
    scene.claim(&claim).await?;
    scene.pod("writer", &[Volume::Device("disk")]).await?;
    let sum = "dd if=/dev/disk bs=1M 2>/dev/null | sha256sum";
    let written = scene
        .shell("writer", &format!("test -b /dev/disk; dd if=/dev/urandom of=/dev/disk bs=1M count=8 conv=fsync 2>/dev/null; {sum}"))
        .await?;
    scene.delete::<Pod>("writer").await?;
    scene.pod("reader", &[Volume::Device("disk")]).await?;
    assert_eq!(scene.shell("reader", sum).await?, written);
    Ok(())
}

pub(crate) async fn privileged_a_second_pod_waits_for_a_claim_of_one_pod(scene: Scene) -> Outcome {
    let claim = Claim {
        access: "ReadWriteOncePod",
        ..Claim::new("mine", "ext4", "16Mi")
    };
    scene.claim(&claim).await?;
    let volumes = [Volume::Claim("mine")];
    scene.pod("first", &volumes).await?;
    scene.pod_with("second", &volumes, &Value::Null).await?;
    scene.unschedulable("second", "ReadWriteOncePod").await?;
    scene.delete::<Pod>("first").await?;
    scene.ready("second").await
}

pub(crate) async fn privileged_a_pod_waits_for_a_node_that_is_not_full(scene: Scene) -> Outcome {
    for claim in ["one", "two"] {
        scene.claim(&Claim::new(claim, "limited", "16Mi")).await?;
    }
    scene.pod("first", &[Volume::Claim("one")]).await?;
    scene
        .pod_with("second", &[Volume::Claim("two")], &Value::Null)
        .await?;
    scene
        .unschedulable("second", "exceed max volume count")
        .await?;
    scene.delete::<Pod>("first").await?;
    scene.ready("second").await
}

pub(crate) async fn privileged_files_belong_to_the_group_of_the_pod(scene: Scene) -> Outcome {
    let settings =
        json!({ "securityContext": { "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2345 } });
    scene.claim(&Claim::new("ext4", "ext4", "16Mi")).await?;
    scene
        .claim(&Claim::new("directory", "directory", "1Mi"))
        .await?;
    scene
        .claim(&Claim::new("local-ext4", "local-ext4", "16Mi"))
        .await?;
    let volumes = ["ext4", "directory", "local-ext4"].map(Volume::Claim);
    scene.pod_with("user", &volumes, &settings).await?;
    scene.ready("user").await?;
    for claim in ["ext4", "directory", "local-ext4"] {
        let owners = scene
            .shell(
                "user",
                &format!(
                    "echo x > /{claim}/file; stat -c %g /{claim}; stat -c '%u %g' /{claim}/file"
                ),
            )
            .await?;
        assert_eq!(owners, "2345\n1000 2345\n", "{claim}");
    }
    Ok(())
}
