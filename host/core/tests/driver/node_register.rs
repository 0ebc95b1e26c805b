//! Nodes become hosts of the storage system, and stop being such.

use crate::backend::FakeBackend;
use crate::common::*;
use crate::script::{Act, answered, trapped};
use async_trait::async_trait;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use wasmount_core::code::Code;
use wasmount_core::driver::{Driver, NodeReport, Role, ServingPolicy};
use wasmount_core::fault::FaultKind;
use wasmount_core::names::{DriverName, NodeId};
use wasmount_core::node_fact::{FactValues, NodeFact};
use wasmount_core::nodes::{Facts, ListedNode, NodeList, Nodes, NodesError};
use wasmount_core::rpc::Rpc;
use wasmount_core::services::Service;

/// Longer than changes are gathered, and than the first pauses of a node that failed; the clock of these tests does not wait.
const LATER: Duration = Duration::from_secs(10);
/// The longest pause after the five failures that fit into twice [`LATER`].
const PAUSE: Duration = Duration::from_secs(32);

/// A cluster that a test changes.
#[derive(Default)]
struct FakeNodes {
    list: Mutex<NodeList>,
    changes: watch::Sender<()>,
}

impl FakeNodes {
    fn of(names: &[&str]) -> Arc<Self> {
        let nodes = Self::default();
        for name in names {
            nodes.set(name, Some(node("1", Some(name), "iqn")));
        }
        Arc::new(nodes)
    }

    fn set(&self, name: &str, node: Option<ListedNode>) {
        let mut list = self.list.lock().unwrap();
        match node {
            Some(node) => drop(list.insert(name.to_owned(), node)),
            None => drop(list.remove(name)),
        }
        self.changes.send_replace(());
    }
}

