//! The host, or its mounter, killed in the middle of a step that kubelet has ordered: at a system call that only this step makes. That it was this
//! step is known from kubelet, which got no answer to it.

use crate::stage::Outcome;
use crate::writer::Writer;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::Value;
use std::fs;
use wasmount_tests::cluster::drivers::{Driver, KILLED, KILLED_HOST, MOUNTER, SPLIT};
use wasmount_tests::cluster::objects::{Claim, Volume};
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait::NotYet;
use wasmount_tests::outside;
use wasmount_tests::strace::Strace;
use xtask::failure::Failure;

/// What mounts: in a stage that of the staging place, in a publish that of the target.
const MOUNTS: &str = "move_mount";

/// By which only an unstage takes away a file: its record.
const FORGETS: &str = "unlink";

/// The file of kubelet that logs what became of an order.
const OPERATION: &str = "nestedpendingoperations.go";

/// The volume of all of them.
const GUEST: [Volume; 1] = [Volume::Claim("guest")];

/// What will be killed, and where the reader of kubelet's log stands.
struct Doomed<'a> {
    scene: &'a Scene,
    service: &'static str,
    driver: Driver,
    id: Option<u32>,
    strace: Strace,
    read: usize,
}

impl<'a> Doomed<'a> {
    /// Of a driver, at its next call of this name.
    fn at(
        scene: &'a Scene,
        service: &'static str,
        driver: Driver,
        syscall: &str,
    ) -> Result<Self, Failure> {
        let cluster = scene.lab().cluster();
        let id = cluster.id(service)?;
        let outside = outside::id_of(cluster.supervisor_id(), id.unwrap())?.unwrap();
        Ok(Self {
            service,
            driver,
            id,
            strace: Strace::kill_at(outside, syscall, 1)?,
            read: kubelet_log(scene).len(),
            scene,
        })
    }

    /// Waits until it is dead, runs again, and kubelet says that its order was this.
    async fn died_in(self, order: &str) -> Outcome {
        let Self { scene, service, .. } = self;
        let what = format!("{service} is killed, and kubelet says {order:?}");
        scene
            .wait(&what, async || {
                let now = scene.lab().cluster().id(service)?;
                if now.is_none() || now == self.id {
                    return Err(NotYet(format!("{service} is {now:?}")));
                }
                // The first that failed; retries before it was up found no server.
                let log = kubelet_log(scene);
                let mut lines = log[self.read..].lines();
                let words = [OPERATION, self.driver.name, "rpc error"];
                match lines.find(|it| words.iter().all(|word| it.contains(word))) {
                    Some(failed) if failed.contains(order) => Ok(()),
                    other => Err(NotYet(format!("{other:?}"))),
                }
            })
            .await?;
        drop(self.strace);
        Ok(())
    }
}

fn kubelet_log(scene: &Scene) -> String {
    let log = scene.lab().cluster().lab().log("kubelet");
    String::from_utf8_lossy(&fs::read(log).unwrap()).into_owned()
}

/// Makes the pod that shall survive it, without waiting.
async fn guest(scene: &Scene, name: &str) -> Outcome {
    scene.pod_with(name, &GUEST, &Value::Null).await
}

async fn writes(scene: &Scene, pod: &str) -> Outcome {
    scene.ready(pod).await?;
    let write = scene.shell(pod, "date >> /guest/file");
    write.await.map(drop)
}

pub(crate) async fn privileged_a_pod_starts_though_a_host_died_while_staging(
    scene: Scene,
) -> Outcome {
    let writer = Writer::begin_on(&scene, "killed-ext4", KILLED).await?;
    scene
        .claim(&Claim::new("guest", "killed-ext4", "16Mi"))
        .await?;
    let doomed = Doomed::at(&scene, KILLED_HOST, KILLED, MOUNTS)?;
    guest(&scene, "first").await?;
    doomed.died_in("MountVolume.MountDevice failed").await?;
    writes(&scene, "first").await?;
    writer.end().await
}

pub(crate) async fn privileged_a_pod_starts_though_a_host_died_while_publishing(
    scene: Scene,
) -> Outcome {
    let writer = Writer::begin_on(&scene, "killed-ext4", KILLED).await?;
    scene
        .claim(&Claim::new("guest", "killed-ext4", "16Mi"))
        .await?;
    guest(&scene, "first").await?;
    writes(&scene, "first").await?;
    // The volume is staged: all that is left to do for a second pod is to publish it.
    let doomed = Doomed::at(&scene, KILLED_HOST, KILLED, MOUNTS)?;
    guest(&scene, "second").await?;
    doomed.died_in("MountVolume.SetUp failed").await?;
    writes(&scene, "second").await?;
    writer.end().await
}

pub(crate) async fn privileged_a_volume_goes_though_a_host_died_while_unstaging(
    scene: Scene,
) -> Outcome {
    let writer = Writer::begin_on(&scene, "killed-ext4", KILLED).await?;
    scene
        .claim(&Claim::new("guest", "killed-ext4", "16Mi"))
        .await?;
    guest(&scene, "first").await?;
    writes(&scene, "first").await?;
    let doomed = Doomed::at(&scene, KILLED_HOST, KILLED, FORGETS)?;
    let pods: Api<Pod> = scene.api();
    pods.delete("first", &DeleteParams::default())
        .await
        .map_err(Failure::cannot("delete the pod"))?;
    doomed.died_in("UnmountDevice failed").await?;
    // What it held is there for the next one, and what is left of it is asked at the end.
    guest(&scene, "second").await?;
    writes(&scene, "second").await?;
    let lines = scene.shell("second", "wc -l < /guest/file").await?;
    assert_eq!(lines.trim(), "2");
    writer.end().await
}

pub(crate) async fn privileged_a_pod_starts_though_a_mounter_died_while_staging(
    scene: Scene,
) -> Outcome {
    let writer = Writer::begin_on(&scene, "split", SPLIT).await?;
    scene.claim(&Claim::new("guest", "split", "16Mi")).await?;
    let doomed = Doomed::at(&scene, MOUNTER, SPLIT, MOUNTS)?;
    guest(&scene, "first").await?;
    doomed.died_in("MountVolume.MountDevice failed").await?;
    writes(&scene, "first").await?;
    writer.end().await
}
