//! Nodes by the thousand, as far as the API server sees them: each has the watches, the report, the CSINode and the candidacy of a real host, by the
//! same code. 5,000 of them with `--thorough`, as many as Kubernetes supports.

use crate::storage_backends::scene::Scene;
use crate::storage_backends::serving::object;
use futures::StreamExt;
use futures::stream::iter;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use wasmount_core::driver::NodeInfo;
use wasmount_core::names::{DriverName, NodeId};
use wasmount_kubernetes::Events;
use wasmount_kubernetes::csi_node::{self, CsiNodeReconciler, NodeWriter, Writer};
use wasmount_kubernetes::storage_backend::{
    BackendReport, DesiredBackends, HostIdentity, Phase, Reporter, StorageBackends, Summarising,
    summarise, write_reports,
};
use wasmount_tests::rounds::rounds;

/// Nodes of a thorough run.
const NODES: usize = 5000;
/// The object and its driver.
const BACKEND: &str = "everywhere";
const DRIVER: &str = "everywhere.example";
/// Nodes that are created side by side.
const AT_ONCE: usize = 50;
/// Between the starts of two nodes: no slower than a DaemonSet starts pods.
const START_PAUSE: Duration = Duration::from_millis(10);
/// Longest wait for all: a minute, and for each node twenty times its share of the requests, which is 10 ms (`rate_limit`).
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_OF_A_NODE: Duration = Duration::from_millis(200);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// Seconds without changes of a thorough run, in which requests are counted.
const QUIET_SECONDS: usize = 60;
/// What nodes may write of one change: the report, and once more each after a failed attempt.
const REPORTS_OF_A_CHANGE: u64 = 2;
/// Open files of a node: its three watches.
const FILES_OF_A_NODE: usize = 3;
/// Open files besides: requests under way, and other tests of this process.
const FILES_OF_OTHERS: u64 = 1000;
/// The kind of the reports in metrics of the API server.
const REPORTS: &str = "storagebackendnodes";

/// Requests that the API server has answered: by verb, resource and subresource.
#[derive(Debug, Default, Clone)]
struct Requests(BTreeMap<String, u64>);

impl Requests {
    async fn of(client: &Client) -> Self {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let text = client.request_text(request).await.unwrap();
        let mut requests = Self::default();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("apiserver_request_total{") else {
                continue;
            };
            let (labels, count) = rest.split_once("} ").unwrap();
            let label = |name: &str| {
                let labels = labels.split_once(&format!("{name}=\"")).unwrap();
                labels.1.split_once('"').unwrap().0
            };
            let name = [label("verb"), label("resource"), label("subresource")].join(" ");
            let count: f64 = count.parse().unwrap();
            *requests.0.entry(name.trim().to_owned()).or_default() += count as u64;
        }
        requests
    }

    fn since(&self, before: &Self) -> Self {
        let counts = self.0.iter().map(|(name, count)| {
            let before = before.0.get(name).copied().unwrap_or_default();
            (name.clone(), count - before)
        });
        Self(counts.filter(|(_, count)| *count > 0).collect())
    }

    /// Writes of a resource, or of its subresource.
    fn writes(&self, resource: &str) -> u64 {
        let of_it = self.0.iter().filter(|(name, _)| {
            let (verb, of) = name.split_once(' ').unwrap_or_default();
            of == resource && ["APPLY", "PATCH", "POST", "PUT"].contains(&verb)
        });
        of_it.map(|(_, count)| count).sum()
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts: Vec<_> = self.0.iter().collect();
        counts.sort_unstable_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (name, count) in counts.iter().take(10) {
            write!(f, " {name} {count},")?;
        }
        Ok(())
    }
}

/// All tasks of the nodes.
struct Nodes {
    tasks: JoinSet<()>,
    _folder: TempDir,
}

impl Nodes {
    async fn create(client: &Client, count: usize) {
        let nodes = Api::<Node>::all(client.clone());
        let create = |number| {
            let nodes = nodes.clone();
            async move {
                let node = json!({ "metadata": { "name": name(number) } });
                let node: Node = serde_json::from_value(node).unwrap();
                nodes.create(&PostParams::default(), &node).await.unwrap();
            }
        };
        iter(0..count)
            .map(create)
            .buffer_unordered(AT_ONCE)
            .collect::<Vec<()>>()
            .await;
    }

    async fn start(client: &Client, count: usize) -> Self {
        let folder = TempDir::new().unwrap();
        let mut tasks = JoinSet::new();
        for number in 0..count {
            start_node(&mut tasks, client, folder.path(), name(number));
            sleep(START_PAUSE).await;
        }
        Self {
            tasks,
            _folder: folder,
        }
    }
}

fn name(number: usize) -> String {
    format!("node-{number}")
}

