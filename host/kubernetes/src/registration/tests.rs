//! The registration task, over a real socket and a real directory, with paused time.

use super::*;
use crate::status::GapStart;
use crate::tests::api_double::{Reply, api_double};
use crate::wire::pluginregistration::registration_client::RegistrationClient;
use crate::wire::pluginregistration::{InfoRequest, RegistrationStatus as Status};
use kube::Client;
use std::os::unix::net::UnixListener;
use tempfile::TempDir;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use wasmount_socket::SOCKET_PATH_BYTES;

struct Scene {
    directory: TempDir,
    registrar: Arc<Registrar>,
    closed: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Scene {
    fn begin(since: Option<GapBegin>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::of(directory, since, None)
    }

    fn of(directory: TempDir, since: Option<GapBegin>, api: Option<Client>) -> Self {
        let registration = PluginRegistration {
            driver: DriverName::parse("a.b").unwrap(),
            registry: directory.path().to_owned(),
            endpoint: PathBuf::from("/plugins/a.b/csi.sock"),
        };
        let node = About::node("n");
        let registrar = Registrar::new(registration, node, Events::new(api, "n".to_owned()));
        let closed = CancellationToken::new();
        let task = tokio::spawn({
            let (registrar, closed) = (registrar.clone(), closed.clone());
            async move { registrar.stay(since, &closed).await }
        });
        Self {
            directory,
            registrar,
            closed,
            task,
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("a.b@reg.sock")
    }

    async fn until(&self, what: impl FnMut(&RegistrationStatus) -> bool) -> RegistrationStatus {
        self.registrar
            .status()
            .wait_for(what)
            .await
            .unwrap()
            .clone()
    }

    /// As kubelet does it: a new connection each time.
    async fn kubelet(&self) -> RegistrationClient<Channel> {
        let uri = format!("unix://{}", self.socket().display());
        let endpoint = Endpoint::from_shared(uri).unwrap();
        loop {
            match endpoint.connect().await {
                Ok(channel) => return RegistrationClient::new(channel),
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn notify(&self, plugin_registered: bool, error: &str) {
        let status = Status {
            plugin_registered,
            error: error.to_owned(),
        };
        let mut kubelet = self.kubelet().await;
        kubelet.notify_registration_status(status).await.unwrap();
    }

    async fn ends(self) {
        self.closed.cancel();
        self.task.await.unwrap();
        assert_eq!(self.directory.path().read_dir().unwrap().count(), 0);
    }
}

#[test]
fn names_of_documented_length_fit_kubelet_directories() {
    for (kubelet_dir, longest) in [
        ("/var/lib/kubelet", 63),
        ("/var/lib/k0s/kubelet", 60),
        ("/var/snap/microk8s/common/var/lib/kubelet", 39),
    ] {
        let length = |name_bytes| {
            let name = DriverName::parse("d".repeat(name_bytes).as_str()).unwrap();
            let socket = registration_socket(&registry(Path::new(kubelet_dir)), &name);
            socket.as_os_str().len()
        };
        assert!(length(longest) <= SOCKET_PATH_BYTES, "{kubelet_dir}");
        // 63: the limit of CSI.
        assert!(
            longest == 63 || length(longest + 1) > SOCKET_PATH_BYTES,
            "{kubelet_dir}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn each_get_info_of_kubelet_is_answered() {
    let scene = Scene::begin(None);
    for _ in 0..3 {
        let info = scene.kubelet().await.get_info(InfoRequest {}).await;
        let expected = PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: "a.b".to_owned(),
            endpoint: "/plugins/a.b/csi.sock".to_owned(),
            supported_versions: vec!["1.0.0".to_owned()],
        };
        assert_eq!(info.unwrap().into_inner(), expected);
    }
    let status = scene.registrar.status().borrow().clone();
    assert_eq!(
        status.reason.as_deref(),
        Some("kubelet requested plugin info and has not registered the driver yet")
    );
    scene.notify(true, "").await;
    let taken = scene.until(|status| status.registered).await;
    assert_eq!(
        (taken.registrations, taken.rebinds, taken.reason),
        (1, 0, None)
    );
    scene.ends().await;
}

#[tokio::test(start_paused = true)]
async fn a_rejected_driver_reappears_after_growing_pauses() {
    let scene = Scene::begin(None);
    let mut refused_at = Vec::new();
    for refusal in 1..=8 {
        scene.notify(false, &format!("no {refusal}")).await;
        let status = scene.until(|status| status.refusals == refusal).await;
        let reason = format!("kubelet refused it: no {refusal}");
        assert_eq!((status.registered, status.reason), (false, Some(reason)));
        assert!(!scene.socket().exists());
        refused_at.push(Instant::now());
    }
    let pauses: Vec<_> = refused_at
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_secs())
        .collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60]);
    scene.notify(true, "").await;
    let taken = scene.until(|status| status.registered).await;
    assert_eq!((taken.refusals, taken.rebinds, taken.reason), (8, 8, None));
    scene.ends().await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_says_nothing_is_shown_the_socket_anew() {
    let begun = Instant::now();
    let scene = Scene::begin(None);
    scene
        .kubelet()
        .await
        .get_info(InfoRequest {})
        .await
        .unwrap();
    scene.until(|status| status.rebinds == 2).await;
    assert_eq!(begun.elapsed().as_secs(), 600);
    // A kubelet that has registered the driver is left alone.
    scene.notify(true, "").await;
    scene.until(|status| status.registered).await;
    sleep(SILENCE * 3).await;
    assert_eq!(scene.registrar.status().borrow().rebinds, 2);
    scene.ends().await;
}

#[tokio::test(start_paused = true)]
async fn a_renewed_driver_appears_again_at_once() {
    let scene = Scene::begin(None);
    scene.notify(true, "").await;
    scene.until(|status| status.registered).await;
    let begun = Instant::now();
    scene.registrar.renew();
    let renewed = scene.until(|status| status.rebinds == 1).await;
    assert!(!renewed.registered);
    assert!(begun.elapsed() < Duration::from_secs(1));
    scene.notify(true, "").await;
    let taken = scene.until(|status| status.registered).await;
    assert_eq!(taken.registrations, 2);
    scene.ends().await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_a_socket_is_done_by_the_next_one() {
    let scene = Scene::begin(None);
    scene.notify(false, "no").await;
    scene.until(|status| status.refusals == 1).await;
    scene.registrar.renew();
    scene.notify(true, "").await;
    let taken = scene.until(|status| status.registered).await;
    assert_eq!((taken.registrations, taken.rebinds), (1, 1));
    scene.ends().await;
}

#[tokio::test(start_paused = true)]
async fn another_process_is_not_fought_and_its_socket_stays() {
    let scene = Scene::begin(None);
    scene.notify(true, "").await;
    std::fs::remove_file(scene.socket()).unwrap();
    let other = UnixListener::bind(scene.socket()).unwrap();
    let reason = format!(
        "another process serves on {}: stop it first",
        scene.socket().display()
    );
    let status = scene
        .until(|status| status.reason.as_deref() == Some(reason.as_str()))
        .await;
    assert!(!status.registered);
    sleep(Duration::from_secs(600)).await;
    assert!(scene.socket().exists());
    // Killed: its socket file is stale now.
    drop(other);
    scene.notify(true, "").await;
    scene.until(|status| status.registered).await;
    scene.ends().await;
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_is_not_there_yet_is_waited_for() {
    let scene = Scene::begin(None);
    scene.notify(true, "").await;
    scene.until(|status| status.registered).await;
    std::fs::remove_dir_all(scene.directory.path()).unwrap();
    let status = scene
        .until(|status| {
            status
                .reason
                .as_ref()
                .is_some_and(|it| it.contains("No such file"))
        })
        .await;
    assert!(!status.registered);
    std::fs::create_dir(scene.directory.path()).unwrap();
    scene.notify(true, "").await;
    scene.until(|status| status.registered).await;
    scene.ends().await;
}

#[tokio::test(start_paused = true)]
async fn the_gap_is_the_first_registrations_alone() {
    let ago = SystemTime::now() - Duration::from_secs(100);
    let beginning = Beginning {
        started: SystemTime::now(),
        succeeded: None,
    };
    let scene = Scene::begin(Gap::start(Some(LastService::Until(ago)), beginning));
    scene.notify(true, "").await;
    let gap = scene.until(|status| status.registered).await.gap.unwrap();
    assert_eq!(gap.from, GapStart::Stopped);
    assert!(gap.length >= Duration::from_secs(100));
    scene.notify(true, "").await;
    let again = scene.until(|status| status.registrations == 2).await;
    assert_eq!(again.gap, Some(gap));
    scene.ends().await;
}

#[tokio::test(start_paused = true)]
async fn recovery_is_reported_only_for_reported_errors() {
    let (client, requests) = api_double(|request| Reply::Object(request.body.clone()));
    let directory = tempfile::tempdir().unwrap();
    let others = UnixListener::bind(directory.path().join("a.b@reg.sock")).unwrap();
    let scene = Scene::of(directory, None, Some(client));
    let reasons = || {
        let requests = requests.lock().unwrap();
        let reasons = requests.iter().map(|it| it.body["reason"].clone());
        reasons.collect::<Vec<_>>()
    };
    let events_written = async |count| {
        let polling = async {
            while reasons().len() < count {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(SILENCE, polling).await.unwrap();
    };
    // Before it was bound for the first time.
    scene
        .until(|it| it.reason.is_some() && it.rebinds == 0 && !it.registered)
        .await;
    events_written(1).await;
    drop(others);
    scene.notify(true, "").await;
    scene.until(|it| it.registrations == 1).await;
    events_written(2).await;
    // This one has no receiver.
    scene.registrar.renew();
    scene.until(|it| it.rebinds == 1 && !it.registered).await;
    scene.notify(true, "").await;
    scene.until(|it| it.registrations == 2).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(reasons(), ["DriverRegistrationBlocked", "DriverRegistered"]);
    scene.ends().await;
}
