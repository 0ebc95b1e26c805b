//! A driver whose host may not mount: its mounter is another process, which dies without it, and its plugin is a file that may be broken. Pods
//! come and go once what they need is there again, and what needs nothing of the plugin goes without it.

use crate::stage::Outcome;
use crate::writer::Writer;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::Value;
use std::fs;
use wasmount_tests::cluster::drivers::{self, MOUNTER, SPLIT, SPLIT_HOST};
use wasmount_tests::cluster::objects::{Claim, Volume};
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait::{self, NotYet};
use xtask::failure::Failure;

/// No WebAssembly: that opens with `\0asm`.
const GARBAGE: &str = "not a component";

pub(crate) async fn privileged_pods_come_and_go_once_the_mounter_is_back(scene: Scene) -> Outcome {
    let writer = Writer::begin_on(&scene, "split", SPLIT).await?;
    let cluster = scene.lab().cluster();
    for claim in ["goes", "comes"] {
        scene.claim(&Claim::new(claim, "split", "16Mi")).await?;
    }
    scene.pod("goes", &[Volume::Claim("goes")]).await?;
    cluster.kill(MOUNTER)?;
    let pods: Api<Pod> = scene.api();
    pods.delete("goes", &DeleteParams::default())
        .await
        .map_err(Failure::cannot("delete the pod"))?;
    scene
        .pod_with("comes", &[Volume::Claim("comes")], &Value::Null)
        .await?;
    // Its volume is requested, and the client gets the reason why it is not created.
    scene
        .wait("the claim tells of the mounter", async || {
            let events = wait::events(&scene.client(), scene.namespace()).await;
            if events.contains("the mounter does not answer") {
                Ok(())
            } else {
                Err(NotYet(events))
            }
        })
        .await?;
    writer.goes_on().await?;
    cluster.start_again(MOUNTER)?;
    scene
        .wait("the pod is gone", async || {
            match pods.get_opt("goes").await? {
                None => Ok(()),
                Some(still) => Err(NotYet(format!("{:?}", still.status))),
            }
        })
        .await?;
    scene.ready("comes").await?;
    scene.shell("comes", "echo x > /comes/file").await?;
    writer.end().await
}

pub(crate) async fn privileged_a_pod_goes_though_its_plugin_is_broken(scene: Scene) -> Outcome {
    let cluster = scene.lab().cluster();
    scene.claim(&Claim::new("data", "split", "16Mi")).await?;
    scene.pod("guest", &[Volume::Claim("data")]).await?;
    let component = drivers::split_component(cluster);
    let intact = fs::read(&component).map_err(Failure::cannot("read the component"))?;
    let exchange = |content: &[u8]| {
        cluster.kill(SPLIT_HOST)?;
        fs::write(&component, content).map_err(Failure::cannot("write the component"))?;
        cluster.start_again(SPLIT_HOST)
    };
    exchange(GARBAGE.as_bytes())?;
    let went = scene.delete::<Pod>("guest").await;
    // Others need it, however this one ends.
    exchange(&intact)?;
    went
}