/// What `wasmount serve` runs on a node with `--csinode=manage`, apart from the backends themselves.
fn start_node(tasks: &mut JoinSet<()>, client: &Client, folder: &Path, name: String) {
    let identity = HostIdentity {
        name: name.clone(),
        on_node: true,
    };
    let objects = StorageBackends::open(folder.join(&name), identity);
    let (reports, reported) = watch::channel(BTreeMap::new());
    let reporter = Reporter {
        client: client.clone(),
        host: name.clone(),
        on_node: true,
    };
    let who = Summarising {
        client: client.clone(),
        host: name.clone(),
        namespace: client.default_namespace().to_owned(),
        selector: None,
    };
    let followed = (objects.clone(), client.clone());
    tasks.spawn(async move { followed.0.follow(followed.1, None).await });
    tasks.spawn(write_reports(reporter, reported, objects.rate_limit()));
    let mut desired = objects.desired();
    tasks.spawn(async move {
        loop {
            let serving = serving(&desired.borrow_and_update());
            reports.send_replace(serving);
            desired.changed().await.unwrap();
        }
    });
    tasks.spawn(async move { summarise(who, &objects).await });

    let (seen, work) = csi_node::watch(client.clone(), name.clone());
    tasks.spawn(work);
    let info = NodeInfo {
        id: NodeId::parse("node_id", &name).unwrap(),
        max_volumes: Some(100),
        topology: None,
    };
    let (answers, answered) = watch::channel(Some(info));
    let writer = Writer::new(client.clone(), name.clone(), &folder.join("data"));
    let reconciler = CsiNodeReconciler {
        driver: DriverName::parse(DRIVER).unwrap(),
        node_name: name.clone(),
        answers: answered,
        seen,
        writer: NodeWriter::Own(Arc::new(writer)),
        update_period: None,
        client: client.clone(),
        events: Events::new(Some(client.clone()), name),
        report: Arc::new(|_| {}),
    };
    tasks.spawn(async move {
        let _answers = answers;
        reconciler.run().await;
    });
}

/// What a host says that serves all that is desired.
fn serving(desired: &DesiredBackends) -> BTreeMap<String, BackendReport> {
    let reports = desired.iter().map(|(name, backend)| {
        let report = BackendReport {
            uid: backend.uid.clone(),
            generation: backend.generation,
            phase: Phase::Serving,
            version: Some("0.1.0".to_owned()),
            digest: Some(format!("sha256:{}", "0".repeat(64))),
            reason: None,
            rolled_back_by: None,
            last_fault: None,
            volumes: 0,
            rollout: None,
        };
        (name.clone(), report)
    });
    reports.collect()
}

/// Lets this process open a connection for each watch.
fn allow_open_files(count: usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = u64::try_from(FILES_OF_A_NODE * count).unwrap() + FILES_OF_OTHERS;
    if current.is_none_or(|current| current >= needed) {
        return;
    }
    assert!(
        maximum.is_none_or(|maximum| maximum >= needed),
        "{count} nodes need {needed} open files: raise the hard limit (`ulimit -Hn`)"
    );
    let raised = Rlimit {
        current: Some(needed),
        maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

/// CPU time that this process, with all its nodes, has used.
fn cpu_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

#[expect(
    clippy::print_stdout,
    reason = "it is printed when the test runs with --nocapture"
)]
fn tell(what: &str, begun: Instant, requests: &Requests) {
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = cpu_seconds();
    println!("{what}: {seconds:.1} s, {cpu:.1} s of CPU so far; requests:{requests}");
}

async fn until(what: &str, count: usize, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    let patience = PATIENCE + PATIENCE_OF_A_NODE * u32::try_from(count).unwrap();
    while !holds().await {
        assert!(begun.elapsed() < patience, "never: {what}");
        sleep(LOOK).await;
    }
}

/// Waits until the status says that all hosts serve this generation.
async fn until_all_serve(scene: &Scene, count: usize, generation: u64) {
    let all = json!({ "total": count, "current": count });
    let backends = scene.backends();
    until("all nodes serve", count, async || {
        let found = backends.get(BACKEND).await.unwrap();
        let status: &Value = &found.data["status"];
        status["observedGeneration"] == generation && status["hosts"] == all
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_by_the_thousand_report_and_register() {
    let count = rounds(NODES);
    allow_open_files(count);
    let scene = Scene::start().await;
    let client = scene.client.clone();
    Nodes::create(&client, count).await;
    let mut wanted = object(BACKEND, DRIVER);
    scene.apply(&wanted).await;

    let (mut begun, mut before) = (Instant::now(), Requests::of(&client).await);
    let mut nodes = Nodes::start(&client, count).await;
    until_all_serve(&scene, count, 1).await;
    let csi_nodes = Api::<CSINode>::all(client.clone());
    until("all nodes are registered", count, async || {
        let all = csi_nodes.list(&ListParams::default()).await.unwrap();
        let registered = all
            .items
            .iter()
            .filter(|it| it.spec.drivers.iter().any(|it| it.name == DRIVER));
        registered.count() == count
    })
    .await;
    let started = Requests::of(&client).await.since(&before);
    tell("all nodes serve and are registered", begun, &started);
    let most = REPORTS_OF_A_CHANGE * u64::try_from(count).unwrap();
    assert!(started.writes(REPORTS) <= most, "{started}");

    (begun, before) = (Instant::now(), Requests::of(&client).await);
    wanted["spec"]["limits"] = json!({ "time": "50s" });
    scene.apply(&wanted).await;
    until_all_serve(&scene, count, 2).await;
    let changed = Requests::of(&client).await.since(&before);
    tell("all nodes serve a change", begun, &changed);
    assert!(changed.writes(REPORTS) <= most, "{changed}");

    (begun, before) = (Instant::now(), Requests::of(&client).await);
    sleep(Duration::from_secs(
        u64::try_from(rounds(QUIET_SECONDS)).unwrap(),
    ))
    .await;
    let quiet = Requests::of(&client).await.since(&before);
    tell("nothing changes", begun, &quiet);
    let ended = nodes.tasks.try_join_next();
    assert!(ended.is_none(), "{ended:?}");
}
