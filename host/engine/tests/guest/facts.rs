//! Facts of the node: which calls read them, by which grant.

use crate::harness::{Fixture, attributes, call, misbehave, mounted, parts, volume_id};
use crate::memory::Memory;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{Backend, BackendError, NodeStage};
use wasmount_core::code::Code;
use wasmount_core::document::Limits;
use wasmount_core::node_fact::NodeFact;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_engine::{BackendParts, NodeFacts};

/// Stages a volume with a plugin that reads the zone meanwhile.
async fn read_zone(
    granted: &[NodeFact],
    given: BTreeMap<NodeFact, Vec<String>>,
) -> Result<(), BackendError> {
    let memory = Arc::new(Memory::default());
    let parts = BackendParts {
        granted_facts: granted.iter().copied().collect::<BTreeSet<_>>(),
        node_facts: NodeFacts::given(given),
        ..parts(&memory, Limits::default(), Secrets::default())
    };
    let begun = call(Rpc::GetPluginInfo, Duration::from_secs(60));
    let candidate = misbehave().await.prepare(parts, &begun).await.unwrap();
    let info = candidate.plugin_info(&begun).await.unwrap();
    let fixture = Fixture::around(candidate.into_backend(info, []), memory);
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
