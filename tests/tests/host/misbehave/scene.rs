//! One host with two drivers: one that misbehaves, with short limits, and one that lives beside it. Everything that is asked of the first goes
//! through here, so that at the end one question covers all answers: did the secret get out?

use crate::misbehave::neighbour::Neighbour;
use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use wasmount_csi::wire::csi::v1::NodeStageVolumeRequest;
use wasmount_csi::wire::csi::v1::group_controller_client::GroupControllerClient;
use wasmount_csi::wire::csi::v1::snapshot_metadata_client::SnapshotMetadataClient;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{below, left_behind};
use wasmount_tests::namespace;
use wasmount_tests::orchestrator::{Orchestrator, Volume};
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;
use xtask::workspace::Workspace;

/// The driver's name.
pub(crate) const DRIVER: &str = "misbehave";
/// The other driver's.
const NEIGHBOUR: &str = "neighbour";
/// What the plugin calls itself.
const PLUGIN: &str = "plugin misbehave.wasmount.io 0.1.0";
/// Value of the request's secret and of the backend's. It is a valid topology segment and driver name, so that only being a secret is
/// wrong with it.
pub(crate) const PASSWORD: &str = "tr0ub4dor.hunter22.correct-horse";

/// Limits that a test need not wait for. CPU well above what a call takes in a debug build; time so
/// far above it that on a busy machine a guest gets that much of it.
pub(crate) const LIMITS: &str =
    "{ time: 5s, cpu: 200ms, memory: 48Mi, handles: 100, stateBytes: 256Ki, concurrency: 16 }";

/// The host.
pub(crate) struct Scene {
    pub(crate) host: Host,
    pub(crate) driver: Driver,
    neighbour: Neighbour,
    _documents: TempDir,
}

/// The driver that misbehaves. What it answers is kept.
#[derive(Clone)]
pub(crate) struct Driver {
    pub(crate) orchestrator: Orchestrator,
    pub(crate) groups: GroupControllerClient<Channel>,
    pub(crate) metadata: SnapshotMetadataClient<Channel>,
    pub(crate) secrets: BTreeMap<String, String>,
    pub(crate) pool: PathBuf,
    answers: Arc<Mutex<Vec<String>>>,
    label: String,
}

impl Scene {
    /// With these lines more in the document's spec.
    pub(crate) async fn with(lines: &str) -> Self {
        Self::holding(PASSWORD, lines).await
    }

    /// With another secret.
    pub(crate) async fn holding(password: &str, lines: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bad = document(folder.path(), DRIVER, password, lines);
        let (good, _) = documents::directory_of_its_own(folder.path(), NEIGHBOUR).unwrap();
        let host = Host::start(HostOptions {
            backends: vec![bad, good],
            more: ["--log", "trace"].map(Into::into).into(),
            ..HostOptions::default()
        })
        .unwrap();
        let kubelet = host.kubelet();
        let [bad, good] = [0, 1].map(|index| host.sockets().get(index).unwrap().clone());
        let neighbour = Orchestrator::connect(&good, &kubelet).await.unwrap();
        let driver = Driver::connect(&bad, &host, password).await;
        Self {
            neighbour: Neighbour::start(neighbour),
            driver,
            host,
            _documents: folder,
        }
    }

    /// Ends the host between two lives of the neighbour, and starts it again.
    pub(crate) async fn restarts(&mut self) {
        self.neighbour.rests().await;
        self.host.terminate().unwrap();
        self.host.restart().unwrap();
        let kubelet = self.host.kubelet();
        let [bad, good] = [0, 1].map(|index| self.host.sockets().get(index).unwrap().clone());
        let answers = self.driver.answers.clone();
        let password = self.driver.secrets.get("password").unwrap().clone();
        self.driver = Driver::connect(&bad, &self.host, &password).await;
        self.driver.answers = answers;
        let neighbour = Orchestrator::connect(&good, &kubelet).await.unwrap();
        self.neighbour = Neighbour::start(neighbour);
    }

    /// The driver and its neighbour serve as if nothing had been; `after` says what was.
    pub(crate) async fn goes_on(&self, after: &str) {
        self.driver.lives(after).await;
        self.neighbour.lives_on(after).await;
    }

    /// The neighbour had no failure, nothing is left behind, and the secret is nowhere.
    pub(crate) async fn ends_whole(mut self) {
        self.neighbour.rests().await;
        let pools = self.host.mount_data().join("pools");
        for driver in [DRIVER, NEIGHBOUR] {
            let left = left_behind(&self.host, &pools.join(driver)).unwrap();
            assert!(left.is_empty(), "{left:#?}");
        }
        self.assert_secret_is_nowhere();
    }

