//! Whoever dies, pods keep what they have: a pod writes all the time while kubelet, the host, the API server or etcd is away, and afterwards volumes
//! come and go as before. Each test has the cluster to itself; that nothing is left of it is asked at its end, as of every test.

use crate::stage::Outcome;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::Value;
use std::time::Duration;
use wasmount_tests::cluster::drivers::{HOST, HOSTPATH, KUBELET};
use wasmount_tests::cluster::objects::{self, Claim, Volume};
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait::NotYet;
use xtask::command;
use xtask::failure::Failure;

/// Writes a line every tenth of a second, and is told from other processes by its file.
const WRITER: &str = "(while date >> /data/lines; do sleep 0.1; done) > /dev/null 2>&1 &";

/// Lines that show that writing goes on: two seconds of them.
const LINES: u64 = 20;

/// How long the API server and etcd are away: longer than a node's lease lasts (`nodeLeaseDurationSeconds`, 40 s), shorter than pods are
/// evicted after.
const AWAY: Duration = Duration::from_secs(60);

/// Moments at which the host is killed while pods come and go, after the order. Staging, publishing and their ends lie somewhere in there.
const MOMENTS: [Duration; 6] = [
    Duration::from_millis(300),
    Duration::from_millis(700),
    Duration::from_millis(1100),
    Duration::from_millis(1500),
    Duration::from_millis(2000),
    Duration::from_millis(2600),
];

/// A pod that writes, from before a fault until after it.
struct Writer<'a> {
    scene: &'a Scene,
    uid: String,
}

impl<'a> Writer<'a> {
    async fn begin(scene: &'a Scene) -> Result<Self, Failure> {
        scene.claim(&Claim::new("data", "ext4", "16Mi")).await?;
        scene.pod("writer", &[Volume::Claim("data")]).await?;
        scene.shell("writer", WRITER).await?;
        let uid = pod(scene).await?.uid().unwrap();
        let writer = Self { scene, uid };
        writer.goes_on().await?;
        Ok(writer)
    }

    /// Waits for more lines, as the pod sees them.
    async fn goes_on(&self) -> Outcome {
        let before = self.lines().await?;
        self.scene
            .wait("the pod goes on writing", async || {
                let now = self.lines().await?;
                if now >= before + LINES {
                    Ok(())
                } else {
                    Err(NotYet(format!("{before} lines, then {now}")))
                }
            })
            .await
    }

    /// How many it has; asked again while kubelet, through which one asks, is away.
    async fn lines(&self) -> Result<u64, Failure> {
        let count = async || Ok(self.scene.shell("writer", "wc -l < /data/lines").await?);
        let lines = self.scene.wait("the pod tells its lines", count).await?;
        Ok(lines.trim().parse().unwrap())
    }

    /// It still is the pod that it was, and a new one gets a volume, too.
    async fn end(self) -> Outcome {
        self.scene.lab().registered().await?;
        self.goes_on().await?;
        let now = pod(self.scene).await?;
        assert_eq!(now.uid().unwrap(), self.uid);
        let containers = now.status.unwrap().container_statuses.unwrap();
        assert_eq!(containers[0].restart_count, 0, "{containers:?}");
        self.scene
            .claim(&Claim::new("later", "ext4", "16Mi"))
            .await?;
        self.scene.pod("later", &[Volume::Claim("later")]).await?;
        self.scene
            .shell("later", "echo x > /later/file")
            .await
            .map(drop)
    }
}

async fn pod(scene: &Scene) -> Result<Pod, Failure> {
    let pods: Api<Pod> = scene.api();
    pods.get("writer")
        .await
        .map_err(Failure::kubernetes("get the pod"))
}

pub(crate) async fn privileged_a_pod_writes_on_when_kubelet_is_killed(scene: Scene) -> Outcome {
    let writer = Writer::begin(&scene).await?;
    let cluster = scene.lab().cluster();
    cluster.kill("kubelet")?;
    cluster.start_again("kubelet")?;
    cluster.ready().await?;
    writer.end().await
}

pub(crate) async fn privileged_a_pod_writes_on_while_the_host_is_replaced(scene: Scene) -> Outcome {
    let writer = Writer::begin(&scene).await?;
    let cluster = scene.lab().cluster();
    cluster.stop(HOST)?;
    // Nobody serves the volume now, and the pod does not feel it.
    writer.goes_on().await?;
    cluster.start_again(HOST)?;
    writer.end().await
}

pub(crate) async fn privileged_a_pod_that_is_deleted_while_the_host_is_dead_goes_once_it_is_back(
    scene: Scene,
) -> Outcome {
    let writer = Writer::begin(&scene).await?;
    let cluster = scene.lab().cluster();
    scene.claim(&Claim::new("other", "xfs", "300Mi")).await?;
    scene.pod("other", &[Volume::Claim("other")]).await?;
    cluster.kill(HOST)?;
    let pods: Api<Pod> = scene.api();
    pods.delete("other", &DeleteParams::default())
        .await
        .map_err(Failure::kubernetes("delete the pod"))?;
    writer.goes_on().await?;
    cluster.start_again(HOST)?;
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

pub(crate) async fn privileged_pods_come_and_go_while_the_host_is_killed_again_and_again(
    scene: Scene,
) -> Outcome {
    let writer = Writer::begin(&scene).await?;
    let cluster = scene.lab().cluster();
    let pods: Api<Pod> = scene.api();
    scene.claim(&Claim::new("one", "ext4", "16Mi")).await?;
    scene.claim(&Claim::new("two", "directory", "1Mi")).await?;
    let volumes = [Volume::Claim("one"), Volume::Claim("two")];
    let object = objects::pod("guest", &volumes, &Value::Null);
    let object: Pod = serde_json::from_value(object).unwrap();
    for moment in MOMENTS {
        pods.create(&PostParams::default(), &object)
            .await
            .map_err(Failure::kubernetes("make the pod"))?;
        tokio::time::sleep(moment).await;
        cluster.kill(HOST)?;
        cluster.start_again(HOST)?;
        scene.ready("guest").await?;
        scene
            .shell("guest", "date >> /one/file; date >> /two/file")
            .await?;

        let deletion = scene.delete::<Pod>("guest");
        let kill = async {
            tokio::time::sleep(moment).await;
            cluster.kill(HOST)?;
            cluster.start_again(HOST)
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

pub(crate) async fn privileged_a_pod_writes_on_while_the_api_server_and_etcd_are_away(
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
    let writer = Writer::begin(&scene).await?;
    let socket = format!("{KUBELET}/plugins_registry/{}-reg.sock", HOSTPATH.name);
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
