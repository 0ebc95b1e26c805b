//! Compaction of etcd, which only its operator does, through etcd's own API (its JSON gateway).

use serde_json::{Value, json};
use xtask::cluster::Cluster;
use xtask::command;
use xtask::failure::Failure;

/// Number of changes after which every version that a client watches from is in the past.
const CHANGES: usize = 10;

/// A key that no API server reads: theirs begin with `/registry`. In Base64, as the gateway requires.
const KEY: &str = "d2FzbW91bnQ=";

/// Compacts etcd: all versions of objects but the latest are removed.
pub fn forget(cluster: &Cluster) -> Result<(), Failure> {
    let mut latest = Value::Null;
    for _ in 0..CHANGES {
        let put = ask(cluster, "put", &json!({ "key": KEY, "value": KEY }))?;
        latest = put.pointer("/header/revision").cloned().unwrap_or_default();
    }
    let compact = json!({ "revision": latest, "physical": true });
    ask(cluster, "compaction", &compact).map(drop)
}

fn ask(cluster: &Cluster, what: &str, request: &Value) -> Result<Value, Failure> {
    let mut wget = cluster.enter("busybox");
    wget.args(["wget", "-q", "-O", "-", "--post-data"]);
    wget.arg(request.to_string());
    let said = command::read(wget.arg(format!("{}/v3/kv/{what}", cluster.etcd())))?;
    serde_json::from_str(&said)
        .map_err(|error| Failure::Unexpected(format!("etcd said {said:?} to {what}: {error}")))
}
