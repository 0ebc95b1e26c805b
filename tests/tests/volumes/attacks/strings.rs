//! Words that are more than they seem: ids, mount flags, links that a pod leaves in its volume.

use crate::attacks::decoy::Decoy;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use tonic::Code;
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{directory_pool, left_behind};
use wasmount_tests::orchestrator::code;
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;
use xtask::mountinfo::mounts_below;

/// Longest id that is taken, in bytes; a page is too long.
const PAGE: usize = 4096;

#[tokio::test]
async fn privileged_an_id_is_a_string_and_no_path() {
    needs_root();
    let host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    let decoy = Decoy::plant(&host);
    let (unknown, malformed) = (Code::NotFound, Code::InvalidArgument);
    let forged = "x\n2026-01-01T00:00:00Z ERROR forged: line";
    for (id, expected) in [
        ("../decoy", unknown),
        ("../../../decoy", unknown),
        ("/etc", unknown),
        (".", unknown),
        ("..", unknown),
        (".wasmount", unknown),
        ("a/b", unknown),
        ("a\u{202e}b", unknown),
        (forged, unknown),
        ("\u{1b}[2J", unknown),
        (&format!("{}/../../decoy", volume.id), unknown),
        (&format!("{}\0", volume.id), malformed),
        ("\0", malformed),
        (&"x".repeat(PAGE), malformed),
        (&"../".repeat(PAGE), malformed),
    ] {
        let stage = requests::stage(id, &volume.staging);
        let publish = requests::publish(id, &volume.staging, &volume.target);
        // What is unknown is not staged, not published, and gone.
        let (not_staged, gone) = match expected {
            Code::NotFound => (Code::FailedPrecondition, Code::Ok),
            malformed => (malformed, malformed),
        };
        let found = [
            code(&orchestrator.stage_as(stage).await),
            code(&orchestrator.publish_as(publish).await),
            code(&orchestrator.stats(id, &volume.target).await),
            code(&orchestrator.expand(requests::expand(id, 1)).await),
            code(&orchestrator.unpublish_at(id, &volume.target).await),
            code(&orchestrator.unstage_at(id, &volume.staging).await),
            code(&orchestrator.delete(id).await),
        ];
        let wanted = [expected, not_staged, expected, expected, gone, gone, gone];
        assert_eq!(found, wanted, "{id:?}");
        assert!(host.mounts().unwrap().is_empty(), "{id:?}");
        decoy.assert_untouched();
    }
    let log = host.log();
    assert!(
        !log.lines()
            .any(|line| line.contains("ERROR forged") && line.starts_with("2026-01-01"))
    );
    assert!(
        !log.contains('\u{1b}'),
        "an id reaches the terminal as it is"
    );
    orchestrator.tear_down(&volume).await.unwrap();
    let left = left_behind(&host, &directory_pool(&host)).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}

