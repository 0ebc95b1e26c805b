//! Every interface of the contract, through the golden guest that uses all of them: `wasmount call` gets the answers, plans and log lines from it that it
//! got when the guest was recorded. The two that no RPC leads to are called in `host/engine/tests/guest/golden.rs`.

use super::lines;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use wasmount_tests::compiled::CommandCache;
use xtask::workspace::Workspace;

/// The guest.
pub(super) const GUEST: &str = "rust-all-interfaces.wasm";

/// The calls in their order, each standing on the records of those before, and what they are answered.
const CALLS: &str = include_str!("all_interfaces.json");

/// What is compared of a call: nothing that depends on the machine.
const COMPARED: [&str; 5] = ["codeName", "message", "responses", "plans", "log"];

/// The package of the contract, before the names of its interfaces.
const PACKAGE: &str = "wasmount:csi/";

/// Interfaces of types alone: a component need not name them.
const TYPES: &str = "types";

/// The secrets of the document. Sealed texts depend on the last one, and on the driver's name.
const SECRETS: [(&str, &str); 4] = [
    ("key", "key-of-a-volume-key-of-a-volume"),
    ("user", "array"),
    ("password", "hunter22hunter22"),
    ("seal", "0123456789abcdef0123456789abcdef"),
];

/// The document of the guest, which grants each of its plans.
const SPEC: &str = r#"
apiVersion: wasmount.io/v1alpha1
kind: StorageBackend
metadata: { name: all-interfaces }
spec:
  driverName: all-interfaces.wasmount.io
  settings: { colour: red }
  secrets: { key: { file: key }, user: { file: user }, password: { file: password }, seal: { file: seal } }
  csiDriver: { volumeLifecycleModes: [Persistent, Ephemeral] }
  grants:
    pools: { volumes: { path: pools/all-interfaces } }
    filesystems: [{ type: ceph, sources: ["192.0.2.1:/a"], mountOptions: [token, key, secret, name] }, { type: tmpfs }]
    devices:
      - { facts: { by-id: "disk-*", serial: a } }
      - { facts: { by-id: "disk-*" }, rescan: true }
      - { facts: { wwid: "naa.*" }, rescan: true }
    attach:
      - { protocol: iscsi, portals: ["192.0.2.0/24:3260"], targets: ["iqn.2026-01.example:*"] }
      - { protocol: nvme-tcp, addresses: ["192.0.2.0/24:4420"], subsystems: ["nqn.2026-01.example:*"] }
      - { protocol: rbd, monitors: ["192.0.2.0/24:6789"], pools: ["kubernetes/*"] }
    nodeFacts: [instance-id, zone]
    nodes: [iqn, nqn, addresses]
    sealing: { secret: seal }
  plugin: "#;

/// What the node tells of itself.
const FACTS: [&str; 6] = [
    "instance-id=i-1",
    "zone=z",
    "iqn=iqn.a",
    "nqn=nqn.a",
    "addresses=192.0.2.9",
    "addresses=192.0.2.10",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    rpc: String,
    request: Value,
    answer: Value,
}

/// The program over one guest, with records and a pool of its own.
struct Bench {
    component: PathBuf,
    cache: CommandCache,
    folder: TempDir,
}

impl Bench {
    fn of(component: PathBuf) -> Self {
        let cache = CommandCache::of(&[&component]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (name, value) in SECRETS {
            fs::write(folder.path().join(name), value).unwrap();
        }
        let document = format!("{SPEC}{{ path: {component:?} }}\n");
        fs::write(folder.path().join("backend.yaml"), document).unwrap();
        Self {
            component,
            cache,
            folder,
        }
    }

    /// What a command of the program prints about the guest.
    fn run(&self, command: &str, more: &[&str]) -> Value {
        let mut program = Command::new(Workspace::locate().unwrap().host_program());
        program.arg(command).arg(&self.component).args(more);
        program.arg("--json").current_dir(self.folder.path());
        program.env("WASMOUNT_CACHE", self.cache.path());
        let output = program.output().unwrap();
        let printed = serde_json::from_slice(&output.stdout);
        printed.unwrap_or_else(|error| panic!("{command} {more:?}: {error}: {output:?}"))
    }

    /// What is compared of a call; without what is empty.
    fn call(&self, call: &Call) -> Value {
        let request = call.request.to_string();
        let mut words = vec![call.rpc.as_str(), &request, "--csi-profile", "1.13"];
        words.extend(["--backend", "backend.yaml", "--state", "records.json"]);
        words.extend(["--pools", "pools"]);
        words.extend(FACTS.iter().flat_map(|fact| ["--node-fact", fact]));
        let printed = self.run("call", &words);
        let is_empty = |value: &Value| [Value::Null, json!([]), json!("")].contains(value);
        let compared = COMPARED.map(|key| (key.to_owned(), printed[key].clone()));
        let compared = compared.into_iter().filter(|(_, value)| !is_empty(value));
        Value::Object(compared.collect::<Map<_, _>>())
    }

    /// The interfaces of the contract that the guest imports or exports.
    fn interfaces(&self) -> BTreeSet<String> {
        let inspected = self.run("inspect", &[]);
        let names = ["imports", "exports"].map(|key| inspected[key].as_array().unwrap().clone());
        let names = names.iter().flatten().map(|name| name.as_str().unwrap());
        let names = names.filter_map(|name| name.strip_prefix(PACKAGE)?.split('@').next());
        names.map(str::to_owned).collect()
    }
}

/// The guest of each line.
fn benches() -> Vec<(String, BTreeSet<String>, Bench)> {
    let workspace = Workspace::locate().unwrap();
    let benches = lines(&workspace).into_iter().map(|line| {
        let component = line.component(&workspace, GUEST).unwrap();
        assert!(Path::new(&component).exists(), "{}", line.advice());
        (line.name(), line.frozen(), Bench::of(component))
    });
    benches.collect()
}

#[test]
fn a_golden_guest_uses_every_frozen_interface() {
    for (line, mut frozen, bench) in benches() {
        frozen.remove(TYPES);
        let used = bench.interfaces();
        let missing: Vec<_> = frozen.difference(&used).collect();
        assert_eq!(missing, [""; 0], "{line}");
    }
}

#[test]
fn every_interface_answers_a_golden_guest_as_before() {
    let calls: Vec<Call> = serde_json::from_str(CALLS).unwrap();
    for (line, _, bench) in benches() {
        for call in &calls {
            let answer = bench.call(call);
            assert_eq!(answer, call.answer, "{line}: {} {}", call.rpc, call.request);
        }
    }
}
