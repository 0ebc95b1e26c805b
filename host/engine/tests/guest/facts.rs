//! Facts of the node: which calls read them, by which grant.

use crate::harness::{Fixture, attributes, call, misbehave, mounted, parts, volume_id};
use crate::memory::Memory;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{Backend, BackendError, NodeStage};
use wasmount_core::code::Code;
use wasmount_core::document::Limits;
use wasmount_core::names::{DriverName, NodeId};
use wasmount_core::node_fact::{FactValues, NodeFact};
use wasmount_core::nodes::{Facts, NodeList, Nodes, NodesError};
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_engine::{BackendParts, NodeFacts};
use wasmount_network::Network;

/// Hosts of nodes: what that of the node told; none: there is no such node.
pub(crate) struct Told(pub(crate) Option<Facts>);

#[async_trait]
impl Nodes for Told {
    async fn facts(&self, driver: &DriverName, node: &NodeId) -> Result<Facts, NodesError> {
        self.0.clone().ok_or_else(|| NodesError::NotFound {
            driver: driver.clone(),
            node: node.clone(),
        })
    }
    async fn list(&self, _: &DriverName) -> NodeList {
        NodeList::new()
    }
    fn changes(&self) -> watch::Receiver<()> {
        watch::Sender::default().subscribe()
    }
}

/// The plugin, with these facts for its node service, and those for its controller.
async fn plugin(own: &[NodeFact], of_nodes: &[NodeFact], node_facts: NodeFacts) -> Fixture {
    let memory = Arc::new(Memory::default());
    let parts = BackendParts {
        granted_facts: own.iter().copied().collect::<BTreeSet<_>>(),
        granted_of_nodes: of_nodes.iter().copied().collect(),
        node_facts,
        settings: attributes(&[("register-node", "record")]),
        ..parts(&memory, Limits::default(), Secrets::default())
    };
    let begun = call(Rpc::GetPluginInfo, Duration::from_secs(60));
    let candidate = misbehave().await.prepare(parts, &begun).await.unwrap();
    let info = candidate.plugin_info(&begun).await.unwrap();
    Fixture::around(candidate.into_backend(info, []), memory)
}

/// What the controller of the plugin is told, which it repeats as an error.
async fn ask_controller(of_nodes: &[NodeFact], node_facts: NodeFacts) -> (Code, String) {
    let fixture = plugin(&[], of_nodes, node_facts).await;
    match fixture.create("nodes-told").await.unwrap_err() {
        BackendError::Answered { code, message } => (code, message),
        BackendError::Refused { code, reason, .. } => (code, reason),
        other => panic!("{other:?}"),
    }
}

/// Stages a volume with a plugin that reads the zone meanwhile.
async fn read_zone(
    granted: &[NodeFact],
    given: BTreeMap<NodeFact, Vec<String>>,
) -> Result<(), BackendError> {
    let fixture = plugin(granted, &[], NodeFacts::given(given)).await;
    let args = NodeStage {
        id: volume_id("volume-1"),
        capability: mounted(),
        publish_context: Attributes::default(),
        volume_context: attributes(&[("behaviour", "fact-not-granted")]),
    };
    let staged = fixture.call(Rpc::NodeStageVolume);
    fixture.backend.node_stage(&staged, args).await.map(drop)
}

