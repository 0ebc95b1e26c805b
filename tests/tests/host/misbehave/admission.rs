//! A plugin that misbehaves before it serves: it is not put to use, its driver says why, and other drivers of the host serve.

use crate::misbehave::row::Told::{self, Fault, Fine, Words};
use crate::misbehave::scene::{self, PASSWORD, digest};
use std::time::{Duration, Instant};
use tonic::Code;
use wasmount_csi::wire::csi::v1::GetPluginInfoRequest;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::orchestrator::{Orchestrator, code};

/// The setting `behaviour`, the code of a call to its driver, and what is said.
pub(crate) const TABLE: &[(&str, Code, Told)] = &[
    (
        "unknown-feature",
        Code::Unavailable,
        Fault("unknown feature `clone-volumes`, did you mean `clone-volume`?"),
    ),
    (
        "contradicting-feature",
        Code::Unavailable,
        Fault("contradicts the interface `controller-expand`"),
    ),
    (
        "secret-in-feature",
        Code::Unavailable,
        Words("unknown feature `[redacted]`"),
    ),
    (
        "bad-name",
        Code::Unavailable,
        Words("name is no driver name"),
    ),
    ("no-version", Code::Unavailable, Words("version is empty")),
    (
        "secret-in-name",
        Code::Unavailable,
        Words("name contains the value of a secret"),
    ),
    (
        "secret-in-manifest",
        Code::Unavailable,
        Words("manifest contains the value of a secret"),
    ),
    (
        "trap-at-admission",
        Code::Unavailable,
        Words("trapped in get-plugin-info: "),
    ),
    (
        "trap-in-probe",
        Code::Unavailable,
        Fault("trapped in probe: "),
    ),
    (
        "trap-in-check",
        Code::Unavailable,
        Fault("trapped in check-settings: "),
    ),
    (
        "bad-settings",
        Code::Unavailable,
        Words("`endpoint` is missing"),
    ),
    (
        "spin-in-check",
        Code::Unavailable,
        Fault("limits.cpu (0.2 s)"),
    ),
    (
        "sleep-in-check",
        Code::Unavailable,
        Fault("did not answer check-settings within 5 s"),
    ),
    (
        "allocate-in-check",
        Code::Unavailable,
        Fault("limits.memory"),
    ),
    // What they try to destroy, they do not.
    (
        "destroy-in-check",
        Code::Unavailable,
        Words("there is nothing left to serve"),
    ),
    (
        "destroy-in-probe",
        Code::Unavailable,
        Fault("trapped in probe: "),
    ),
    (
        "write-in-probe",
        Code::Unavailable,
        Fault("state cannot be changed in a call that only reads"),
    ),
    // Another plugin than none.
    ("destroy-as-another", Code::Ok, Fine),
    ("look-in-check", Code::Ok, Fine),
    // These serve, and the administrator is warned.
    ("experimental-feature", Code::Ok, Fine),
    ("not-ready", Code::Ok, Fine),
    ("unwell", Code::Ok, Fine),
    ("doubtful-settings", Code::Ok, Fine),
    ("secret-in-warning", Code::Ok, Fine),
    ("secret-in-version", Code::Ok, Fine),
];

/// Limits of a plugin, so ample that on a busy machine, with 25 admissions at once, none meets a limit that is not its subject.
const LIMITS: &str = "{ time: 60s, cpu: 10s, memory: 48Mi }";
/// Limits of the plugin that computes without end.
const SHORT_CPU: &str = "{ time: 60s, cpu: 200ms, memory: 48Mi }";
/// Limits of the plugin that waits without end.
const SHORT_TIME: &str = "{ time: 5s, cpu: 10s, memory: 48Mi }";
/// How long an admission may take: the plugin is compiled first.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// What a driver says until then.
const NOT_YET: &str = "it was not loaded yet";

#[test]
fn privileged_a_plugin_that_misbehaves_at_admission_is_rejected() {
    scene::run(async {
        let folder = tempfile::tempdir().unwrap();
        let document = |behaviour: &str| {
            let limits = match behaviour {
                "spin-in-check" => SHORT_CPU,
                "sleep-in-check" => SHORT_TIME,
                _ => LIMITS,
            };
            let lines = format!("  settings: {{ behaviour: {behaviour} }}\n  limits: {limits}\n");
            scene::document(folder.path(), behaviour, PASSWORD, &lines)
        };
        // Compiled once beforehand: compiling is not what is tested.
        let neighbour = documents::directory_of_its_own(folder.path(), "neighbour")
            .unwrap()
            .0;
        let mut host = Host::start(HostOptions {
            backends: vec![document("behave"), neighbour.clone()],
            more: ["--log", "trace"].map(Into::into).into(),
            ..HostOptions::default()
        })
        .unwrap();
        for socket in host.sockets() {
            Orchestrator::connect(socket, &host.kubelet())
                .await
                .unwrap();
        }
        host.terminate().unwrap();
        let backends = TABLE.iter().map(|row| document(row.0));
        host.options().backends = backends.chain([neighbour]).collect();
        host.restart().unwrap();
        let kubelet = host.kubelet();
        let socket = |driver: &str| {
            let wanted = |path: &&std::path::PathBuf| {
                path.to_string_lossy().contains(&format!("/{driver}/"))
            };
            host.sockets().iter().find(wanted).unwrap().clone()
        };
        let neighbour = Orchestrator::connect(&socket("neighbour"), &kubelet)
            .await
            .unwrap();
        let volume = neighbour.created("next-door").await.unwrap();
        neighbour.set_up(&volume).await.unwrap();

        let mut wrong = Vec::new();
        let label = format!("plugin misbehave.wasmount.io 0.1.0 ({})", digest());
        for (behaviour, expected, told) in TABLE {
            let driver = Orchestrator::connect_at_once(&socket(behaviour), &kubelet)
                .await
                .unwrap();
            let said = admitted(&driver).await;
            let message = said.as_ref().map_err(|status| status.message().to_owned());
            let as_told = match (told, &message) {
                (Fault(words), Err(message)) => message.contains(&label) && message.contains(words),
                (Words(words), Err(message)) => {
                    message.contains(words) && message.contains("plugin")
                }
                (Fine, Ok(())) => true,
                _ => false,
            };
            if code(&said) != *expected || !as_told {
                wrong.push(format!("{behaviour}: {said:?}, not {expected:?} {told:?}"));
            }
            // The socket serves all the same.
            let mut identity = driver.clients().identity;
            let info = identity
                .get_plugin_info(GetPluginInfoRequest {})
                .await
                .unwrap();
            assert_eq!(info.get_ref().name, *behaviour);
            assert!(!format!("{info:?}").contains(PASSWORD), "{behaviour}");
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        neighbour.tear_down(&volume).await.unwrap();
        let log = host.log();
        assert!(!log.contains(PASSWORD));
        assert!(
            log.contains("`endpoint` has no TLS") && log.contains("the storage system is away")
        );
    });
}

/// What the driver says of its plugin, once that is known.
async fn admitted(driver: &Orchestrator) -> Result<(), tonic::Status> {
    let start = Instant::now();
    loop {
        let said = driver.has_plugin().await;
        let undecided = said
            .as_ref()
            .is_err_and(|status| status.message().contains(NOT_YET));
        if !undecided || start.elapsed() > PATIENCE {
            return said;
        }
        tokio::time::sleep(LOOK).await;
    }
}
