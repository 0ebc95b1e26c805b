//! Requests of a guest by `wasi:http`, to a storage system on loopback: the rights of each call, what its end leaves behind, secrets, sessions.

use crate::array::Array;
use crate::harness::{
    Fixture, attributes, call, create_volume_with, load, mounted, parts, secrets, volume_id,
};
use crate::log::logged_while;
use crate::memory::Memory;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use wasmount_core::backend::{Backend, BackendError, GetCapacity, NodeStage};
use wasmount_core::blame::{Owner, RequestContent, RequestStrings};
use wasmount_core::code::Code;
use wasmount_core::document::{Grants, Limits, StorageBackend, raw};
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_engine::{BackendParts, Candidate, LoadedComponent};
use wasmount_network::Network;

const TOKEN: &str = "tr0ub4dor-and-3";

/// Time limit of calls that are to reach it after a request. The request takes milliseconds, and a second on a busy machine.
const AFTER_A_REQUEST: Duration = Duration::from_secs(2);

/// A backend whose plugin executes scripts, with the grant `array` for the controller.
pub(crate) struct Scene {
    pub(crate) array: Array,
    fixture: Fixture,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::with(Limits::default()).await
    }

    async fn with(limits: Limits) -> Self {
        let array = Array::start().await;
        let (candidate, memory) = candidate(&array, limits, &[]).await;
        let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
        let info = candidate.plugin_info(&call).await.unwrap();
        let fixture = Fixture::around(candidate.into_backend(info, []), memory);
        Self { array, fixture }
    }

    /// Runs a script in CreateVolume; returns whether something is left of the call.
    pub(crate) async fn run(&self, script: &str) -> (Result<(), BackendError>, bool) {
        let call = self.fixture.call(Rpc::CreateVolume);
        let args = create_volume_with(attributes(&[("script", script)]));
        let made = self.fixture.backend.create_volume(&call, args).await;
        (made.map(drop), call.effect.is_set())
    }

    /// The error with which a script ends.
    async fn error(&self, script: &str) -> BackendError {
        self.run(script).await.0.unwrap_err()
    }

    /// The same in a call that only reads.
    async fn read(&self, script: &str) -> Result<(), BackendError> {
        let args = GetCapacity {
            capabilities: Vec::new(),
            parameters: attributes(&[("script", script)]),
            accessible_topology: None,
        };
        let call = self.fixture.call(Rpc::GetCapacity);
        self.fixture
            .backend
            .get_capacity(&call, args)
            .await
            .map(drop)
    }

    /// The same on a node.
    async fn stage(&self, script: &str) -> Result<(), BackendError> {
        let args = NodeStage {
            id: volume_id("volume-1"),
            capability: mounted(),
            publish_context: attributes(&[]),
            volume_context: attributes(&[("script", script)]),
        };
        let call = self.fixture.call(Rpc::NodeStageVolume);
        self.fixture.backend.node_stage(&call, args).await.map(drop)
    }
}

async fn requester() -> &'static LoadedComponent {
    static COMPONENT: OnceCell<LoadedComponent> = OnceCell::const_new();
    COMPONENT.get_or_init(|| load("requester")).await
}

/// The secrets of the document: the grant's, and another one.
fn of_document() -> Secrets {
    secrets(&[("token", TOKEN), ("other", "h0rse-battery")])
}

/// The grants of a document for this system.
fn grants(array: &Array) -> Grants {
    let document = json!({
        "apiVersion": "wasmount.io/v1alpha1",
        "kind": "StorageBackend",
        "metadata": { "name": "test" },
        "spec": {
            "driverName": "test.wasmount.io",
            "plugin": { "path": "plugin.wasm" },
            "secrets": { "token": { "file": "token" }, "other": { "file": "other" } },
            "grants": { "network": { "array": {
                "hosts": [array.address.to_string()],
                "scheme": "http",
                "maxBody": "32Mi",
                "auth": { "bearer": { "token": "token" } },
            } } },
        },
    });
    let document: raw::Document = serde_json::from_value(document).unwrap();
    StorageBackend::try_from(document).unwrap().grants
}

async fn candidate(
    array: &Array,
    limits: Limits,
    settings: &[(&str, &str)],
) -> (Candidate, Arc<Memory>) {
    let memory = Arc::new(Memory::default());
    let grants = grants(array);
    let parts = parts(&memory, limits, of_document());
    let network = Network::new(Vec::new()).open(&parts.driver, &grants.network, &of_document());
    let parts = BackendParts {
        settings: attributes(settings),
        held_secrets: grants.held_secrets(),
        network: network.unwrap(),
        ..parts
    };
    let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
    let candidate = requester().await.prepare(parts, &call).await;
    (candidate.unwrap(), memory)
}

