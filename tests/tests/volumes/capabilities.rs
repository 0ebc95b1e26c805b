//! A controller that works on pools needs each capability that `wasmount manifests` prints for it: without one of them, an operation of a life fails.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use tonic::Code;
use wasmount_csi::wire::csi::v1::CreateVolumeRequest;
use wasmount_tests::copies::{delete_snapshot, snapshot};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions, HostRole};
use wasmount_tests::orchestrator::{Orchestrator, patiently};
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;

/// The kernel's text for EACCES.
const DENIED: &str = "Permission denied";

/// Where a life ends without a capability, and how: `docs/mounter.md` has the table.
const NEEDED: [(&str, &str, &str); 4] = [
    ("chown", "CreateVolume", "Operation not permitted"),
    ("dac_override", "CreateSnapshot", DENIED),
    ("fowner", "CreateVolume", "Operation not permitted"),
    // The kernel reports no error: it drops the bit.
    ("fsetid", "CreateVolume", "770"),
];

/// The share of the volumes; nothing is mounted from it.
const SHARE: &str = "127.0.0.1:/share";

/// The mode of a volume, for the group of its pods.
const MODE: u32 = 0o2770;

/// The user of a pod, and of its volume.
const POD: u32 = 1001;

/// A controller with the capabilities of the manifests, except one.
fn start(document: &Path, without: &str) -> Host {
    let capabilities = NEEDED.iter().map(|(capability, ..)| *capability);
    let kept = capabilities.filter(|capability| *capability != without);
    let kept: String = kept.map(|capability| format!(",+{capability}")).collect();
    let kept = format!("-all{kept}");
    let words = [
        "setpriv",
        "--inh-caps=-all",
        "--bounding-set",
        &kept,
        "--no-new-privs",
        "--pdeathsig=TERM",
        "--",
    ];
    let host = Host::start(HostOptions {
        backends: vec![document.to_owned()],
        role: HostRole::Controller,
        wrapper: words.map(OsString::from).to_vec(),
        ..HostOptions::default()
    });
    host.unwrap()
}

/// A volume with files that its pod keeps to itself, a snapshot of it, and the end of both. Returns the first call that fails, and why.
async fn live(orchestrator: &Orchestrator, pool: &Path) -> Result<(), (&'static str, String)> {
    let failed = |call| move |status: tonic::Status| (call, status.message().to_owned());
    let parameters = [
        ("server", "127.0.0.1"),
        ("share", "/share"),
        ("mountPermissions", "2770"),
        ("uid", "1001"),
        ("gid", "1001"),
    ];
    let request = CreateVolumeRequest {
        parameters: parameters
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..requests::create("pvc", 1 << 20)
    };
    let created = orchestrator.create(request).await;
    let (id, _) = created.map_err(failed("CreateVolume"))?;
    let volume = pool.join("pvc");
    let status = fs::metadata(&volume).unwrap();
    assert_eq!((status.uid(), status.gid()), (POD, POD));
    if status.mode() & 0o7777 != MODE {
        return Err(("CreateVolume", format!("{:o}", status.mode() & 0o7777)));
    }
    let private = volume.join("private");
    fs::create_dir(&private).unwrap();
    fs::write(private.join("file"), "of the pod").unwrap();
    for (path, mode) in [(private.join("file"), 0o400), (private, 0o1700)] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        chown(&path, Some(POD), Some(POD)).unwrap();
    }
    // A copy may take several calls; what the kernel denies, it denies each time.
    let take = async || match snapshot(orchestrator, &id, "s").await {
        Err(status) if status.message().contains(DENIED) => Ok(Err(status)),
        taken => taken.map(Ok),
    };
    let taken = patiently(&[Code::Aborted], take).await.flatten();
    let taken = taken.map_err(failed("CreateSnapshot"))?;
    let deleted = delete_snapshot(orchestrator, &taken).await;
    deleted.map_err(failed("DeleteSnapshot"))?;
    let deleted = orchestrator.delete(&id).await;
    deleted.map_err(failed("DeleteVolume"))
}

#[tokio::test]
async fn privileged_a_controller_needs_each_printed_capability() {
    needs_root();
    for (capability, call, reason) in NEEDED {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("pool");
        fs::create_dir(&pool).unwrap();
        let document = documents::nfs_over_pool(folder.path(), SHARE, &pool).unwrap();
        let host = start(&document, capability);
        let orchestrator = host.orchestrator().await.unwrap();
        let ended = live(&orchestrator, &pool).await.unwrap_err();
        assert_eq!(ended.0, call, "{capability}: {}", ended.1);
        assert!(ended.1.contains(reason), "{capability}: {}", ended.1);
    }
}

#[tokio::test]
async fn privileged_a_controller_lives_with_printed_capabilities() {
    needs_root();
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("pool");
    fs::create_dir(&pool).unwrap();
    let document = documents::nfs_over_pool(folder.path(), SHARE, &pool).unwrap();
    let host = start(&document, "none");
    let orchestrator = host.orchestrator().await.unwrap();
    live(&orchestrator, &pool).await.unwrap();
    let left = fs::read_dir(&pool).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".wasmount"]);
}
