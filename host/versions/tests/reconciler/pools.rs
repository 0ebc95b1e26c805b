//! Granted pools of the running version are opened, and those that cannot be opened are reported.

use crate::bench::*;
use serde_json::{Value, json};
use std::time::Duration;
use wasmount_core::driver::Role;
use wasmount_core::status::Phase;

const WARNING: &str =
    "spec.grants.pools.missing.path: the pool cannot be used: /nowhere/pool is missing: make it";

fn granting() -> Value {
    json!({ "grants": { "pools": {
        "missing": { "path": "/nowhere/pool" },
        "volumes": { "path": "/srv/volumes" },
    } } })
}

/// The calls about pools; the other calls are about records.
fn pools_asked(bench: &Bench) -> Vec<String> {
    let mut events = bench.memory.events();
    events.retain(|event| event.starts_with("pool "));
    events
}

#[tokio::test]
async fn an_unopenable_pool_is_a_warning() {
    let asked = ["missing", "volumes"].map(|pool| format!("pool Capacity {{ pool: \"{pool}\" }}"));
    for role in [Role::All, Role::Controller] {
        let bench = Bench::starting_as(role, "directory", granting()).await;
        let status = bench.until("it warns", |it| !it.warnings.is_empty()).await;
        assert_eq!(status.warnings, [WARNING], "{role:?}");
        assert_eq!(pools_asked(&bench), asked, "{role:?}");
    }
}

#[tokio::test]
async fn a_host_of_a_node_alone_opens_no_pool() {
    let bench = Bench::starting_as(Role::Node, "directory", granting()).await;
    bench.until("it serves", |it| it.version.is_some()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(pools_asked(&bench), [""; 0]);
}

#[tokio::test]
async fn a_plugin_that_is_refused_opens_no_pool() {
    let mut spec = granting();
    spec["settings"] = behaving("bad-settings")["settings"].clone();
    let bench = Bench::starting("misbehave", spec).await;
    let waits = |it: &wasmount_core::status::DriverStatus| it.phase == Phase::Waiting;
    bench.until("it waits", waits).await;
    assert_eq!(pools_asked(&bench), [""; 0]);
}
