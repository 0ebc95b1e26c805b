//! Tells the controller of each driver what the document grants it of this node (`grants.nodes`): in this process where both services are served, else by
//! the API server.

use super::kubernetes::Cluster;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use wasmount_core::driver::{Driver, Role};
use wasmount_core::mounter::Mounter;
use wasmount_core::mutex::lock;
use wasmount_core::names::{DriverName, NodeId};
use wasmount_core::node_fact::NodeFact;
use wasmount_core::nodes::{Facts, ListedNode, NodeList, Nodes, NodesError};
use wasmount_engine::NodeFacts;
use wasmount_kubernetes::{KubernetesNodes, NodeFactsWriter};
use wasmount_versions::Desired;

/// Between two looks at the facts. 10 s: they are some small files, and an administrator who changes a name waits that long.
const LOOK_PAUSE: Duration = Duration::from_secs(10);
/// After this long facts that did not change are told again, since their object may have been deleted. 15 min: six requests a second of 5,000 nodes.
const TELL_AGAIN: Duration = Duration::from_secs(15 * 60);
/// Time limit of a look. 30 s: the metadata service has 10 s of it, and the config drive the rest.
const LOOK: Duration = Duration::from_secs(30);

/// Facts of this node, told by this process to itself.
pub(super) struct OwnNode {
    /// The name of its Node.
    name: String,
    told: Mutex<BTreeMap<DriverName, (NodeId, Facts)>>,
    changes: watch::Sender<()>,
}

/// Where facts of this node go.
#[derive(Clone)]
pub(super) enum Listener {
    /// The controller service of this process.
    Own(Arc<OwnNode>),
    /// Controllers elsewhere.
    Cluster(NodeFactsWriter),
}

/// What the task of one driver uses.
pub(super) struct Teller {
    pub(super) driver: Arc<Driver>,
    /// Its document says what the controller may read.
    pub(super) desired: watch::Receiver<Desired>,
    pub(super) node_facts: NodeFacts,
    pub(super) mounter: Arc<dyn Mounter>,
    pub(super) listener: Listener,
}

/// What was told last, and when.
type Told = Option<(NodeId, Facts, Instant)>;

#[async_trait]
impl Nodes for OwnNode {
    async fn facts(&self, driver: &DriverName, node: &NodeId) -> Result<Facts, NodesError> {
        match lock(&self.told).get(driver) {
            Some((own, facts)) if own == node => Ok(facts.clone()),
            Some(_) => Err(NodesError::NotFound {
                driver: driver.clone(),
                node: node.clone(),
            }),
            None => Err(NodesError::Unavailable {
                node: node.clone(),
                reason: "this host has just begun to look at them; try again".to_owned(),
            }),
        }
    }

    async fn list(&self, driver: &DriverName) -> NodeList {
        let mut changes = self.changes.subscribe();
        loop {
            let told = lock(&self.told).get(driver).cloned();
            if let Some((id, facts)) = told {
                let node = ListedNode {
                    uid: None,
                    id: Some(id),
                    facts: Some(facts),
                };
                return NodeList::from([(self.name.clone(), node)]);
            }
            // The sender lives in `self`.
            let _ = changes.changed().await;
        }
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

impl OwnNode {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            told: Mutex::default(),
            changes: watch::Sender::default(),
        }
    }

    fn tell(&self, driver: &DriverName, id: NodeId, facts: Facts) {
        lock(&self.told).insert(driver.clone(), (id, facts));
        self.changes.send_replace(());
    }
}

/// Where the controllers of this host find the facts of nodes; `own`: those of this node. None: nowhere.
pub(super) fn nodes(role: Role, own: &Arc<OwnNode>, cluster: &Cluster) -> Option<Arc<dyn Nodes>> {
    match (role, &cluster.client) {
        (Role::Node, _) | (Role::Controller, None) => None,
        (Role::All, _) => Some(Arc::clone(own) as Arc<dyn Nodes>),
        (Role::Controller, Some(client)) => Some(Arc::new(KubernetesNodes::new(client.clone()))),
    }
}

impl Listener {
    /// None: nobody listens, since this host serves no node, or reaches no API server.
    pub(super) fn of(role: Role, own: &Arc<OwnNode>, cluster: &Cluster) -> Option<Self> {
        match (role, &cluster.client) {
            (Role::Controller, _) | (Role::Node, None) => None,
            (Role::All, _) => Some(Self::Own(Arc::clone(own))),
            (Role::Node, Some(client)) => {
                let writer = NodeFactsWriter::new(client.clone(), cluster.node_name.clone());
                Some(Self::Cluster(writer))
            }
        }
    }
}