/// Whose fault an error is, for a request with this string.
fn owner(error: &BackendError, string: &str) -> Owner {
    error.owner(RequestContent {
        strings: &RequestStrings::default().with(string),
        secrets: &Secrets::default(),
    })
}

fn text_of(error: &BackendError) -> String {
    assert!(matches!(error, BackendError::Answered { .. }), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn a_granted_request_is_sent_and_answered() {
    let scene = Scene::new().await;
    let script = "body 5000; POST /volumes; GET /volumes/1; answer";
    assert_eq!(text_of(&scene.error(script).await), "200 done");
    assert_eq!(scene.array.seen(), ["POST /volumes", "GET /volumes/1"]);
}

#[tokio::test]
async fn a_request_that_is_not_granted_is_denied_and_explained() {
    let scene = Scene::new().await;
    let error = scene.error("to other; GET /volumes").await;
    match &error {
        BackendError::Refused {
            code: Code::PermissionDenied,
            reason,
            ..
        } => {
            assert!(reason.starts_with("the request was denied; "), "{reason}");
            assert!(reason.contains("grants.network"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(owner(&error, "volume-1"), Owner::Plugin);
    // The author of the request wrote the word.
    assert_eq!(owner(&error, "other"), Owner::Request);
    assert_eq!(scene.array.seen(), [""; 0]);
}

#[tokio::test]
async fn a_plugin_may_go_on_after_a_denied_request() {
    let scene = Scene::new().await;
    // The last error is about something else.
    let error = scene
        .error("leave GET /volumes; to other; leave GET /a; exhaust")
        .await;
    assert_eq!(text_of(&error), "told to be full");
}

#[tokio::test]
async fn a_node_does_not_use_a_grant_of_the_controller() {
    let scene = Scene::new().await;
    let error = scene.stage("GET /volumes").await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied, "{error}");
    assert_eq!(scene.array.seen(), [""; 0]);
    scene.stage("").await.unwrap();
}

#[tokio::test]
async fn a_call_that_reads_sends_no_change() {
    let scene = Scene::new().await;
    scene.read("GET /volumes; HEAD /volumes").await.unwrap();
    scene.read("POST read /search").await.unwrap();
    let error = scene.read("POST /volumes").await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied, "{error}");
    assert_eq!(owner(&error, "array"), Owner::Plugin);
    assert_eq!(
        scene.array.seen(),
        ["GET /volumes", "HEAD /volumes", "POST /search"]
    );
}

#[tokio::test]
async fn nothing_is_sent_before_a_version_serves() {
    let array = Array::start().await;
    let settings = [("probe", "GET /health"), ("check", "POST /login")];
    let (candidate, _) = candidate(&array, Limits::default(), &settings).await;
    let call = call(Rpc::Probe, Duration::from_secs(60));
    let probed = candidate.probe(&call).await.unwrap_err();
    assert!(
        matches!(
            &probed,
            BackendError::Withheld {
                function: "probe",
                ..
            }
        ),
        "{probed:?}"
    );
    let checked = candidate.check_settings(&call).await.unwrap_err();
    assert!(
        matches!(&checked, BackendError::Withheld { .. }),
        "{checked:?}"
    );
    assert_eq!(array.seen(), [""; 0]);
    assert!(!call.effect.is_set());
}

#[tokio::test]
async fn a_change_that_may_have_been_executed_is_left() {
    let scene = Scene::new().await;
    for (script, is_left) in [
        ("POST /volumes; exhaust", true),
        ("POST /broken; exhaust", true),
        ("POST /lost; exhaust", true),
        ("POST idempotent /once/1; exhaust", true),
        ("POST idempotent /refuse; exhaust", false),
        ("leave POST /hang; GET /volumes; exhaust", true),
        ("POST /volumes; DELETE undo /volumes/1; exhaust", false),
        ("POST /volumes; DELETE undo /missing; exhaust", false),
        ("POST /volumes; DELETE undo /refuse; exhaust", true),
        ("POST /refuse; exhaust", false),
        ("POST /missing; exhaust", false),
        ("POST read /search; exhaust", false),
        ("GET /volumes; exhaust", false),
        ("GET /lost; exhaust", false),
        ("to other; POST /volumes; exhaust", false),
        ("exhaust", false),
    ] {
        let (ended, effect) = scene.run(script).await;
        assert!(ended.is_err(), "{script}");
        assert_eq!(effect, is_left, "{script}");
    }
}

#[tokio::test]
async fn a_lost_answer_is_a_fault_of_the_storage() {
    let scene = Scene::new().await;
    let (ended, is_left) = scene.run("POST /lost").await;
    let error = ended.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert_ne!(owner(&error, "volume-1"), Owner::Plugin);
    assert!(is_left);
    // It was not repeated: it may have been executed.
    assert_eq!(scene.array.seen(), ["POST /lost"]);
}

#[tokio::test]
async fn a_trap_after_a_change_leaves_the_change() {
    let scene = Scene::new().await;
    let (ended, is_left) = scene.run("POST /volumes; trap").await;
    assert!(
        matches!(ended, Err(BackendError::Trapped { .. })),
        "{ended:?}"
    );
    assert!(is_left);
    let (ended, is_left) = scene.run("GET /volumes; trap").await;
    assert!(
        matches!(ended, Err(BackendError::Trapped { .. })),
        "{ended:?}"
    );
    assert!(!is_left);
}

#[tokio::test]
async fn a_silent_system_ends_the_call_within_its_time() {
    let mut scene = Scene::new().await;
    scene.fixture.budget = Duration::from_secs(2);
    let (ended, is_left) = scene.run("POST /hang").await;
    let error = ended.unwrap_err();
    // The guest was told, and answered.
    assert!(text_of(&error).contains("Timeout"), "{error}");
    assert!(is_left);
}

#[tokio::test]
async fn a_call_that_pauses_between_requests_is_no_fault() {
    let mut scene = Scene::new().await;
    scene.fixture.budget = AFTER_A_REQUEST;
    let ended = |script, is_left| {
        let scene = &scene;
        async move {
            let (ended, effect) = scene.run(script).await;
            let error = ended.unwrap_err();
            assert_eq!(error.code(), Code::DeadlineExceeded, "{script}: {error}");
            assert_eq!(owner(&error, "volume-1"), Owner::Storage, "{script}");
            assert_eq!(effect, is_left, "{script}");
            error.to_string()
        }
    };
    let (text, ..) = tokio::join!(
        ended("GET /volumes; sleep", false),
        ended("POST /volumes; sleep", true),
        // Nobody awaits the answer.
        ended("leave GET /hang; sleep", false),
    );
    assert!(text.contains("answers `aborted` in time"), "{text}");
}

#[tokio::test]
async fn a_call_that_computes_or_asks_nothing_is_a_fault() {
    let mut scene = Scene::new().await;
    scene.fixture.budget = AFTER_A_REQUEST;
    for script in [
        "sleep",
        "spin",
        "GET /volumes; spin",
        "to other; leave GET /volumes; sleep",
    ] {
        let error = scene.error(script).await;
        assert!(
            matches!(error, BackendError::OutOfTime { .. }),
            "{script}: {error:?}"
        );
        assert_eq!(owner(&error, "volume-1"), Owner::Plugin, "{script}");
    }
}

#[tokio::test]
async fn secrets_of_a_grant_are_hidden_from_the_plugin() {
    let scene = Scene::new().await;
    assert_eq!(text_of(&scene.error("secrets").await), "other");
}

#[tokio::test]
async fn a_token_that_a_system_returns_does_not_leave() {
    let scene = Scene::new().await;
    let error = scene.error("GET /echo; answer").await;
    assert_eq!(text_of(&error), "200 Bearer [redacted]");
    let log = logged_while(async {
        scene.run("GET /echo; log").await.0.unwrap();
    })
    .await;
    assert!(log.contains("200 Bearer [redacted]"), "{log}");
    assert!(!log.contains(TOKEN), "{log}");
}

#[tokio::test]
async fn calls_share_the_value_of_a_session() {
    let scene = Scene::new().await;
    // Values of three bytes are too short for a secret, so they can be seen.
    for (script, seen) in [
        ("login one; answer", "0 one"),
        ("login two; answer", "0 one"),
        ("logout two; login two; answer", "0 one"),
        ("logout one; login two; answer", "0 two"),
        (
            "logout two; login t0ken-of-a-session; answer",
            "0 [redacted]",
        ),
        ("login two; answer", "0 [redacted]"),
    ] {
        assert_eq!(text_of(&scene.error(script).await), seen, "{script}");
    }
}

#[tokio::test]
async fn bodies_of_a_call_are_bounded_together() {
    let scene = Scene::with(Limits {
        memory_bytes: 6 << 20,
        ..Limits::default()
    })
    .await;
    let held = "body 2500000; leave POST /hang; leave POST /hang";
    let error = scene.error(&format!("{held}; POST /volumes")).await;
    assert!(text_of(&error).contains("HttpRequestBodySize"), "{error}");
    assert!(!scene.array.seen().contains(&"POST /volumes".to_owned()));
}
