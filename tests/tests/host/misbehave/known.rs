//! That nothing is forgotten: what the plugin says that it can do wrong is what the tables test.

use crate::misbehave::scene::{self, Scene};
use crate::misbehave::{
    admission, answers, deletions, effects, facts, lists, plans, resources, row, second, secrets,
    state, unstage,
};
use std::collections::BTreeSet;
use wasmount_csi::wire::csi::v1::GetPluginInfoRequest;

/// Tested in `host/engine/tests/guest`: a call that the host cancels, which takes milliseconds here, secret options of the backend, sealed secrets, and
/// what no client calls (`cancellation_obeyed`, `plan`, `sealing` and `migration`). Facts of nodes are told in `tests/tests/api_server` and in `facts`
/// there, and a version with markup in `tests/tests/host/status_page`.
const ELSEWHERE: [&str; 18] = [
    "seal",
    "seal-and-tell",
    "backend-secret-by-name",
    "wait-until-cancelled",
    "nodes-told",
    "nqn-told",
    "multipath-told",
    "nodes-registered",
    "migrate",
    "migrate-and-forget",
    "write-in-migration",
    "pool-in-migration",
    "change-twice",
    "trap-in-migration",
    "spin-in-migration",
    "refuse-migration",
    "trap-in-plan",
    "markup-in-version",
];

#[test]
fn privileged_every_behaviour_of_the_plugin_is_in_a_table() {
    scene::run(async {
        let scene = Scene::with("").await;
        let mut identity = scene.driver.orchestrator.clients().identity;
        let info = identity
            .get_plugin_info(GetPluginInfoRequest {})
            .await
            .unwrap();
        let kinds = info.into_inner().manifest;
        let known: BTreeSet<&str> = kinds.values().flat_map(|names| names.split(' ')).collect();
        let tables = [
            resources::TABLE,
            answers::VOLUMES,
            answers::SNAPSHOTS,
            answers::NODES,
            plans::TABLE,
            state::TABLE,
            effects::TABLE,
            facts::TABLE,
            secrets::TABLE,
        ];
        let rows = tables.into_iter().flat_map(row::names);
        let tested: BTreeSet<&str> = rows
            .chain(plans::STAGED.iter().map(|row| row.0))
            .chain(unstage::TABLE.iter().map(|row| row.0))
            .chain(deletions::TABLE.iter().map(|row| row.0))
            .chain(admission::TABLE.iter().map(|row| row.0))
            .chain(lists::LISTED.iter().map(|row| row.0))
            .chain(second::NAMES)
            .chain(ELSEWHERE)
            .collect();
        let untested: Vec<_> = known.difference(&tested).collect();
        assert!(untested.is_empty(), "no test does {untested:?}");
        // Words that the plugin does not know are names of well-behaved ids, or numbers.
        let unknown: Vec<_> = tested.difference(&known).copied().collect();
        assert_eq!(unknown, ["0", "9223372036854775808", "behave"]);
        scene.ends_whole().await;
    });
}