#[tokio::test]
async fn privileged_a_name_of_any_bytes_is_a_volume_in_the_pool() {
    needs_root();
    let host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let decoy = Decoy::plant(&host);
    for (number, name) in ["../decoy", "/", "..", "a/b\nc", "\u{202e}"]
        .into_iter()
        .enumerate()
    {
        let (id, _) = orchestrator
            .create(requests::create(name, 1))
            .await
            .unwrap();
        let volume = orchestrator.place(&format!("pvc-{number}"), id).unwrap();
        orchestrator.set_up(&volume).await.unwrap();
        volume.write("in the pool").unwrap();
        let tree = directory_pool(&host).join(&volume.id);
        assert!(tree.join("data").exists(), "{name:?}");
        orchestrator.tear_down(&volume).await.unwrap();
        decoy.assert_untouched();
    }
    for name in ["\0", &"x".repeat(PAGE)] {
        let answer = orchestrator.create(requests::create(name, 1)).await;
        assert_eq!(code(&answer), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn privileged_mount_flags_cannot_loosen_a_mount() {
    needs_root();
    let host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    let page = "x".repeat(PAGE);
    for (flag, expected) in [
        ("suid", Code::PermissionDenied),
        ("dev", Code::PermissionDenied),
        ("exec", Code::PermissionDenied),
        ("exec,suid", Code::InvalidArgument),
        ("ro,suid", Code::InvalidArgument),
        ("upperdir=/etc", Code::InvalidArgument),
        ("bind", Code::InvalidArgument),
        ("remount", Code::InvalidArgument),
        ("", Code::InvalidArgument),
        ("ro suid", Code::InvalidArgument),
        ("ro\nsuid", Code::InvalidArgument),
        ("ro\0suid", Code::InvalidArgument),
        (&page, Code::InvalidArgument),
    ] {
        let mut stage = requests::stage(&volume.id, &volume.staging);
        let wanted = requests::mounted(Mode::SingleNodeWriter, &["noatime", flag]);
        stage.volume_capability = Some(wanted.clone());
        assert_eq!(
            code(&orchestrator.stage_as(stage).await),
            expected,
            "{flag:?}"
        );
        orchestrator.stage(&volume).await.unwrap();
        let mut publish = requests::publish(&volume.id, &volume.staging, &volume.target);
        publish.volume_capability = Some(wanted);
        assert_eq!(
            code(&orchestrator.publish_as(publish).await),
            expected,
            "{flag:?}"
        );
        orchestrator.unstage(&volume).await.unwrap();
        assert!(!volume.target.exists() && host.mounts().unwrap().is_empty());
    }
    // Flags that restrict are set, and these two always.
    let restricted = requests::mounted(Mode::SingleNodeWriter, &["noexec", "noatime"]);
    let mut stage = requests::stage(&volume.id, &volume.staging);
    stage.volume_capability = Some(restricted);
    orchestrator.stage_as(stage).await.unwrap();
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let at = format!(" {} ", volume.staging.display());
    let line = table.lines().find(|line| line.contains(&at)).unwrap();
    for flag in ["nosuid", "nodev", "noexec", "noatime"] {
        assert!(line.contains(flag), "{line}");
    }
    orchestrator.tear_down(&volume).await.unwrap();
}

#[tokio::test]
async fn privileged_what_a_pod_plants_in_its_volume_leads_nowhere() {
    needs_root();
    let host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    let decoy = Decoy::plant(&host);
    orchestrator.set_up(&volume).await.unwrap();
    let pod = &volume.target;
    symlink(decoy.path(), pod.join("out")).unwrap();
    symlink("/", pod.join("root")).unwrap();
    fs::create_dir_all(pod.join("a/b/c")).unwrap();
    symlink(decoy.path(), pod.join("a/b/c/out")).unwrap();
    fs::hard_link(pod.join("a/b/c/out"), pod.join("twice")).unwrap();
    fs::create_dir(pod.join("closed")).unwrap();
    fs::set_permissions(pod.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    // A path through the volume is no path of the node's.
    let through = pod.join("out/globalmount");
    let stage = requests::stage(&volume.id, &through);
    let refused = orchestrator.stage_as(stage).await;
    assert_ne!(code(&refused), Code::Ok);
    orchestrator.tear_down(&volume).await.unwrap();
    decoy.assert_untouched();
    let left = left_behind(&host, &directory_pool(&host)).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}

/// The administrator's own link is followed: many nodes keep kubelet's directory elsewhere.
#[tokio::test]
async fn privileged_a_kubelet_directory_that_is_a_link_works() {
    needs_root();
    let mut host = Host::start(HostOptions::default()).unwrap();
    host.terminate().unwrap();
    let real = host.kubelet();
    let link = host.root().join("kubelet-link");
    symlink(&real, &link).unwrap();
    host.options().kubelet = link;
    host.restart().unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    volume.write("kept").unwrap();
    assert_eq!(mounts_below(&real).unwrap().len(), 2);
    host.kill_9().unwrap();
    host.restart().unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    assert_eq!(mounts_below(&real).unwrap().len(), 2);
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    orchestrator.tear_down(&volume).await.unwrap();
    let left = left_behind(&host, &directory_pool(&host)).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}
