//! The two interfaces of golden guests that no RPC leads to: `node-register` and `state-migration`. `tests/tests/artifacts/golden.rs` has all others.

use crate::facts::Told;
use crate::harness::{Fixture, call, engine, parts};
use crate::log::logged_while;
use crate::memory::Memory;
use crate::migration::{put, record};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wasmount_core::backend::Backend;
use wasmount_core::document::Limits;
use wasmount_core::migration::{Migration, StateChanges};
use wasmount_core::names::NodeId;
use wasmount_core::node_fact::{FactValues, NodeFact};
use wasmount_core::nodes::Facts;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_engine::{BackendParts, NodeFacts};
use wasmount_network::Network;

/// The guest that uses every interface, below the folder of a line.
const GUEST: &str = "rust-all-interfaces.wasm";
/// The version before it.
const FROM: &str = "0.0.9";
const BUDGET: Duration = Duration::from_secs(60);

/// The guests of all lines of the contract.
fn guests() -> Vec<PathBuf> {
    let lines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let lines = fs::read_dir(lines).unwrap();
    let guests = lines.map(|line| line.unwrap().path().join(GUEST));
    guests.collect()
}

/// A guest whose controller may read the names of nodes in iSCSI.
async fn golden(guest: &Path) -> Fixture {
    let iqn = FactValues::try_from(vec!["iqn.a".to_owned()]).unwrap();
    let told = Told(Some(Facts::from([(NodeFact::Iqn, iqn)])));
    let memory = Arc::new(Memory::default());
    let parts = BackendParts {
        granted_of_nodes: BTreeSet::from([NodeFact::Iqn]),
        node_facts: NodeFacts::of_node(Network::new(Vec::new())).with_nodes(Arc::new(told)),
        ..parts(&memory, Limits::default(), Secrets::default())
    };
    let component = engine().load(fs::read(guest).unwrap()).await.unwrap();
    let begun = call(Rpc::GetPluginInfo, BUDGET);
    let candidate = component.prepare(parts, &begun).await.unwrap();
    let info = candidate.plugin_info(&begun).await.unwrap();
    Fixture::around(candidate.into_backend(info, []), memory)
}

#[tokio::test]
async fn golden_guests_migrate_records_as_before() {
    let guests = guests();
    assert!(!guests.is_empty());
    for guest in guests {
        let backend = golden(&guest).await.backend;
        assert!(backend.has_migration());
        let begun = call(Rpc::GetPluginInfo, BUDGET);
        let plan = backend.plan_migration(&begun, FROM).await;
        assert_eq!(plan.unwrap(), Migration::Additive);
        let page = [record("a", "1"), record("b", "2")];
        let changes = backend.migrate(&begun, FROM, &page).await.unwrap();
        let expected = StateChanges::from([put("migrated", "2 records of 0.0.9")]);
        assert_eq!(changes, expected);
    }
}

#[tokio::test]
async fn golden_guests_register_nodes_as_before() {
    for guest in guests() {
        let fixture = golden(&guest).await;
        let node = NodeId::parse("node_id", "test-node").unwrap();
        let log = logged_while(async {
            let call = fixture.call(Rpc::RegisterNode);
            let registered = fixture.backend.register_node(&call, node.clone()).await;
            registered.unwrap();
            let call = fixture.call(Rpc::UnregisterNode);
            fixture.backend.unregister_node(&call, node).await.unwrap();
        })
        .await;
        let lines: Vec<_> = log.lines().collect();
        let [registered, unregistered] = lines.try_into().unwrap();
        for (line, words) in [
            (registered, "registered"),
            (registered, "iqn.a"),
            (unregistered, "unregistered"),
        ] {
            assert!(line.contains(words) && line.contains("test-node"), "{log}");
        }
    }
}
