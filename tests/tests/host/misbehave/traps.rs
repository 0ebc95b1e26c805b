//! Every function of the contract traps, and only its call fails. That it is every function is read from the contract itself.

use crate::misbehave::row::{Row, hold, rows};
use crate::misbehave::scene::{self, Scene};
use std::collections::BTreeSet;
use std::fs;
use tonic::Code;
use wasmount_tests::orchestrator::code;
use xtask::workspace::Workspace;

/// What calls cannot say is in settings.
const SETTINGS: &str =
    "  settings: { list-volumes: trap, list-snapshots: trap, get-node-info: trap }\n";

const TABLE: &[Row] = rows! {
    "trap" in Create: Internal, Fault("trapped in create-volume: ");
    "trap" in Delete: Internal, Fault("trapped in delete-volume: ");
    "trap" in Validate: Internal, Fault("trapped in validate-volume-capabilities: ");
    "trap" in Publish: Internal, Fault("trapped in controller-publish-volume: ");
    "trap" in Unpublish: Internal, Fault("trapped in controller-unpublish-volume: ");
    "trap" in Expand: Internal, Fault("trapped in expand-volume: ");
    "trap" in Modify: Internal, Fault("trapped in modify-volume: ");
    "trap" in List: Internal, Fault("trapped in list-volumes: ");
    "trap" in Get: Internal, Fault("trapped in get-volume: ");
    "trap" in Capacity: Internal, Fault("trapped in get-capacity: ");
    "trap" in CreateSnapshot: Internal, Fault("trapped in create-snapshot: ");
    "trap" in DeleteSnapshot: Internal, Fault("trapped in delete-snapshot: ");
    "trap" in GetSnapshot: Internal, Fault("trapped in get-snapshot: ");
    "trap" in ListSnapshots: Internal, Fault("trapped in list-snapshots: ");
    "trap" in CreateGroup: Internal, Fault("trapped in create-group-snapshot: ");
    "trap" in DeleteGroup: Internal, Fault("trapped in delete-group-snapshot: ");
    "trap" in GetGroup: Internal, Fault("trapped in get-group-snapshot: ");
    "trap" in Allocated: Internal, Fault("trapped in get-allocated: ");
    "trap" in Delta: Internal, Fault("trapped in get-delta: ");
    "trap" in NodeInfo: Internal, Fault("trapped in get-node-info: ");
    "trap" in NodePublish: Internal, Fault("trapped in node-publish: ");
};

/// Functions that trap elsewhere: in the test below, in `admission`, and the last two in the tests of the engine.
const ELSEWHERE: [&str; 8] = [
    "node-stage",
    "before-unstage",
    "get-volume-health",
    "get-plugin-info",
    "probe",
    "check-settings",
    "plan-migration",
    "migrate-records",
];

#[test]
fn privileged_a_trap_in_any_function_ends_that_call_alone() {
    scene::run(async {
        let scene = Scene::with(SETTINGS).await;
        hold(&scene, TABLE).await;
        scene.ends_whole().await;
    });
}

#[test]
fn privileged_a_trap_in_a_node_call_leaves_nothing() {
    scene::run(async {
        let scene = Scene::with("").await;
        let (driver, orchestrator) = (&scene.driver, &scene.driver.orchestrator);
        let volume = driver.volume("trap.in-health-and-unstage").await;
        let refused = orchestrator.stage_as(driver.stage(&volume, "trap")).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::Internal);
        let trapped = format!("{} trapped in node-stage: ", driver.label());
        assert!(refused.message().starts_with(&trapped), "{refused}");
        assert!(!scene.host.mounts().unwrap().contains(&volume.staging));

        orchestrator.stage(&volume).await.unwrap();
        orchestrator.publish(&volume).await.unwrap();
        // It asks the plugin how the volume is, which traps, and the answer is the kernel's.
        let stats = orchestrator
            .stats(&volume.id, &volume.target)
            .await
            .unwrap();
        assert!(!stats.usage.is_empty());
        orchestrator.unpublish(&volume).await.unwrap();
        // `before-unstage` traps as well.
        orchestrator.unstage(&volume).await.unwrap();
        assert_eq!(code(&orchestrator.delete(&volume.id).await), Code::Internal);
        fs::remove_dir(driver.pool.join(&volume.id)).unwrap();
        scene.goes_on("traps on the node").await;
        scene.ends_whole().await;
    });
}

#[test]
fn every_function_of_the_contract_is_in_a_table_of_traps() {
    let contract = Workspace::locate()
        .unwrap()
        .root()
        .join("guest-sdk/wit/wasmount.wit");
    let contract = fs::read_to_string(contract).unwrap();
    let exported = exported_functions(&contract);
    assert!(exported.len() > 20, "{exported:?}");
    let trapping = TABLE.iter().map(|row| match row.3 {
        crate::misbehave::row::Told::Fault(words) => words,
        other => panic!("{other:?}"),
    });
    let trapping = trapping.map(|words| {
        words
            .trim_start_matches("trapped in ")
            .trim_end_matches(": ")
    });
    let trapping: BTreeSet<&str> = trapping.chain(ELSEWHERE).collect();
    assert_eq!(exported, trapping);
}

/// Of all interfaces that the largest world exports: lines such as `  probe: func() -> ..;`.
fn exported_functions(contract: &str) -> BTreeSet<&str> {
    let world = contract.split("world full-plugin {").nth(1).unwrap();
    let exports = world
        .lines()
        .filter_map(|line| line.trim().strip_prefix("export "));
    exports
        .flat_map(|interface| {
            let begin = format!("\ninterface {} {{", interface.trim_end_matches(';'));
            let body = contract.split(&begin).nth(1).unwrap();
            let body = body.split("\n}").next().unwrap();
            let functions = body.lines().filter(|line| line.contains(": func("));
            functions.filter_map(|line| line.trim().split(':').next())
        })
        .collect()
}
