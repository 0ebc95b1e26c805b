//! What kubelet tells others of volumes, from the driver's answers.

use crate::stage::Outcome;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use serde_json::Value;
use wasmount_tests::cluster::drivers::{HOSTPATH, KUBELET};
use wasmount_tests::cluster::objects::{Claim, Volume};
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait::{self, NotYet};
use xtask::cluster::access::NODE_NAME;
use xtask::command;
use xtask::failure::Failure;

/// Kubelet's own numbers, through the API server.
const SUMMARY: &str = "proxy/stats/summary";

/// Of what a pod writes, in bytes.
const WRITTEN: u64 = 4 << 20;

pub(crate) async fn privileged_kubelet_reports_what_a_volume_has_and_uses(scene: Scene) -> Outcome {
    scene.claim(&Claim::new("data", "ext4", "32Mi")).await?;
    scene.pod("user", &[Volume::Claim("data")]).await?;
    scene
        .shell(
            "user",
            "dd if=/dev/zero of=/data/file bs=1M count=4 conv=fsync 2>/dev/null",
        )
        .await?;
    let numbers = reported(&scene, |it| it["usedBytes"].as_u64() >= Some(WRITTEN)).await?;
    let number = |key: &str| numbers[key].as_u64().unwrap();
    assert!(number("capacityBytes") <= 32 << 20, "{numbers}");
    assert!(
        number("availableBytes") <= number("capacityBytes") - WRITTEN,
        "{numbers}"
    );
    assert!(
        number("inodesUsed") > 0 && number("inodesUsed") < number("inodes"),
        "{numbers}"
    );
    Ok(())
}

/// kubelet asks at a path of its own, a bind mount of what was published.
pub(crate) async fn privileged_kubelet_reports_the_size_of_a_raw_device(scene: Scene) -> Outcome {
    let claim = Claim {
        mode: "Block",
        ..Claim::new("data", "ext4", "8Mi")
    };
    scene.claim(&claim).await?;
    scene.pod("user", &[Volume::Device("data")]).await?;
    let numbers = reported(&scene, |it| it["capacityBytes"].as_u64() > Some(0)).await?;
    assert_eq!(numbers["capacityBytes"], 8 << 20, "{numbers}");
    Ok(())
}

pub(crate) async fn privileged_kubelet_tells_a_pod_that_its_mount_is_lost(scene: Scene) -> Outcome {
    scene.claim(&Claim::new("data", "ext4", "16Mi")).await?;
    scene.pod("user", &[Volume::Claim("data")]).await?;
    let cluster = scene.lab().cluster();
    let volume = scene.volume_of("data").await?.spec.unwrap().csi.unwrap();
    // Kubelet notes beside each staging place whose it is.
    let places = format!("{KUBELET}/plugins/kubernetes.io/csi/{}", HOSTPATH.name);
    let unmount = format!(
        "umount $(dirname $(grep -l {} {places}/*/vol_data.json))/globalmount",
        volume.volume_handle
    );
    // An administrator cleans up, and does not know what is removed. The mount is busy while statistics of it are read.
    scene
        .wait("the volume is unmounted", async || {
            command::read(cluster.enter("sh").args(["-ec", &unmount]))
                .map(drop)
                .map_err(|error| NotYet(error.to_string()))
        })
        .await?;
    scene
        .wait("an event of the pod tells of it", async || {
            let events = wait::events(&scene.client(), scene.namespace()).await;
            let mut lines = events.lines();
            match lines
                .find(|it| it.contains("VolumeConditionAbnormal Pod/user: Volume data: MountLost"))
            {
                Some(_) => Ok(()),
                None => Err(NotYet(events)),
            }
        })
        .await
}

/// kubelet's numbers of the volume, once they are such.
async fn reported(scene: &Scene, are_such: impl Fn(&Value) -> bool) -> Result<Value, Failure> {
    let nodes: Api<DynamicObject> = Api::all_with(scene.client(), &ApiResource::erase::<Node>(&()));
    scene
        .wait("kubelet's summary holds the volume", async || {
            let summary = nodes.get_subresource(SUMMARY, NODE_NAME).await?.data;
            let found = volume(&summary, scene.namespace()).cloned();
            let found = found.ok_or_else(|| NotYet(format!("{}", summary["pods"])))?;
            match are_such(&found) {
                true => Ok(found),
                false => Err(NotYet(found.to_string())),
            }
        })
        .await
}

/// The one volume of the one pod of a namespace.
fn volume<'a>(summary: &'a Value, namespace: &str) -> Option<&'a Value> {
    let pods = summary["pods"].as_array()?;
    let pod = pods
        .iter()
        .find(|it| it["podRef"]["namespace"] == namespace)?;
    pod["volume"]
        .as_array()?
        .iter()
        .find(|it| it["name"] == "data")
}