#[async_trait]
impl Nodes for FakeNodes {
    async fn facts(&self, driver: &DriverName, node: &NodeId) -> Result<Facts, NodesError> {
        Err(NodesError::NotFound {
            driver: driver.clone(),
            node: node.clone(),
        })
    }
    async fn list(&self, _: &DriverName) -> NodeList {
        self.list.lock().unwrap().clone()
    }
    fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

fn node(uid: &str, id: Option<&str>, iqn: &str) -> ListedNode {
    let values = FactValues::try_from(vec![iqn.to_owned()]).unwrap();
    ListedNode {
        uid: Some(uid.to_owned()),
        id: id.map(|id| NodeId::parse("node_id", id).unwrap()),
        facts: Some(Facts::from([(NodeFact::Iqn, values)])),
    }
}

/// The work of a driver, until this is dropped.
struct Registering {
    reports: mpsc::Receiver<NodeReport>,
    _task: AbortOnDropHandle<()>,
}

fn start(driver: &Arc<Driver>, nodes: &Arc<FakeNodes>) -> Registering {
    let (sender, reports) = mpsc::channel(16);
    let work = driver.clone().register_nodes(nodes.clone(), sender);
    Registering {
        reports,
        _task: AbortOnDropHandle::new(tokio::spawn(work)),
    }
}

/// The calls of a backend by now.
async fn calls(backend: &FakeBackend) -> Vec<String> {
    sleep(LATER).await;
    backend.script.calls()
}

fn registers() -> Bench {
    bench(&[Service::Controller, Service::NodeRegister], &[])
}

#[tokio::test(start_paused = true)]
async fn each_version_registers_all_nodes() {
    let bench = registers();
    let nodes = FakeNodes::of(&["a", "b"]);
    let _work = start(&bench.driver, &nodes);
    let both = ["register_node a", "register_node b"];
    assert_eq!(calls(&bench.backend).await, both);
    let next = with_backend(bench, &[Service::Controller, Service::NodeRegister], &[]);
    assert_eq!(calls(&next.backend).await, both);
    // One that does not export the interface is not asked.
    let last = with_backend(next, &[Service::Controller], &[]);
    assert_eq!(calls(&last.backend).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_node_is_registered_again_when_its_facts_change() {
    let bench = registers();
    let nodes = FakeNodes::of(&["a", "b"]);
    let _work = start(&bench.driver, &nodes);
    assert_eq!(calls(&bench.backend).await.len(), 2);
    nodes.set("b", Some(node("1", Some("b"), "iqn.new")));
    assert_eq!(calls(&bench.backend).await[2..], ["register_node b"]);
    nodes.set("b", Some(node("1", Some("b"), "iqn.new")));
    assert_eq!(calls(&bench.backend).await.len(), 3, "nothing changed");
    // Another Node of the same name.
    nodes.set("b", Some(node("2", Some("b"), "iqn.new")));
    assert_eq!(calls(&bench.backend).await[3..], ["register_node b"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_facts_waits_for_them_if_they_are_granted() {
    let bench = bench_without_plugin(Role::All, &[]);
    let bench = Bench {
        policy: ServingPolicy {
            reads_nodes: true,
            ..bench.policy.clone()
        },
        ..bench
    };
    let bench = with_backend(bench, &[Service::Controller, Service::NodeRegister], &[]);
    let silent = ListedNode {
        facts: None,
        ..node("1", Some("a"), "iqn")
    };
    let nodes = FakeNodes::of(&[]);
    nodes.set("a", Some(silent));
    let _work = start(&bench.driver, &nodes);
    assert_eq!(calls(&bench.backend).await, [""; 0]);
    nodes.set("a", Some(node("1", Some("a"), "iqn")));
    assert_eq!(calls(&bench.backend).await, ["register_node a"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_left_is_unregistered_also_after_a_restart() {
    let bench = registers();
    let nodes = FakeNodes::of(&["a", "b", "c"]);
    let work = start(&bench.driver, &nodes);
    assert_eq!(calls(&bench.backend).await.len(), 3);
    nodes.set("a", None);
    assert_eq!(calls(&bench.backend).await[3..], ["unregister_node a"]);
    // It comes back.
    nodes.set("a", Some(node("2", Some("a"), "iqn")));
    assert_eq!(calls(&bench.backend).await[4..], ["register_node a"]);
    // While its pod is replaced a driver has no id there.
    nodes.set("b", Some(node("1", None, "iqn")));
    assert_eq!(calls(&bench.backend).await.len(), 5);

    drop(work);
    nodes.set("a", None);
    let driver = bench.restarted();
    let restarted = with_backend(
        Bench { driver, ..bench },
        &[Service::Controller, Service::NodeRegister],
        &[],
    );
    let work = start(&restarted.driver, &nodes);
    let mut called = calls(&restarted.backend).await;
    called.sort();
    assert_eq!(called, ["register_node c", "unregister_node a"]);

    // That is remembered, too.
    drop(work);
    let driver = restarted.restarted();
    let again = with_backend(
        Bench {
            driver,
            ..restarted
        },
        &[Service::Controller, Service::NodeRegister],
        &[],
    );
    let _work = start(&again.driver, &nodes);
    assert_eq!(calls(&again.backend).await, ["register_node c"]);
}

#[tokio::test(start_paused = true)]
async fn a_standby_host_registers_no_node() {
    let bench = registers();
    bench.driver.stand_by();
    let nodes = FakeNodes::of(&["a"]);
    let _work = start(&bench.driver, &nodes);
    assert_eq!(calls(&bench.backend).await, [""; 0]);
    bench.driver.work_while(|| true);
    assert_eq!(calls(&bench.backend).await, ["register_node a"]);
}

#[tokio::test(start_paused = true)]
async fn four_nodes_at_a_time_are_registered() {
    let bench = registers();
    let gate = bench.backend.script.hold("register_node");
    let names: Vec<_> = (0..100).map(|number| format!("n{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let nodes = FakeNodes::of(&names);
    let _work = start(&bench.driver, &nodes);
    assert_eq!(calls(&bench.backend).await.len(), 4);
    gate.add_permits(2);
    assert_eq!(calls(&bench.backend).await.len(), 6);
    gate.add_permits(98);
    assert_eq!(calls(&bench.backend).await.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_failed_is_tried_again_with_growing_pauses() {
    let bench = registers();
    let refused = Act::Fail(answered(Code::Unavailable));
    bench.backend.script.on("register_node", refused);
    let nodes = FakeNodes::of(&["a"]);
    let mut work = start(&bench.driver, &nodes);
    let report = work.reports.recv().await.unwrap();
    let (node, rpc) = ("a".to_owned(), Rpc::RegisterNode);
    assert_eq!(report, NodeReport { node, rpc });
    sleep(Duration::from_secs(3600)).await;
    let tried = bench.backend.script.count("register_node");
    // Nine pauses until the longest one, and then one in 2.5 to 5 minutes.
    assert!((9 + 10..9 + 25).contains(&tried), "{tried}");
    assert!(work.reports.try_recv().is_err(), "the same was told again");

    bench.backend.script.off("register_node");
    sleep(Duration::from_secs(300)).await;
    assert_eq!(bench.backend.script.count("register_node"), tried + 1);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.backend.script.count("register_node"), tried + 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_does_not_wait_for_the_pause_of_a_node() {
    let bench = registers();
    let refused = Act::Fail(answered(Code::FailedPrecondition));
    bench.backend.script.on("register_node", refused);
    let nodes = FakeNodes::of(&["a"]);
    let _work = start(&bench.driver, &nodes);
    sleep(Duration::from_secs(3600)).await;
    bench.backend.script.off("register_node");
    let tried = bench.backend.script.count("register_node");
    nodes.set("a", Some(node("1", Some("a"), "iqn.new")));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.backend.script.count("register_node"), tried + 1);
}

#[tokio::test(start_paused = true)]
async fn a_trap_is_a_fault_and_success_proves_no_version() {
    let bench = registers();
    let nodes = FakeNodes::of(&["a"]);
    let _work = start(&bench.driver, &nodes);
    assert_eq!(calls(&bench.backend).await.len(), 1);
    assert_eq!(bench.driver.calls_answered(), 0);
    assert!(bench.driver.fault_counts().is_empty());
    bench
        .backend
        .script
        .on("register_node", Act::Fail(trapped()));
    nodes.set("a", Some(node("1", Some("a"), "iqn.new")));
    assert!(calls(&bench.backend).await.len() > 1);
    assert!(bench.driver.fault_counts()[&FaultKind::Trapped] >= 1);
    let fault = bench.driver.last_fault().unwrap().fault;
    assert_eq!(fault.rpc, Rpc::RegisterNode);
}

#[tokio::test(start_paused = true)]
async fn a_drained_driver_unregisters_and_does_not_register() {
    let bench = registers();
    let nodes = FakeNodes::of(&["a"]);
    let _work = start(&bench.driver, &nodes);
    assert_eq!(calls(&bench.backend).await.len(), 1);
    bench
        .driver
        .set_drained(Some("as the test wants it".to_owned()));
    nodes.set("a", None);
    nodes.set("b", Some(node("1", Some("b"), "iqn")));
    assert_eq!(calls(&bench.backend).await[1..], ["unregister_node a"]);
    bench.driver.set_drained(None);
    sleep(PAUSE).await;
    assert_eq!(calls(&bench.backend).await[2..], ["register_node b"]);
}