#[tokio::test]
async fn a_granted_fact_is_told_in_a_node_call() {
    let zone = BTreeMap::from([(NodeFact::Zone, vec!["zone-a".to_owned()])]);
    assert!(read_zone(&[NodeFact::Zone], zone.clone()).await.is_ok());
    let none = BTreeMap::from([(NodeFact::Zone, Vec::new())]);
    assert!(read_zone(&[NodeFact::Zone], none).await.is_ok());
    match read_zone(&[NodeFact::InstanceId], zone).await {
        Err(BackendError::Refused { code, reason, .. }) => {
            assert_eq!(code, Code::PermissionDenied);
            assert!(reason.contains("grants.nodeFacts"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_fact_that_is_not_given_is_unavailable() {
    match read_zone(&[NodeFact::Zone], BTreeMap::new()).await {
        Err(BackendError::Answered { code, message }) => {
            assert_eq!(code, Code::Unavailable);
            assert!(message.contains("--node-fact zone=VALUE"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn facts_of_any_node_are_told_in_a_controller_call() {
    let iqn = FactValues::try_from(vec!["iqn.a".to_owned()]).unwrap();
    let told = Facts::from([(NodeFact::Iqn, iqn)]);
    let nodes = |facts: Option<Facts>| {
        let known = NodeFacts::of_node(Network::new(Vec::new()));
        known.with_nodes(Arc::new(Told(facts)))
    };
    let granted = [NodeFact::Iqn];
    let (code, message) = ask_controller(&granted, nodes(Some(told.clone()))).await;
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.ends_with(r#"told: ["iqn.a"]"#), "{message}");
    // One that its host has not told is not known, and is not none.
    let (code, message) = ask_controller(&granted, nodes(Some(Facts::new()))).await;
    assert_eq!(code, Code::Unavailable);
    assert!(message.contains("has not told this one"), "{message}");
    let (code, message) = ask_controller(&[NodeFact::Nqn], nodes(Some(told))).await;
    assert_eq!(code, Code::PermissionDenied);
    assert!(message.contains("grants.nodes"), "{message}");
    let (code, message) = ask_controller(&granted, nodes(None)).await;
    assert_eq!(code, Code::NotFound);
    assert!(message.contains("has the id `test-node`"), "{message}");
}

#[tokio::test]
async fn without_hosts_of_nodes_their_facts_are_unavailable() {
    let alone = NodeFacts::of_node(Network::new(Vec::new()));
    let (code, message) = ask_controller(&[NodeFact::Iqn], alone).await;
    assert_eq!(code, Code::Unavailable);
    assert!(message.contains("--kubeconfig"), "{message}");
    let given = BTreeMap::from([(NodeFact::Iqn, vec!["iqn.b".to_owned()])]);
    let (_, message) = ask_controller(&[NodeFact::Iqn], NodeFacts::given(given)).await;
    assert!(message.ends_with(r#"told: ["iqn.b"]"#), "{message}");
}

#[tokio::test]
async fn a_node_is_registered_by_its_facts_and_unregistered() {
    let iqn = FactValues::try_from(vec!["iqn.a".to_owned()]).unwrap();
    let told = Told(Some(Facts::from([(NodeFact::Iqn, iqn)])));
    let known = NodeFacts::of_node(Network::new(Vec::new())).with_nodes(Arc::new(told));
    let fixture = plugin(&[], &[NodeFact::Iqn], known.clone()).await;
    let registered = async || match fixture.create("nodes-registered").await.unwrap_err() {
        BackendError::Answered { message, .. } => message,
        other => panic!("{other:?}"),
    };
    let node = NodeId::parse("node_id", "test-node").unwrap();
    let (backend, call) = (&fixture.backend, fixture.call(Rpc::RegisterNode));
    backend.register_node(&call, node.clone()).await.unwrap();
    assert_eq!(registered().await, "registered: [test-node=iqn.a]");
    let call = fixture.call(Rpc::UnregisterNode);
    for _ in 0..2 {
        backend.unregister_node(&call, node.clone()).await.unwrap();
        assert_eq!(registered().await, "registered: []");
    }

    // Without the grant it learns nothing of the node.
    let fixture = plugin(&[], &[], known).await;
    let call = fixture.call(Rpc::RegisterNode);
    match fixture.backend.register_node(&call, node).await {
        Err(BackendError::Refused { code, reason, .. }) => {
            assert_eq!(code, Code::PermissionDenied);
            assert!(reason.contains("grants.nodes"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}
