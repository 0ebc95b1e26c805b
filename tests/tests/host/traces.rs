//! Traces of calls in a collector: which steps they have, whose trace they continue, and what happens while the collector is away.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use tonic::Request;
use tonic::transport::Channel;
use wasmount_csi::wire::csi::v1::controller_client::ControllerClient;
use wasmount_tests::collector::{Collector, ReceivedSpan};
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";
/// OTLP's number of SPAN_KIND_SERVER.
const SERVER: i32 = 2;

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

const LOST: &str = "traces are lost until the collector answers";
const AGAIN: &str = "traces are exported again";
/// Timeout for a line of the log, which follows a batch.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host that sends its spans ten times a second.
fn start_host(endpoint: &str) -> Host {
    start_host_with(endpoint, None)
}

/// The same with a mounter of its own process, and as this user.
fn start_host_with(endpoint: &str, split: Option<u32>) -> Host {
    needs_root();
    let wrapper = ["env", "OTEL_BSP_SCHEDULE_DELAY=100"];
    let more = ["--otlp-endpoint", endpoint];
    Host::start(HostOptions {
        wrapper: wrapper.map(Into::into).to_vec(),
        more: more.map(Into::into).to_vec(),
        split,
        ..HostOptions::default()
    })
    .unwrap()
}

/// The names from the call down to each span, with the functions of the guest's own calls.
fn paths(spans: &[ReceivedSpan], root: &ReceivedSpan) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    let mut at = vec![(root, root.name.clone())];
    while let Some((parent, path)) = at.pop() {
        for child in spans.iter().filter(|span| span.parent == parent.id) {
            let function = child.attributes.get("function");
            let function = function.map(|name| format!(" {name}")).unwrap_or_default();
            at.push((child, format!("{path} > {}{function}", child.name)));
        }
        paths.insert(path);
    }
    paths
}

/// Calls, each of which must be answered, until a line is in the log.
async fn call_until(controller: &mut ControllerClient<Channel>, host: &Host, line: &str) {
    let end = Instant::now() + PATIENCE;
    while !host.log().contains(line) {
        assert!(Instant::now() < end, "no `{line}` in {}", host.log());
        let request = requests::create("pvc", 1 << 20);
        controller.create_volume(request).await.unwrap();
    }
}

fn root<'a>(spans: &'a [ReceivedSpan], name: &str) -> &'a ReceivedSpan {
    spans.iter().find(|span| span.name == name).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_trace_shows_each_step_of_a_call() {
    let collector = Collector::listen(ANY_PORT).await.unwrap();
    let mut host = start_host(&collector.endpoint());
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    orchestrator.delete(&volume.id).await.unwrap();
    // A clean stop sends the last spans.
    host.terminate().unwrap();
    let spans = collector.wait_for("DeleteVolume").await.unwrap();

    let create = root(&spans, "CreateVolume");
    assert_eq!(create.kind, SERVER);
    for (attribute, value) in [
        ("rpc.system", "grpc"),
        ("rpc.grpc.status_code", "0"),
        ("driver", "directory.wasmount.io"),
        ("service.name", "wasmount"),
        ("service.instance.id", "test-node"),
    ] {
        assert_eq!(create.attributes[attribute], value, "{attribute}");
    }
    let steps = paths(&spans, create);
    for step in [
        "CreateVolume > wait for version",
        "CreateVolume > wait for place",
        "CreateVolume > guest call create-volume",
        "CreateVolume > guest call create-volume > host call pool.create_directory",
        "CreateVolume > guest call create-volume > host call state.put",
        "CreateVolume > commit",
    ] {
        assert!(steps.contains(step), "{step} in {steps:#?}");
    }
    let steps = paths(&spans, root(&spans, "NodePublishVolume"));
    for step in [
        "NodePublishVolume > mounter publish",
        "NodePublishVolume > mounter publish > attach mount",
    ] {
        assert!(steps.contains(step), "{step} in {steps:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_trace_shows_steps_of_a_separate_mounter() {
    let collector = Collector::listen(ANY_PORT).await.unwrap();
    let mut host = start_host_with(&collector.endpoint(), Some(0));
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    host.terminate().unwrap();
    let spans = collector.wait_for("NodeUnstageVolume").await.unwrap();
    let publish = root(&spans, "NodePublishVolume");
    let steps = paths(&spans, publish);
    let step = "NodePublishVolume > mounter publish > mounter process > attach mount";
    assert!(steps.contains(step), "{step} in {steps:#?}");
    // What the mounter told is spans of the same trace, and no attribute.
    let told = |span: &ReceivedSpan| span.attributes.contains_key("steps");
    assert!(!spans.iter().any(told));
    let mut mounts = spans.iter().filter(|span| span.name == "attach mount");
    assert!(mounts.any(|span| span.trace == publish.trace));
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_call_continues_the_trace_of_its_client() {
    let collector = Collector::listen(ANY_PORT).await.unwrap();
    let host = start_host(&collector.endpoint());
    let mut clients = host.client().await.unwrap();
    let mut request = Request::new(requests::create("pvc", 1 << 20));
    let parent = format!("00-{TRACE}-{CLIENT_SPAN}-01");
    let headers = request.metadata_mut();
    headers.insert("traceparent", parent.parse().unwrap());
    clients.controller.create_volume(request).await.unwrap();
    let spans = collector.wait_for("CreateVolume").await.unwrap();
    let create = root(&spans, "CreateVolume");
    assert_eq!(
        (create.trace.as_str(), create.parent.as_str()),
        (TRACE, CLIENT_SPAN)
    );
    // The calls before it began traces of their own.
    let probe = root(&spans, "Probe");
    assert_ne!(probe.trace, TRACE);
    assert_eq!(probe.parent, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_calls_are_answered_without_the_collector() {
    // Its port stays free: nothing else binds a port that was in use a moment ago.
    let probe = std::net::TcpListener::bind(ANY_PORT).unwrap();
    let address = probe.local_addr().unwrap();
    drop(probe);
    let host = start_host(&format!("http://{address}"));
    let mut clients = host.client().await.unwrap();
    let controller = &mut clients.controller;
    call_until(controller, &host, LOST).await;
    let collector = Collector::listen(address).await.unwrap();
    call_until(controller, &host, AGAIN).await;
    collector.wait_for("CreateVolume").await.unwrap();
    assert_eq!(host.log().matches(LOST).count(), 1, "{}", host.log());
}
