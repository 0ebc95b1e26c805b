//! Pods keep their volumes whichever process dies: a pod writes all the time while kubelet, the host, the API server or etcd is away, and afterwards volumes
//! come and go as before. A test has the cluster to itself, or the host that is killed; that nothing is left of it, and that CSINode is true, is asked
//! at its end.

use crate::stage::Outcome;
use crate::writer::{LINES, Writer};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::CSINode;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::Value;
use std::time::Duration;
use wasmount_tests::cluster::drivers::{FAULTED, FAULTED_HOST, HOSTPATH, KILLED, KUBELET};
use wasmount_tests::cluster::etcd;
use wasmount_tests::cluster::objects::{self, Claim, Volume};
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait::NotYet;
use xtask::cluster::access::NODE_NAME;
use xtask::cluster::parts::{NODE_GRACE, NODE_MONITOR_PERIOD};
use xtask::command;
use xtask::failure::Failure;

/// How long the API server and etcd are away: longer than a node's lease lasts and than a node is silent before it counts as lost, shorter than
/// pods are evicted after (300 s).
const AWAY: Duration = NODE_GRACE.saturating_add(NODE_MONITOR_PERIOD.saturating_mul(2));

/// Moments at which the host is killed while pods come and go, after the order: whatever is under way then. Killing it in a step of one's choice is
/// another file's subject.
const MOMENTS: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_millis(1200),
    Duration::from_millis(2200),
];

pub(crate) async fn privileged_a_pod_writes_on_when_kubelet_is_killed(scene: Scene) -> Outcome {
    let writer = Writer::begin(&scene).await?;
    let cluster = scene.lab().cluster();
    cluster.kill("kubelet")?;
    cluster.start_again("kubelet")?;
    cluster.ready().await?;
    writer.end().await
}

pub(crate) async fn privileged_a_pod_writes_on_while_the_host_is_replaced(scene: Scene) -> Outcome {
    let writer = Writer::begin_on(&scene, "faulted-ext4", FAULTED).await?;
    let cluster = scene.lab().cluster();
    cluster.stop(FAULTED_HOST)?;
    // No driver serves the volume now, and the pod is not affected.
    writer.goes_on().await?;
    cluster.start_again(FAULTED_HOST)?;
    writer.end().await
}

pub(crate) async fn privileged_a_pod_deleted_without_a_host_goes_once_it_is_back(
    scene: Scene,
) -> Outcome {
    let writer = Writer::begin_on(&scene, "faulted-ext4", FAULTED).await?;
    let cluster = scene.lab().cluster();
    scene
        .claim(&Claim::new("other", "faulted-xfs", "300Mi"))
        .await?;
    scene.pod("other", &[Volume::Claim("other")]).await?;
    cluster.kill(FAULTED_HOST)?;
    let pods: Api<Pod> = scene.api();
    pods.delete("other", &DeleteParams::default())
        .await
        .map_err(Failure::cannot("delete the pod"))?;
    writer.goes_on().await?;
    cluster.start_again(FAULTED_HOST)?;
    scene
        .wait("the pod is gone", async || {
            match pods.get_opt("other").await? {
                None => Ok(()),
                Some(still) => Err(NotYet(format!("{:?}", still.status))),
            }
        })
        .await?;
    writer.end().await
}

pub(crate) async fn privileged_pods_come_and_go_while_the_host_is_killed(scene: Scene) -> Outcome {
    let writer = Writer::begin_on(&scene, "faulted-ext4", FAULTED).await?;
    let cluster = scene.lab().cluster();
    let pods: Api<Pod> = scene.api();
    scene
        .claim(&Claim::new("one", "faulted-ext4", "16Mi"))
        .await?;
    scene
        .claim(&Claim::new("two", "faulted-directory", "1Mi"))
        .await?;
    let volumes = [Volume::Claim("one"), Volume::Claim("two")];
    let object = objects::pod("guest", &volumes, &Value::Null);
    let object: Pod = serde_json::from_value(object).unwrap();
    for moment in MOMENTS {
        pods.create(&PostParams::default(), &object)
            .await
            .map_err(Failure::cannot("make the pod"))?;
        tokio::time::sleep(moment).await;
        cluster.kill(FAULTED_HOST)?;
        cluster.start_again(FAULTED_HOST)?;
        scene.ready("guest").await?;
        scene
            .shell("guest", "date >> /one/file; date >> /two/file")
            .await?;

        let deletion = scene.delete::<Pod>("guest");
        let kill = async {
            tokio::time::sleep(moment).await;
            cluster.kill(FAULTED_HOST)?;
            cluster.start_again(FAULTED_HOST)
        };
        tokio::try_join!(deletion, kill)?;
    }
    scene.pod("reader", &volumes).await?;
    let count = MOMENTS.len();
    let lines = scene
        .shell("reader", "cat /one/file | wc -l; cat /two/file | wc -l")
        .await?;
    assert_eq!(lines, format!("{count}\n{count}\n"));
    writer.end().await
}

pub(crate) async fn privileged_a_pod_writes_on_without_the_api_server_and_etcd(
    scene: Scene,
) -> Outcome {
    let writer = Writer::begin(&scene).await?;
    let before = writer.lines().await?;
    let cluster = scene.lab().cluster();
    cluster.kill("kube-apiserver")?;
    cluster.kill("etcd")?;
    tokio::time::sleep(AWAY).await;
    cluster.start_again("etcd")?;
    cluster.start_again("kube-apiserver")?;
    cluster.api_ready().await?;
    let after = writer.lines().await?;
    assert!(after >= before + LINES, "{before} {after}");
    cluster.ready().await?;
    writer.end().await
}

pub(crate) async fn privileged_a_registration_socket_that_is_deleted_comes_back(
    scene: Scene,
) -> Outcome {
    let writer = Writer::begin_on(&scene, "killed-ext4", KILLED).await?;
    let socket = format!("{KUBELET}/plugins_registry/{}@reg.sock", KILLED.name);
    let cluster = scene.lab().cluster();
    command::read(cluster.enter("rm").arg(&socket))?;
    scene
        .wait("the socket is there again", async || {
            command::read(cluster.enter("test").args(["-S", &socket]))?;
            Ok(())
        })
        .await?;
    writer.end().await
}

pub(crate) async fn privileged_drift_is_healed_though_etcd_forgot_its_versions(
    scene: Scene,
) -> Outcome {
    let writer = Writer::begin(&scene).await?;
    let cluster = scene.lab().cluster();
    // A watch now continues from a version that is no more, of which a new API server knows nothing either.
    cluster.kill("kube-apiserver")?;
    etcd::forget(cluster)?;
    cluster.start_again("kube-apiserver")?;
    cluster.api_ready().await?;
    let nodes: Api<CSINode> = Api::all(scene.client());
    scene
        .wait("CSINode lists a driver no more", async || {
            let mut node = nodes.get(NODE_NAME).await?;
            node.spec.drivers.retain(|it| it.name != HOSTPATH.name);
            nodes
                .replace(NODE_NAME, &PostParams::default(), &node)
                .await?;
            Ok(())
        })
        .await?;
    writer.end().await
}
