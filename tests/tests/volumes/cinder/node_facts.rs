//! plugins/cinder on a node that is an instance: its id and zone from the metadata service, which may treat it badly, and from a config drive.

#[path = "../../../../host/mount/tests/mounts/config_drive/disks.rs"]
mod disks;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use disks::{Disks, META_DATA};
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::thread;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tonic::{Code, Status};
use wasmount_core::node_fact::{META_DATA_BYTES, METADATA_SERVICE};
use wasmount_csi::wire::csi::v1::{NodeGetInfoRequest, NodeGetInfoResponse};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::namespace::enter_network;
use wasmount_tests::root::needs_root;

const ID: &str = "d8e02d56-2648-49a3-bf97-6be8f1204f38";
const ZONE: &str = "topology.cinder.csi.openstack.org/zone";

/// How the metadata service answers, and what error then says.
type Bad = (fn() -> Response, &'static str);

const BAD: [Bad; 5] = [
    (|| StatusCode::NOT_FOUND.into_response(), "answered 404"),
    (
        || StatusCode::SERVICE_UNAVAILABLE.into_response(),
        "answered 503",
    ),
    (|| "<html>".into_response(), "not the JSON of an instance"),
    (huge, "is larger than 1048576 bytes"),
    (elsewhere, "answered 302"),
];

/// A metadata service, in the network of the thread that starts it.
#[derive(Clone)]
pub(super) struct Metadata(Arc<Mutex<State>>);

struct State {
    document: String,
    /// In its place.
    answer: Option<fn() -> Response>,
    /// It does not answer.
    hangs: bool,
    requests: Vec<String>,
}

impl Metadata {
    /// One that tells this of an instance, as Nova does, or that hangs at first.
    pub(super) fn start(document: &str, hangs: bool) -> Self {
        let metadata = Self(Arc::new(Mutex::new(State {
            document: document.to_owned(),
            answer: None,
            hangs,
            requests: Vec::new(),
        })));
        let state = metadata.clone();
        let listener = std::net::TcpListener::bind(METADATA_SERVICE).unwrap();
        listener.set_nonblocking(true).unwrap();
        thread::spawn(move || {
            runtime().block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                let app =
                    Router::new().fallback(move |request: Request| state.clone().answer(request));
                axum::serve(listener, app).await.unwrap();
            });
        });
        metadata
    }

    async fn answer(self, request: Request) -> Response {
        let (answer, hangs) = {
            let mut state = self.0.lock().unwrap();
            state.requests.push(request.uri().to_string());
            let as_nova = || state.document.clone().into_response();
            (state.answer.map_or_else(as_nova, |it| it()), state.hangs)
        };
        if hangs {
            pending::<()>().await;
        }
        answer
    }

    fn set(&self, answer: Option<fn() -> Response>, hangs: bool) {
        let mut state = self.0.lock().unwrap();
        (state.answer, state.hangs) = (answer, hangs);
    }

    fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }
}

fn huge() -> Response {
    let bytes = usize::try_from(META_DATA_BYTES).unwrap() + 1;
    Response::new(Body::from(vec![b' '; bytes]))
}

fn elsewhere() -> Response {
    (StatusCode::FOUND, [("location", "http://127.0.0.1/secret")]).into_response()
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// A host without a capability, beside its mounter.
fn start() -> (Host, TempDir) {
    needs_root();
    let folder = tempfile::tempdir().unwrap();
    let document = documents::cinder_on_instances(folder.path()).unwrap();
    let host = Host::start(HostOptions {
        backends: vec![document],
        split: Some(0),
        ..HostOptions::default()
    });
    (host.unwrap(), folder)
}

async fn describe(host: &Host) -> Result<NodeGetInfoResponse, Status> {
    let mut clients = host.client().await.unwrap();
    let answer = clients.node.node_get_info(NodeGetInfoRequest {}).await;
    answer.map(tonic::Response::into_inner)
}

async fn assert_is_the_instance(host: &Host) {
    let node = describe(host).await.unwrap();
    let topology = node.accessible_topology.unwrap().segments;
    let topology: Vec<_> = topology.into_iter().collect();
    assert_eq!(node.node_id, ID);
    assert_eq!(topology, [(ZONE.to_owned(), "zone-a".to_owned())]);
}

async fn assert_is_not_known(host: &Host, reason: &str) {
    let refused = describe(host).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    for part in [reason, "a config drive", "169.254.169.254:80"] {
        assert!(refused.message().contains(part), "{part}: {refused}");
    }
}

#[test]
fn privileged_an_instance_is_what_its_metadata_service_says() {
    // A namespace belongs to a thread and to what it starts.
    let test = thread::spawn(|| {
        enter_network(*METADATA_SERVICE.ip());
        runtime().block_on(async {
            let (mut host, _folder) = start();
            assert_is_not_known(&host, "no connection to 169.254.169.254:80").await;
            // The host asks by itself, too: one answer would be kept.
            let metadata = Metadata::start(META_DATA, true);
            assert_is_not_known(&host, "no answer from").await;
            for (answer, reason) in BAD {
                metadata.set(Some(answer), false);
                assert_is_not_known(&host, reason).await;
            }
            metadata.set(None, false);
            assert_is_the_instance(&host).await;
            let asked = metadata.requests();
            assert!(
                asked
                    .iter()
                    .all(|path| path == "/openstack/latest/meta_data.json")
            );
            metadata.set(Some(elsewhere), false);
            assert_is_the_instance(&host).await;
            assert_eq!(metadata.requests().len(), asked.len());
            // The first answer is kept.
            host.restart().unwrap();
            assert_is_the_instance(&host).await;
        });
    });
    if let Err(panic) = test.join() {
        std::panic::resume_unwind(panic);
    }
}

#[tokio::test]
async fn on_other_kernel_an_instance_is_what_its_drive_says() {
    let disks = Disks::start();
    disks.iso(0, "config-2", META_DATA);
    disks.iso(1, "data", "{}");
    let (host, _folder) = start();
    assert_is_the_instance(&host).await;
    assert!(
        host.log()
            .contains("the config drive tells what the node is")
    );
}
