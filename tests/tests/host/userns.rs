//! A whole life without root: the host in a user and mount namespace of its own, as on a laptop. The test looks at its mounts from outside,
//! through `/proc/<host>/root`.

use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use tonic::Code;
use wasmount_tests::documents;
use wasmount_tests::orchestrator::{Orchestrator, Volume, code};
use wasmount_tests::program;
use wasmount_tests::requests;
use xtask::place::Place;
use xtask::served::{ServeOptions, Served};
use xtask::workspace::Workspace;

/// A user without any right, in place of root.
const NOBODY: u32 = 65534;

/// Temporary directories of this test.
const PREFIX: &str = "wasmount-userns-";

/// What a host in a namespace of its own sees at a path.
fn inside(host: u32, path: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{host}/root"));
    root.join(path.strip_prefix("/").unwrap())
}

/// Mount points below a directory in the host's own mount table.
fn mounts(host: u32, below: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string(format!("/proc/{host}/mountinfo")).unwrap();
    table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(PathBuf::from)
        .filter(|point| point.starts_with(below))
        .collect()
}

/// The command that starts the host without root, also when root runs the test.
fn unprivileged() -> Vec<OsString> {
    let nobody = NOBODY.to_string();
    let mut words = Vec::new();
    if geteuid().is_root() {
        words.extend([
            "setpriv",
            "--reuid",
            &nobody,
            "--regid",
            &nobody,
            "--clear-groups",
        ]);
        words.extend(["--pdeathsig", "TERM", "--"]);
    }
    words.extend(["unshare", "--user", "--map-root-user", "--mount", "--"]);
    words.into_iter().map(OsString::from).collect()
}

/// Gives the place to the user that the host runs as, with a program and a plugin that this user may read.
fn furnish(place: &Place) -> (PathBuf, PathBuf) {
    let workspace = Workspace::locate().unwrap();
    let program = place.root().join("wasmount");
    let built = workspace.host_program();
    fs::hard_link(&built, &program)
        .or_else(|_| program::copy(&built, &program))
        .unwrap();
    let (document, component) = documents::directory_of_its_own(place.root(), "rootless").unwrap();
    if geteuid().is_root() {
        let directories = [place.data(), place.run(), place.sockets(), place.kubelet()];
        for path in directories
            .iter()
            .map(PathBuf::as_path)
            .chain([place.root()])
        {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        for file in [&document, &component] {
            fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
        }
    }
    (program, document)
}

async fn live(orchestrator: &Orchestrator, host: u32, kubelet: &Path, volume: &Volume) {
    orchestrator.set_up(volume).await.unwrap();
    let mounted = [volume.staging.clone(), volume.target.clone()];
    assert_eq!(mounts(host, kubelet), mounted);
    let seen = |path: &Path| inside(host, &path.join("data"));
    fs::write(seen(&volume.target), "kept").unwrap();
    assert_eq!(fs::read_to_string(seen(&volume.staging)).unwrap(), "kept");
    let reader = orchestrator.target("pvc", "second-pod").unwrap();
    let mut read_only = requests::publish(&volume.id, &volume.staging, &reader);
    read_only.readonly = true;
    orchestrator.publish_as(read_only).await.unwrap();
    let refused = fs::write(seen(&reader), "changed").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(fs::read_to_string(seen(&reader)).unwrap(), "kept");
    orchestrator
        .stats(&volume.id, &volume.target)
        .await
        .unwrap();
    orchestrator
        .unpublish_at(&volume.id, &reader)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_life_works_without_root_in_a_namespace() {
    let place = Place::create(PREFIX).unwrap();
    let (program, document) = furnish(&place);
    let mut served = Served::start(&ServeOptions {
        program,
        wrapper: unprivileged(),
        backends: vec![document],
        data: place.data(),
        run: place.run(),
        sockets: place.sockets(),
        kubelet: place.kubelet(),
        node_id: "test-node".to_owned(),
        role: "all".to_owned(),
        health: "off".to_owned(),
        more: Vec::new(),
        log: place.log(),
    })
    .unwrap();
    let sockets = served.sockets().unwrap();
    let (host, kubelet) = (served.process.id(), place.kubelet());
    let orchestrator = Orchestrator::connect(sockets.first().unwrap(), &kubelet)
        .await
        .unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    if geteuid().is_root() {
        // Everything above the target is the kubelet's, which here is the host's user too.
        let above = volume.target.parent().unwrap().to_owned();
        let reader = orchestrator.target("pvc", "second-pod").unwrap();
        for path in [&above, reader.parent().unwrap(), &volume.staging] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    live(&orchestrator, host, &kubelet, &volume).await;
    orchestrator.tear_down(&volume).await.unwrap();
    assert_eq!(
        code(&orchestrator.is_known(&volume.id).await),
        Code::NotFound
    );
    assert!(mounts(host, &kubelet).is_empty() && !volume.target.exists());
    drop(orchestrator);
    assert!(served.process.terminate().unwrap().success());
    // Nothing of it was ever mounted in our own namespace.
    assert!(place.remove().unwrap().is_empty());
}
