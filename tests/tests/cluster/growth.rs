//! Volumes that get larger, as a pod sees it: between two pods, and under one that runs. What they held stays.

use crate::stage::Outcome;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::Api;
use wasmount_tests::cluster::objects::{Claim, Volume};
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait::NotYet;

/// Of a megabyte, in the units of `df -k`.
pub(crate) const MEBIBYTE: u64 = 1 << 10;

/// What an image has before and after it grows.
const SIZES: [(&str, u64); 2] = [("320Mi", 320 * MEBIBYTE), ("480Mi", 480 * MEBIBYTE)];

pub(crate) async fn privileged_ext4_grows_between_two_pods(scene: Scene) -> Outcome {
    scene.claim(&Claim::new("data", "ext4", "32Mi")).await?;
    let volumes = [Volume::Claim("data")];
    scene.pod("first", &volumes).await?;
    let before = size(&scene, "first").await?;
    assert!(before <= 32 * MEBIBYTE, "{before}");
    scene.shell("first", "echo kept > /data/file").await?;
    scene.delete::<Pod>("first").await?;

    scene.grow("data", "96Mi").await?;
    let claims: Api<PersistentVolumeClaim> = scene.api();
    scene
        .wait(
            "the claim waits for a node to grow its file system",
            async || {
                let status = claims.get("data").await?.status.unwrap_or_default();
                let mut conditions = status.conditions.iter().flatten();
                match conditions.find(|it| it.type_ == "FileSystemResizePending") {
                    Some(_) => Ok(()),
                    None => Err(NotYet(format!("{status:?}"))),
                }
            },
        )
        .await?;
    scene.pod("second", &volumes).await?;
    let after = size(&scene, "second").await?;
    assert!(
        after > 64 * MEBIBYTE && after <= 96 * MEBIBYTE,
        "{before} {after}"
    );
    assert_eq!(scene.shell("second", "cat /data/file").await?, "kept\n");
    has_capacity(&scene, "96Mi").await
}

pub(crate) async fn privileged_xfs_grows_under_a_pod_that_runs(scene: Scene) -> Outcome {
    grows_online(&scene, "xfs", SIZES).await
}

pub(crate) async fn privileged_an_image_of_the_node_grows_under_a_pod_that_runs(
    scene: Scene,
) -> Outcome {
    grows_online(&scene, "local-xfs", SIZES).await
}

/// Sizes are those of the claim and of its device, in KiB; most of a device is the file system's.
pub(crate) async fn grows_online(
    scene: &Scene,
    class: &'static str,
    [(small, few), (large, many)]: [(&'static str, u64); 2],
) -> Outcome {
    scene.claim(&Claim::new("data", class, small)).await?;
    scene.pod("user", &[Volume::Claim("data")]).await?;
    let before = size(scene, "user").await?;
    assert!(before <= few, "{before}");
    // It stays open and is written all the time.
    scene
        .shell("user", "(while echo line; do sleep 0.1; done >> /data/file) >/dev/null 2>&1 & echo $! > /data/writer")
        .await?;
    scene.grow("data", large).await?;
    scene
        .wait("the pod sees more space", async || {
            let now = size(scene, "user").await?;
            if now > few.midpoint(many) {
                Ok(())
            } else {
                Err(NotYet(format!("{now} KiB")))
            }
        })
        .await?;
    scene.shell("user", "kill -0 $(cat /data/writer)").await?;
    has_capacity(scene, large).await
}

/// What `df` says to a pod, in KiB.
pub(crate) async fn size(scene: &Scene, pod: &str) -> Result<u64, xtask::failure::Failure> {
    let size = scene
        .shell(pod, "df -Pk /data | awk 'NR == 2 { print $2 }'")
        .await?;
    Ok(size.trim().parse().unwrap())
}

/// Once kubelet is done, the claim says so.
pub(crate) async fn has_capacity(scene: &Scene, size: &str) -> Outcome {
    let claims: Api<PersistentVolumeClaim> = scene.api();
    scene
        .wait("the claim has its new size", async || {
            let status = claims.get("data").await?.status.unwrap_or_default();
            let capacity = status.capacity.as_ref().and_then(|it| it.get("storage"));
            match capacity {
                Some(capacity) if capacity.0 == size && status.conditions.is_none() => Ok(()),
                _ => Err(NotYet(format!("{status:?}"))),
            }
        })
        .await
}
