//! A plugin that answers otherwise the second time. What the host keeps stands; what only the plugin knows is the client's to see.

use crate::misbehave::call::Call;
use crate::misbehave::scene::{self, Scene};
use wasmount_csi::wire::csi::v1::GetPluginInfoRequest;

/// Told by settings, by parameters, by contexts.
pub(crate) const NAMES: [&str; 4] = [
    "other-node-each-time",
    "other-version-each-time",
    "other-id-each-time",
    "other-source-each-time",
];

#[test]
fn privileged_the_first_node_description_survives_restart() {
    scene::run(async {
        let mut scene = Scene::with("  settings: { get-node-info: other-node-each-time }\n").await;
        let first = Call::NodeInfo.with(&scene.driver, "").await.unwrap();
        assert_eq!(Call::NodeInfo.with(&scene.driver, "").await.unwrap(), first);
        scene.restarts().await;
        assert_eq!(Call::NodeInfo.with(&scene.driver, "").await.unwrap(), first);
        let log = scene.host.log();
        assert!(log.contains("node-info returned another id or topology"));
        scene.goes_on("another node").await;
        scene.ends_whole().await;
    });
}

#[test]
fn privileged_a_version_is_the_one_of_admission() {
    scene::run(async {
        let scene = Scene::with("  settings: { behaviour: other-version-each-time }\n").await;
        let mut identity = scene.driver.orchestrator.clients().identity;
        let mut ask = async || {
            identity
                .get_plugin_info(GetPluginInfoRequest {})
                .await
                .unwrap()
                .into_inner()
        };
        let first = ask().await;
        assert_eq!(ask().await, first);
        scene.goes_on("another version").await;
        scene.ends_whole().await;
    });
}

#[test]
fn privileged_a_staged_volume_is_not_planned_again() {
    scene::run(async {
        let scene = Scene::with("").await;
        let (driver, orchestrator) = (&scene.driver, &scene.driver.orchestrator);
        let volume = driver.volume("behave.planned-once").await;
        let stage = driver.stage(&volume, "other-source-each-time");
        orchestrator.stage_as(stage.clone()).await.unwrap();
        orchestrator.publish(&volume).await.unwrap();
        volume.write("kept").unwrap();
        orchestrator.stage_as(stage).await.unwrap();
        // The plugin is not called: not even for a plan that would be refused.
        orchestrator
            .stage_as(driver.stage(&volume, "two-sources"))
            .await
            .unwrap();
        assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
        orchestrator.tear_down(&volume).await.unwrap();
        scene.goes_on("another plan").await;
        scene.ends_whole().await;
    });
}

/// Which volume a name means only the plugin knows. Each id is a volume of its own to the host, and can be deleted.
#[test]
fn privileged_another_id_for_the_same_name_is_another_volume() {
    scene::run(async {
        let scene = Scene::with("").await;
        let mut answers = Vec::new();
        for _ in 0..2 {
            answers.push(
                Call::Create
                    .with(&scene.driver, "other-id-each-time")
                    .await
                    .unwrap(),
            );
        }
        let [first, second] = answers.try_into().unwrap();
        assert_ne!(first, second);
        for answer in [first, second] {
            let id = answer
                .split("volume_id: \"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            Call::Delete.with(&scene.driver, id.unwrap()).await.unwrap();
        }
        scene.goes_on("another id").await;
        scene.ends_whole().await;
    });
}
