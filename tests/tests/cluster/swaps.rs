//! The code behind a live driver is changed by its object, and taken back by a command, while claims are bound and pods start. No pod, no sidecar
//! and no host restarts.

use crate::stage::Outcome;
use crate::writer::Writer;
use k8s_openapi::api::core::v1::Pod;
use std::cell::Cell;
use wasmount_tests::cluster::objects::{Claim, Volume};
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::swapped::{CLASS, SWAPPED, Swapped};

/// Swaps while pods come and go.
const SWAPS: usize = 12;

pub(crate) async fn privileged_an_object_is_swapped_and_rolled_back_under_pods(
    scene: Scene,
) -> Outcome {
    let swapped = Swapped::begin(&scene).await?;
    let writer = Writer::begin_on(&scene, CLASS, SWAPPED).await?;
    let before = swapped.processes()?;
    let builds = [swapped.build("one")?, swapped.build("two")?];

    let swapping = Cell::new(true);
    let pods = async {
        let mut started = 0;
        while swapping.get() {
            let name = format!("pod-{started}");
            let claim = name.clone().leak();
            scene.claim(&Claim::new(claim, CLASS, "16Mi")).await?;
            scene.pod(&name, &[Volume::Claim(claim)]).await?;
            let script = format!("echo {name} > /{claim}/file; cat /{claim}/file");
            let said = scene.shell(&name, &script).await?;
            assert_eq!(said.trim_end(), name);
            scene.delete::<Pod>(&name).await?;
            started += 1;
        }
        Ok::<_, xtask::failure::Failure>(started)
    };
    let swaps = async {
        let mut digests = Vec::new();
        for round in 0..SWAPS {
            digests.push(swapped.change_to(&builds[round % builds.len()]).await?);
        }
        let last = digests[SWAPS - 2].clone();
        let said = swapped.roll_back()?;
        let reason = swapped.condition("RolledBack").await?;
        assert_eq!(reason, "RolledBackByAdministrator");
        assert_eq!(swapped.digest().await?, Some(last), "{said}");
        // It stays there whatever happens to the object, until a swap by command.
        swapped.annotate("a look").await?;
        swapped.lift()?;
        swapped.condition("Ready").await?;
        digests.push(swapped.change_to(&swapped.build("three")?).await?);
        swapping.set(false);
        Ok::<_, xtask::failure::Failure>(digests)
    };
    let (started, digests) = tokio::join!(pods, swaps);
    let (started, digests) = (started?, digests?);
    assert!(started > 0);
    assert_eq!(digests.len(), SWAPS + 1);
    assert_eq!(digests[0], digests[2]);
    assert_ne!(digests[0], digests[1]);

    assert_eq!(swapped.processes()?, before);
    writer.end().await?;
    scene.end().await?;
    swapped.end().await
}
