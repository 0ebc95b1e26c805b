//! Volumes of one pod: no claim, no controller; they come and go with it, and know whose they are.

use crate::stage::Outcome;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use wasmount_tests::cluster::drivers::{HOSTPATH, PODFILES};
use wasmount_tests::cluster::objects::Volume;
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait::NotYet;
use xtask::failure::Failure;

/// A volume of podfiles as the pod calls it.
fn info() -> Volume {
    Volume::Inline {
        name: "info",
        driver: PODFILES.name,
        attributes: Value::Null,
    }
}

pub(crate) async fn privileged_an_inline_volume_is_memory_and_goes_with_its_pod(
    scene: Scene,
) -> Outcome {
    let scratch = Volume::Inline {
        name: "scratch",
        driver: HOSTPATH.name,
        attributes: json!({ "size": "8Mi" }),
    };
    scene.pod("user", std::slice::from_ref(&scratch)).await?;
    let said = scene
        .shell("user", "stat -f -c %T /scratch; df -Pk /scratch | awk 'NR == 2 { print $2 }'; ls -A /scratch; echo x > /scratch/file")
        .await?;
    assert_eq!(said, "tmpfs\n8192\n");
    scene.delete::<Pod>("user").await?;
    scene.pod("user", &[scratch]).await?;
    assert_eq!(scene.shell("user", "ls -A /scratch").await?, "");
    Ok(())
}

pub(crate) async fn privileged_a_pod_finds_who_it_is_in_files_of_its_group(
    scene: Scene,
) -> Outcome {
    let settings =
        json!({ "securityContext": { "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2345 } });
    scene.pod_with("user", &[info()], &settings).await?;
    scene.ready("user").await?;
    let pods: Api<Pod> = scene.api();
    let uid = pods
        .get("user")
        .await
        .map_err(Failure::cannot("get the pod"))?
        .uid()
        .unwrap();
    let said = scene
        .shell("user", "cd /info; for it in name namespace uid service-account; do cat pod/$it; echo; done; stat -Lc %g token; wc -c < token")
        .await?;
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(
        lines[..5],
        ["user", scene.namespace(), &uid, "default", "2345"],
        "{said}"
    );
    // A token of a service account has three parts; it opens with its header, which is JSON.
    let token = scene.shell("user", "cat /info/token").await?;
    assert!(token.starts_with("eyJ") && token.split('.').count() == 3);
    Ok(())
}

pub(crate) async fn privileged_a_running_pod_gets_tokens_it_did_not_start_with(
    scene: Scene,
) -> Outcome {
    scene.pod("user", &[info()]).await?;
    let list = "ls -A /info/tokens 2>/dev/null || true";
    assert_eq!(scene.shell("user", list).await?, "");
    let drivers: Api<CSIDriver> = Api::all(scene.client());
    let more = json!({ "spec": { "tokenRequests": [
        { "audience": "", "expirationSeconds": 3600 }, { "audience": "vault", "expirationSeconds": 3600 },
    ] } });
    drivers
        .patch(PODFILES.name, &PatchParams::default(), &Patch::Merge(more))
        .await
        .map_err(Failure::cannot("ask for more tokens"))?;
    scene
        .wait(
            "kubelet publishes again, with the token that is new",
            async || {
                let found = scene.shell("user", list).await?;
                if found == "vault\n" {
                    Ok(())
                } else {
                    Err(NotYet(found))
                }
            },
        )
        .await
}