    /// In the log, in the host's files and in all answers, whole or the half of it.
    fn assert_secret_is_nowhere(&self) {
        let password = self.driver.secrets.get("password").unwrap();
        let lines = password.lines().filter(|line| line.len() > 8);
        let half = |line: &str| line.get(..line.len() / 2).unwrap().to_owned();
        let traces: Vec<String> = lines.map(half).collect();
        let files = below(self.host.root()).unwrap();
        let files = files.iter().filter(|path| path.is_file());
        let places = files.map(|path| {
            let content = fs::read(path).unwrap_or_default();
            let content = String::from_utf8_lossy(&content).into_owned();
            (path.display().to_string(), content)
        });
        let answers = self.driver.answers.lock().unwrap().clone();
        let answers = answers
            .into_iter()
            .map(|answer| ("an answer".to_owned(), answer));
        let (mut looked_at, mut log_is_full) = (0, false);
        for (place, content) in places.chain(answers) {
            looked_at += 1;
            // It is the right log: the calls are in it.
            log_is_full |= content.contains("TRACE") || content.contains("DEBUG");
            for trace in &traces {
                assert!(!content.contains(trace), "{place} holds the secret");
                assert!(!place.contains(trace), "{place} is named by the secret");
            }
        }
        assert!(looked_at > 3 && log_is_full, "{looked_at} places");
    }
}

impl Driver {
    async fn connect(socket: &Path, host: &Host, password: &str) -> Self {
        let orchestrator = Orchestrator::connect(socket, &host.kubelet())
            .await
            .unwrap();
        let address = format!("unix://{}", socket.display());
        let channel = Endpoint::from_shared(address)
            .unwrap()
            .connect()
            .await
            .unwrap();
        Self {
            orchestrator,
            groups: GroupControllerClient::new(channel.clone()),
            metadata: SnapshotMetadataClient::new(channel),
            secrets: [("password".to_owned(), password.to_owned())].into(),
            pool: host.mount_data().join("pools").join(DRIVER),
            answers: Arc::default(),
            label: format!("{PLUGIN} ({})", digest()),
        }
    }

    /// Name, version and digest of the plugin, as its faults are reported.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Keeps what was answered, and gives it in words.
    pub(crate) fn keep<T: std::fmt::Debug>(
        &self,
        answer: Result<Response<T>, Status>,
    ) -> Result<String, Status> {
        let answer = answer.map(|answer| format!("{:?}", answer.into_inner()));
        let mut kept = self.answers.lock().unwrap();
        kept.push(match &answer {
            Ok(answer) => answer.clone(),
            Err(status) => format!(
                "{}\n{}\n{:?}",
                status.message(),
                String::from_utf8_lossy(status.details()),
                status.metadata()
            ),
        });
        answer
    }

    /// A volume in the pool, with its place.
    pub(crate) async fn volume(&self, id: &str) -> Volume {
        let created = self
            .orchestrator
            .create(requests::create(id, 1 << 20))
            .await;
        let (id, _) = created.unwrap();
        self.orchestrator.place(&id.clone(), id).unwrap()
    }

    /// One whole life of a volume.
    async fn lives(&self, after: &str) {
        let volume = self.volume("behave.as-it-should").await;
        let life = async {
            self.orchestrator.set_up(&volume).await?;
            volume
                .write("whole")
                .map_err(|error| Status::internal(error.to_string()))?;
            self.orchestrator.tear_down(&volume).await
        };
        life.await
            .unwrap_or_else(|status| panic!("after {after}: {status}"));
    }

    /// NodeStageVolume with a word and the secrets.
    pub(crate) fn stage(&self, volume: &Volume, behaviour: &str) -> NodeStageVolumeRequest {
        NodeStageVolumeRequest {
            secrets: self.secrets.clone(),
            volume_context: word(behaviour),
            ..requests::stage(&volume.id, &volume.staging)
        }
    }
}

/// Runs a test in a mount namespace of its own, which the threads of its runtime must be born in.
pub(crate) fn run(test: impl Future<Output = ()>) {
    needs_root();
    namespace::enter();
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

/// As parameters and contexts carry it.
pub(crate) fn word(behaviour: &str) -> BTreeMap<String, String> {
    [("behaviour".to_owned(), behaviour.to_owned())].into()
}

/// Writes a document that serves the plugin with a pool, a secret and short limits, unless these lines have others.
pub(crate) fn document(folder: &Path, driver: &str, password: &str, lines: &str) -> PathBuf {
    fs::write(folder.join("password"), password).unwrap();
    let component = Workspace::locate().unwrap().component("misbehave");
    let limits = match lines.contains("limits:") {
        true => String::new(),
        false => format!("  limits: {LIMITS}\n"),
    };
    let text = format!(
        "apiVersion: wasmount.io/v1alpha1\n\
         kind: StorageBackend\n\
         metadata: {{ name: {driver} }}\n\
         spec:\n  \
           driverName: {driver}\n  \
           plugin: {{ path: {component:?} }}\n  \
           secrets: {{ password: {{ file: password }} }}\n  \
           grants: {{ pools: {{ volumes: {{ path: pools/{driver} }} }} }}\n\
         {limits}{lines}"
    );
    let path = folder.join(format!("{driver}.yaml"));
    fs::write(&path, text).unwrap();
    path
}

/// Of the plugin's file, by sha256sum.
pub(crate) fn digest() -> String {
    let component = Workspace::locate().unwrap().component("misbehave");
    let said = Command::new("sha256sum").arg(component).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    format!("sha256:{}", said.split_whitespace().next().unwrap())
}
