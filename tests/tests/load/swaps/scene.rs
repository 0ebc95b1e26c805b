//! One host with one driver of plugins/directory, whose document and components lie where the test can replace them, and its admin socket.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use wasmount_control::Client;
use wasmount_control::messages::{Done, DriverReport, History, Plugin, Rollback, Swap};
use wasmount_tests::builds;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::left_behind;
use wasmount_tests::namespace;
use wasmount_tests::root::needs_root;

/// The driver's name.
pub(crate) const DRIVER: &str = "swapped.example.com";

/// How long something may take that the host does by itself. Generous: other tests share the machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// The host and what it serves.
pub(crate) struct Scene {
    pub(crate) host: Host,
    pub(crate) client: Client,
    pub(crate) document: PathBuf,
    /// Where the document says that the component is.
    pub(crate) component: PathBuf,
    folder: TempDir,
}

impl Scene {
    /// Serves the build as it is, with these lines more in the document's spec.
    pub(crate) async fn with(lines: &str) -> Self {
        Self::serving("directory", lines).await
    }

    /// The same of another plugin.
    pub(crate) async fn serving(plugin: &str, lines: &str) -> Self {
        needs_root();
        namespace::enter();
        let folder = tempfile::tempdir().unwrap();
        let (document, component) = documents::directory_of_its_own(folder.path(), DRIVER).unwrap();
        builds::put(&builds::build_of(plugin, "first").unwrap(), &component).unwrap();
        append(&document, lines);
        let host = Host::start(HostOptions {
            backends: vec![document.clone()],
            ..HostOptions::default()
        })
        .unwrap();
        host.orchestrator().await.unwrap();
        let scene = Self {
            client: Client::new(host.data().join("admin.sock")),
            host,
            document,
            component,
            folder,
        };
        // Calls go to a version a moment before it is told.
        scene
            .until("it serves", |it| it.status.version.is_some())
            .await;
        scene
    }

    /// Two builds of the plugin, each in a file of its own.
    pub(crate) fn two_builds(&self) -> [Plugin; 2] {
        ["one", "two"].map(|mark| self.build("directory", mark))
    }

    /// A build in a file of its own.
    pub(crate) fn build(&self, plugin: &str, mark: &str) -> Plugin {
        let path = self.folder.path().join(format!("{plugin}-{mark}.wasm"));
        fs::write(&path, builds::build_of(plugin, mark).unwrap()).unwrap();
        Plugin::File(path.display().to_string())
    }

    /// Has it serve another component; it must be taken.
    pub(crate) async fn swap(&self, plugin: &Plugin) -> Done {
        let swap = Swap {
            plugin: Some(plugin.clone()),
            ..Swap::default()
        };
        self.client.swap(DRIVER, &swap).await.unwrap()
    }

    /// Has it serve what the document says now.
    pub(crate) async fn swap_to_document(&self) -> Done {
        self.client.swap(DRIVER, &Swap::default()).await.unwrap()
    }

    /// Goes back by one.
    pub(crate) async fn roll_back(&self) -> Done {
        let back = Rollback::default();
        self.client.rollback(DRIVER, &back).await.unwrap()
    }

    /// How it stands.
    pub(crate) async fn status(&self) -> DriverReport {
        let status = self.client.status().await.unwrap();
        let mut drivers = status.drivers.into_iter();
        drivers.find(|it| it.driver == DRIVER).unwrap()
    }

    /// Waits until it stands so.
    pub(crate) async fn until(
        &self,
        what: &str,
        mut holds: impl FnMut(&DriverReport) -> bool,
    ) -> DriverReport {
        let start = Instant::now();
        loop {
            let status = self.status().await;
            if holds(&status) {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "not so: {what}: {status:#?}");
            sleep(LOOK).await;
        }
    }

    /// Its versions, the newest first.
    pub(crate) async fn history(&self) -> History {
        self.client.history(DRIVER).await.unwrap()
    }

    /// Nothing is left of any volume.
    pub(crate) fn nothing_is_left(&self) {
        let pool = self.host.mount_data().join("pools").join(DRIVER);
        let left = left_behind(&self.host, &pool).unwrap();
        assert!(left.is_empty(), "{left:#?}");
    }
}

/// Adds lines to a document; it is replaced as a whole.
pub(crate) fn append(document: &Path, lines: &str) {
    let text = fs::read_to_string(document).unwrap() + lines;
    builds::put(text.as_bytes(), document).unwrap();
}
