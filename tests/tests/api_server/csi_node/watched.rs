//! One driver's steward at work, with a registration that kubelet of this test's takes.

use crate::csi_node::cluster::{Cluster, eventually};
use crate::csi_node::kubelet::{self, Answer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use wasmount_core::attributes::Attributes;
use wasmount_core::driver::NodeInfo;
use wasmount_core::names::{DriverName, NodeId};
use wasmount_core::topology::Topology;
use wasmount_kubernetes::csi_node::{self, CsiNodeReconciler, NodeWriter, Renewal, Seen};
use wasmount_kubernetes::{Events, ListingStatus, RegistrationStatus};

/// It ends when it is dropped.
pub(crate) struct Watched {
    pub(crate) answers: watch::Sender<Option<NodeInfo>>,
    pub(crate) seen: watch::Receiver<Seen>,
    status: watch::Receiver<ListingStatus>,
    renewals: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

/// A driver of that name, with a label and a limit.
pub(crate) fn answer(driver: &str) -> Answer {
    Answer {
        driver: driver.to_owned(),
        node_id: "storage-7".to_owned(),
        topology: [("example.com/rack".to_owned(), "r1".to_owned())].into(),
        count: Some(16),
    }
}

pub(crate) fn node_info(answer: &Answer) -> NodeInfo {
    NodeInfo {
        id: NodeId::parse("node_id", answer.node_id.clone()).unwrap(),
        max_volumes: answer.count.map(u64::from),
        topology: Some(Topology {
            segments: Attributes::from_pairs("topology", answer.topology.clone()).unwrap(),
        }),
    }
}

impl Watched {
    /// Watches; kubelet has taken the driver when `registered`, and takes it again whenever it is asked.
    pub(crate) async fn begin(cluster: &Arc<Cluster>, answer: Answer, registered: bool) -> Self {
        let mut tasks = JoinSet::new();
        let (seen, work) = csi_node::watch(cluster.client.clone(), cluster.node.clone());
        tasks.spawn(work);
        let status = RegistrationStatus {
            registered,
            ..RegistrationStatus::default()
        };
        let registration = watch::Sender::new(status);
        let answers = watch::Sender::new(Some(node_info(&answer)));
        let (asked, asks) = mpsc::unbounded_channel();
        let (kubelets, taken) = (cluster.clone(), registration.clone());
        tasks.spawn(register_when_asked(kubelets, answer.clone(), asks, taken));
        let renewals = Arc::new(AtomicUsize::new(0));
        let counted = renewals.clone();
        let (tell, status) = watch::channel(ListingStatus::default());
        let reconciler = CsiNodeReconciler {
            driver: DriverName::parse(&*answer.driver).unwrap(),
            node_name: cluster.node.clone(),
            answers: answers.subscribe(),
            seen: seen.clone(),
            writer: NodeWriter::Kubelet(Some(Renewal {
                registration: registration.subscribe(),
                renew: Arc::new(move || {
                    counted.fetch_add(1, Ordering::SeqCst);
                    asked.send(()).unwrap();
                }),
            })),
            update_period: None,
            client: cluster.client.clone(),
            events: Events::new(Some(cluster.client.clone()), cluster.node.clone()),
            report: Arc::new(move |status| {
                tell.send_replace(status);
            }),
        };
        tasks.spawn(reconciler.run());
        Self {
            answers,
            seen,
            status,
            renewals,
            _tasks: tasks,
        }
    }

    pub(crate) fn status(&self) -> ListingStatus {
        self.status.borrow().clone()
    }

    pub(crate) fn renewals(&self) -> usize {
        self.renewals.load(Ordering::SeqCst)
    }

    pub(crate) async fn listed(&self) {
        eventually("listed", async || self.status().listed).await;
    }

    /// Waits until it is not listed, for a reason.
    pub(crate) async fn not_listed(&self, words: &str) {
        eventually(words, async || {
            let status = self.status();
            !status.listed && status.reason.is_some_and(|it| it.contains(words))
        })
        .await;
    }
}

async fn register_when_asked(
    cluster: Arc<Cluster>,
    answer: Answer,
    mut asks: mpsc::UnboundedReceiver<()>,
    registration: watch::Sender<RegistrationStatus>,
) {
    while asks.recv().await.is_some() {
        registration.send_modify(|status| status.registered = false);
        kubelet::uninstall(&cluster, &answer.driver).await;
        kubelet::install(&cluster, &answer).await;
        registration.send_modify(|status| status.registered = true);
    }
}
