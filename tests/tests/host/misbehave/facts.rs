//! Facts of the node: for the node service, by grant, and only those that there are.

use crate::misbehave::row::{Row, hold, rows};
use crate::misbehave::scene::{self, Scene};

pub(crate) const TABLE: &[Row] = rows! {
    "fact-of-controller" in Create: FailedPrecondition, Words("facts of the node are available in calls of the node service only");
    "fact-not-granted" in NodePublish: PermissionDenied, Fault("add it to grants.nodeFacts");
    "fact-unknown" in NodePublish: Internal, Fault("`iqn\\u{1b}` is no fact of the node that this host knows; known are `instance-id`, `zone`, `iqn`");
    "nodes-of-node" in NodePublish: FailedPrecondition, Words("facts of other nodes are available in calls of the controller service only");
    "nodes-not-granted" in Create: PermissionDenied, Fault("add it to grants.nodes");
    "nodes-unknown" in Create: Internal, Fault("`serial` is no fact of the node that this host knows");
};

#[test]
fn privileged_facts_of_the_node_are_for_those_who_may_know() {
    scene::run(async {
        let scene = Scene::with("").await;
        hold(&scene, TABLE).await;
        scene.ends_whole().await;
    });
}
