//! Snapshots, clones and groups, with their content compared: what a copy holds is what was there at its moment, and from then on it is another
//! volume.

use crate::stage::Outcome;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use wasmount_tests::cluster::lab::SNAPSHOTS;
use wasmount_tests::cluster::objects::{self, Claim, Volume};
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait::NotYet;
use xtask::failure::Failure;

/// Of the volumes: enough for what is written.
const SIZE: &str = "16Mi";

pub(crate) async fn privileged_a_snapshot_restores_what_was_there_at_its_time(
    scene: Scene,
) -> Outcome {
    is_restored(&scene, Claim::new("data", "ext4", SIZE), SNAPSHOTS).await
}

/// A snapshot of a volume that is in use and changes afterwards.
pub(crate) async fn is_restored(scene: &Scene, claim: Claim, snapshots: &str) -> Outcome {
    scene.claim(&claim).await?;
    scene.pod("writer", &[Volume::Claim("data")]).await?;
    let before = write(scene, "writer", "data").await?;
    snapshot(scene, snapshots).await?;
    let after = write(scene, "writer", "data").await?;
    assert_ne!(before, after);

    restored(scene, claim).await?;
    assert_eq!(sum(scene, "reader", "restored").await?, before);
    assert_eq!(sum(scene, "writer", "data").await?, after);
    Ok(())
}

/// Takes a snapshot of the claim `data`.
pub(crate) async fn snapshot(scene: &Scene, class: &str) -> Outcome {
    scene
        .apply(objects::snapshot("moment", class, "data"))
        .await?;
    ready(scene, "snapshot.storage.k8s.io", "VolumeSnapshot", "moment").await
}

/// A pod with the claim `restored`, a volume like that of a claim and from its snapshot.
pub(crate) async fn restored(scene: &Scene, like: Claim) -> Outcome {
    let restored = Claim {
        name: "restored",
        source: Some(("VolumeSnapshot", "moment".to_owned())),
        ..like
    };
    scene.claim(&restored).await?;
    scene.pod("reader", &[Volume::Claim("restored")]).await
}

pub(crate) async fn privileged_a_clone_is_another_volume_with_the_same_content(
    scene: Scene,
) -> Outcome {
    is_cloned(&scene, Claim::new("data", "xfs", "320Mi")).await
}

/// A clone of a volume, both in use.
pub(crate) async fn is_cloned(scene: &Scene, claim: Claim) -> Outcome {
    scene.claim(&claim).await?;
    scene.pod("writer", &[Volume::Claim("data")]).await?;
    let content = write(scene, "writer", "data").await?;
    let clone = Claim {
        name: "clone",
        source: Some(("PersistentVolumeClaim", "data".to_owned())),
        ..claim
    };
    scene.claim(&clone).await?;
    // Both at once on one node: two file systems of one UUID.
    scene.pod("other", &[Volume::Claim("clone")]).await?;
    assert_eq!(sum(scene, "other", "clone").await?, content);
    let changed = write(scene, "other", "clone").await?;
    assert_ne!(changed, content);
    assert_eq!(sum(scene, "writer", "data").await?, content);
    Ok(())
}

pub(crate) async fn privileged_a_group_snapshot_restores_all_its_volumes(scene: Scene) -> Outcome {
    let mut sums = Vec::new();
    let names = ["one", "two"];
    for name in names {
        scene.claim(&Claim::new(name, "ext4", SIZE)).await?;
    }
    scene.pod("writer", &names.map(Volume::Claim)).await?;
    for name in names {
        sums.push(write(&scene, "writer", name).await?);
    }
    scene
        .apply(objects::group_snapshot("moment", SNAPSHOTS))
        .await?;
    ready(
        &scene,
        "groupsnapshot.storage.k8s.io",
        "VolumeGroupSnapshot",
        "moment",
    )
    .await?;
    for name in names {
        write(&scene, "writer", name).await?;
    }

    let members = scene
        .api_of("snapshot.storage.k8s.io", "VolumeSnapshot")
        .await?;
    let members = members.list(&ListParams::default()).await;
    let members = members.map_err(Failure::cannot("list snapshots"))?.items;
    let restored = [("restored-one", "one"), ("restored-two", "two")];
    for (restored, source) in restored {
        let claim_of = |it: &DynamicObject| {
            let claim = it.data.pointer("/spec/source/persistentVolumeClaimName")?;
            claim.as_str().map(str::to_owned)
        };
        let member = members
            .iter()
            .find(|it| claim_of(it).as_deref() == Some(source));
        let member = member.unwrap_or_else(|| panic!("{members:?}")).name_any();
        let claim = Claim {
            source: Some(("VolumeSnapshot", member)),
            ..Claim::new(restored, "ext4", SIZE)
        };
        scene.claim(&claim).await?;
    }
    scene
        .pod("reader", &restored.map(|(name, _)| Volume::Claim(name)))
        .await?;
    for ((name, _), sum_then) in restored.iter().zip(sums) {
        assert_eq!(sum(&scene, "reader", name).await?, sum_then);
    }
    Ok(())
}

/// Writes a new random megabyte to the disk; returns its checksum.
async fn write(scene: &Scene, pod: &str, claim: &str) -> Result<String, Failure> {
    let write = "dd if=/dev/urandom of=/$it/content bs=64k count=16 conv=fsync 2>/dev/null";
    scene.shell(pod, &format!("it={claim}; {write}")).await?;
    sum(scene, pod, claim).await
}

async fn sum(scene: &Scene, pod: &str, claim: &str) -> Result<String, Failure> {
    scene
        .shell(pod, &format!("sha256sum < /{claim}/content"))
        .await
}

async fn ready(scene: &Scene, group: &str, kind: &str, name: &str) -> Outcome {
    let api = scene.api_of(group, kind).await?;
    scene
        .wait(&format!("{kind} {name} is ready"), async || {
            let object: DynamicObject = api.get(name).await?;
            match object.data.pointer("/status/readyToUse") {
                Some(ready) if ready == true => Ok(()),
                _ => Err(NotYet(object.data.to_string())),
            }
        })
        .await
}