impl Teller {
    /// Tells the facts at once, and upon each change; never returns.
    pub(super) async fn run(mut self) {
        let mut answers = self.driver.node_info_answers();
        let (mut told, mut failed) = (None, false);
        loop {
            let facts = self
                .desired
                .borrow_and_update()
                .document
                .grants
                .nodes
                .clone();
            let id = answers
                .borrow_and_update()
                .as_ref()
                .map(|info| info.id.clone());
            // What is no longer granted is taken back. A node without facts may have to be registered.
            let is_own = matches!(self.listener, Listener::Own(_));
            let has_to_tell = is_own || !facts.is_empty() || told.is_some();
            if let (Some(id), true) = (id, has_to_tell) {
                match self.look(&mut told, id, &facts).await {
                    Ok(()) => failed = false,
                    Err(reason) if !std::mem::replace(&mut failed, true) => {
                        let driver = self.driver.name();
                        tracing::warn!(%driver, reason, "facts of the node are not told to the controller: retrying");
                    }
                    Err(_) => {}
                }
            }
            tokio::select! {
                () = sleep(LOOK_PAUSE) => {}
                // The sender lives in the driver.
                _ = answers.changed() => {}
                changed = self.desired.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }

    async fn look(
        &self,
        told: &mut Told,
        id: NodeId,
        granted: &BTreeSet<NodeFact>,
    ) -> Result<(), String> {
        let driver = self.driver.name();
        let deadline = Instant::now() + LOOK;
        let known = self
            .node_facts
            .known(granted, driver, &self.mounter, deadline)
            .await;
        if !is_due(told, &id, &known, Instant::now()) {
            return Ok(());
        }
        match &self.listener {
            Listener::Own(own) => {
                own.tell(driver, id.clone(), known.clone());
            }
            Listener::Cluster(writer) => {
                let written = writer.tell(driver, &known).await;
                written.map_err(|error| error.describe())?;
            }
        }
        *told = Some((id, known, Instant::now()));
        Ok(())
    }
}

fn is_due(told: &Told, id: &NodeId, facts: &Facts, now: Instant) -> bool {
    told.as_ref().is_none_or(|(told_id, told_facts, at)| {
        (told_id, told_facts) != (id, facts) || now.duration_since(*at) >= TELL_AGAIN
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::node_fact::FactValues;

    fn id(id: &str) -> NodeId {
        NodeId::parse("id", id).unwrap()
    }

    fn facts(iqn: &str) -> Facts {
        let values = FactValues::try_from(vec![iqn.to_owned()]).unwrap();
        Facts::from([(NodeFact::Iqn, values)])
    }

    #[test]
    fn facts_are_told_at_first_upon_change_and_rarely() {
        let now = Instant::now();
        let told = Some((id("n"), facts("iqn.a"), now));
        assert!(is_due(&None, &id("n"), &facts("iqn.a"), now));
        assert!(!is_due(&told, &id("n"), &facts("iqn.a"), now + LOOK_PAUSE));
        assert!(is_due(&told, &id("n"), &facts("iqn.b"), now));
        assert!(is_due(&told, &id("m"), &facts("iqn.a"), now));
        assert!(is_due(&told, &id("n"), &facts("iqn.a"), now + TELL_AGAIN));
    }

    #[tokio::test]
    async fn a_host_of_both_services_knows_its_own_node_only() {
        let driver = DriverName::parse("a.example").unwrap();
        let own = OwnNode::new("node".to_owned());
        let untold = own.facts(&driver, &id("n")).await.unwrap_err();
        assert!(matches!(untold, NodesError::Unavailable { .. }), "{untold}");
        let changes = own.changes();
        own.tell(&driver, id("n"), facts("iqn.a"));
        assert!(changes.has_changed().unwrap());
        let listed = own.list(&driver).await.remove("node").unwrap();
        assert_eq!(listed.id, Some(id("n")));
        assert_eq!(listed.facts, Some(facts("iqn.a")));
        assert_eq!(own.facts(&driver, &id("n")).await, Ok(facts("iqn.a")));
        let other = own.facts(&driver, &id("m")).await.unwrap_err();
        assert!(matches!(other, NodesError::NotFound { .. }), "{other}");
    }
}
