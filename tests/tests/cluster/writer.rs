//! A pod that writes all the time, from before a fault until after it.

use crate::stage::Outcome;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use wasmount_tests::cluster::drivers::{Driver, HOSTPATH};
use wasmount_tests::cluster::objects::{Claim, Volume};
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait::NotYet;
use xtask::failure::Failure;

/// Writes a line every tenth of a second, and is distinguished from other processes by its file.
const WRITER: &str = "(while date >> /data/lines; do sleep 0.1; done) > /dev/null 2>&1 &";

/// Lines that show that writing goes on: two seconds of them.
pub(crate) const LINES: u64 = 20;

/// A pod that writes, from before a fault until after it.
pub(crate) struct Writer<'a> {
    scene: &'a Scene,
    class: &'static str,
    driver: Driver,
    uid: String,
}

impl<'a> Writer<'a> {
    /// Of an ext4 image of hostpath.
    pub(crate) async fn begin(scene: &'a Scene) -> Result<Self, Failure> {
        Self::begin_on(scene, "ext4", HOSTPATH).await
    }

    /// Of a class, and its driver.
    pub(crate) async fn begin_on(
        scene: &'a Scene,
        class: &'static str,
        driver: Driver,
    ) -> Result<Self, Failure> {
        scene.claim(&Claim::new("data", class, "16Mi")).await?;
        scene.pod("writer", &[Volume::Claim("data")]).await?;
        scene.shell("writer", WRITER).await?;
        let uid = pod(scene).await?.uid().unwrap();
        let writer = Self {
            scene,
            class,
            driver,
            uid,
        };
        writer.goes_on().await?;
        Ok(writer)
    }

    /// Waits for more lines, as the pod sees them.
    pub(crate) async fn goes_on(&self) -> Outcome {
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
    pub(crate) async fn lines(&self) -> Result<u64, Failure> {
        let count = async || Ok(self.scene.shell("writer", "wc -l < /data/lines").await?);
        let lines = self.scene.wait("the pod tells its lines", count).await?;
        Ok(lines.trim().parse().unwrap())
    }

    /// It still is the pod that it was, and a new one gets a volume, too.
    pub(crate) async fn end(self) -> Outcome {
        self.scene.lab().registered(&[self.driver]).await?;
        self.goes_on().await?;
        let now = pod(self.scene).await?;
        assert_eq!(now.uid().unwrap(), self.uid);
        let containers = now.status.unwrap().container_statuses.unwrap();
        assert_eq!(containers[0].restart_count, 0, "{containers:?}");
        self.scene
            .claim(&Claim::new("later", self.class, "16Mi"))
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
        .map_err(Failure::cannot("get the pod"))
}
