//! Words that would lead an image's stage somewhere else: ids, names, mount flags, what a pod leaves in its file system, and a kubelet
//! directory that is a link, which is no attack.

use crate::storage::{CONTENT_BYTES, assert_nothing_left, serving};
use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use tonic::Code;
use wasmount_csi::wire::csi::v1::NodeStageVolumeRequest;
use wasmount_csi::wire::csi::v1::volume_capability::AccessType;
use wasmount_tests::host::Host;
use wasmount_tests::kinds::{Kind, random_bytes};
use wasmount_tests::leaks::hostpath_pool;
use wasmount_tests::orchestrator::{Volume, code};
use wasmount_tests::requests;
use xtask::mountinfo::mounts_below;

/// Longer than any id or path of CSI's.
const PAGE: usize = 4096;

/// An image beside the pool that no id may reach.
fn plant(host: &Host) -> Vec<u8> {
    let content = random_bytes(CONTENT_BYTES);
    fs::write(host.data().join("pools/outside"), &content).unwrap();
    content
}

fn assert_untouched(host: &Host, content: &[u8]) {
    let found = fs::read(host.data().join("pools/outside")).unwrap();
    assert!(found == content, "the image beside the pool was written");
}

#[tokio::test]
async fn privileged_an_id_is_no_path_to_an_image() {
    let (host, orchestrator) = serving().await;
    let kind = Kind::Block;
    let volume = kind.created(&orchestrator, "pvc").await.unwrap();
    let outside = plant(&host);
    let (unknown, malformed) = (Code::NotFound, Code::InvalidArgument);
    for (id, expected) in [
        ("../outside", unknown),
        ("..\\outside", unknown),
        ("/etc/passwd", unknown),
        (".", unknown),
        (".wasmount/ledger", unknown),
        ("volume-", unknown),
        ("volume-\u{ff0e}\u{ff0e}\u{2215}outside", unknown),
        ("volume-x\nforged", unknown),
        (&format!("{}/../../outside", volume.id), unknown),
        (&volume.id.to_uppercase(), unknown),
        (&volume.id.replace('a', "\u{430}"), unknown),
        (&format!("{}\0", volume.id), malformed),
        (&"x".repeat(PAGE), malformed),
        (&"../".repeat(PAGE), malformed),
    ] {
        if id == volume.id {
            continue;
        }
        let other = Volume {
            id: id.to_owned(),
            ..volume.clone()
        };
        let (not_staged, gone) = match expected {
            Code::NotFound => (Code::FailedPrecondition, Code::Ok),
            malformed => (malformed, malformed),
        };
        let publish = kind.publish(&other, &volume.target);
        let found = [
            code(&orchestrator.stage_as(kind.stage(&other)).await),
            code(&orchestrator.publish_as(publish).await),
            code(&orchestrator.expand(requests::expand(id, 1)).await),
            code(&orchestrator.unpublish(&other).await),
            code(&orchestrator.unstage(&other).await),
            code(&orchestrator.delete(id).await),
        ];
        let wanted = [expected, not_staged, expected, gone, gone, gone];
        assert_eq!(found, wanted, "{id:?}");
        assert!(host.mounts().unwrap().is_empty(), "{id:?}");
    }
    assert_untouched(&host, &outside);
    orchestrator.is_known(&volume.id).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_name_of_any_bytes_is_an_image_in_the_pool() {
    let (host, orchestrator) = serving().await;
    let outside = plant(&host);
    for (number, name) in ["../outside", "/", "..", "a\\b\nc", "\u{202e}"]
        .into_iter()
        .enumerate()
    {
        let kind = Kind::Block;
        let id = orchestrator.create(kind.create(name)).await.unwrap().0;
        let volume = orchestrator.place(&format!("pvc-{number}"), id).unwrap();
        kind.set_up(&orchestrator, &volume).await.unwrap();
        kind.write(&volume.target, b"in the pool").unwrap();
        assert!(hostpath_pool(&host).join(&volume.id).is_file(), "{name:?}");
        orchestrator.tear_down(&volume).await.unwrap();
    }
    assert_untouched(&host, &outside);
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_path_that_leads_elsewhere_takes_no_image() {
    let (host, orchestrator) = serving().await;
    let outside = host.root().join("outside");
    fs::create_dir(&outside).unwrap();
    let kubelet = host.kubelet();
    let link = kubelet.join("link");
    symlink(&outside, &link).unwrap();
    for kind in [Kind::Block, Kind::Filesystem("ext4")] {
        let volume = kind.created(&orchestrator, "pvc").await.unwrap();
        let other = kind.created(&orchestrator, "other").await.unwrap();
        orchestrator.stage_as(kind.stage(&volume)).await.unwrap();
        let before = host.mounts().unwrap();
        for path in [
            outside.clone(),
            kubelet.join("../outside"),
            link.clone(),
            link.join("below"),
            kubelet.join("x".repeat(PAGE)),
            "relative".into(),
            "/dev/shm".into(),
        ] {
            let stage = NodeStageVolumeRequest {
                staging_target_path: path.display().to_string(),
                ..kind.stage(&other)
            };
            let codes = [
                code(&orchestrator.stage_as(stage).await),
                code(&orchestrator.publish_as(kind.publish(&volume, &path)).await),
                code(&orchestrator.unpublish_at(&volume.id, &path).await),
                code(&orchestrator.unstage_at(&volume.id, &path).await),
            ];
            assert_eq!(codes, [Code::InvalidArgument; 4], "{}", path.display());
        }
        assert_eq!(host.mounts().unwrap(), before);
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        orchestrator.tear_down(&other).await.unwrap();
        orchestrator.tear_down(&volume).await.unwrap();
    }
    fs::remove_file(link).unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_mount_flags_cannot_loosen_or_redirect_an_image() {
    let (host, orchestrator) = serving().await;
    let kind = Kind::Filesystem("ext4");
    let volume = kind.created(&orchestrator, "pvc").await.unwrap();
    let flagged = |flag: &str| {
        let mut stage = kind.stage(&volume);
        let capability = stage.volume_capability.as_mut().unwrap();
        if let Some(AccessType::Mount(mount)) = &mut capability.access_type {
            mount.mount_flags = vec!["noatime".to_owned(), flag.to_owned()];
        }
        stage
    };
    let page = "x".repeat(PAGE);
    let (denied, malformed) = (Code::PermissionDenied, Code::InvalidArgument);
    for (flag, expected) in [
        ("suid", denied),
        ("dev", denied),
        ("exec", denied),
        ("exec,suid", malformed),
        ("ro,suid", malformed),
        ("noexec,upperdir=/etc", malformed),
        ("noexec\0suid", malformed),
        ("noexec\nsuid", malformed),
        ("", malformed),
        (&page, malformed),
    ] {
        let refused = orchestrator.stage_as(flagged(flag)).await;
        assert_eq!(code(&refused), expected, "{flag:?}: {refused:?}");
        assert!(host.mounts().unwrap().is_empty(), "{flag:?}");
    }
    // Options of other file systems, of the tool mount(8), and of ext4's own that name a device: never the kernel's to see.
    for flag in [
        "remount",
        "bind",
        "upperdir=/etc",
        "loop=/dev/loop0",
        "device=/dev/vda",
        "journal_path=/dev/vda",
        "journal_dev=1792",
    ] {
        let refused = orchestrator.stage_as(flagged(flag)).await;
        assert!(
            [denied, malformed].contains(&code(&refused)),
            "{flag:?}: {refused:?}"
        );
        assert!(host.mounts().unwrap().is_empty(), "{flag:?}");
    }
    orchestrator.stage_as(flagged("noexec")).await.unwrap();
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let at = format!(" {} ", volume.staging.display());
    let line = table.lines().find(|line| line.contains(&at)).unwrap();
    for flag in ["nosuid", "nodev", "noexec", "noatime"] {
        assert!(line.contains(flag), "{line}");
    }
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

/// A link in the file system leads nowhere on the node, and a device file in it opens none (`nodev`).
#[tokio::test]
async fn privileged_what_a_pod_plants_in_its_image_leads_nowhere() {
    let (host, orchestrator) = serving().await;
    let kind = Kind::Filesystem("ext4");
    let outside = plant(&host);
    let volume = kind.created(&orchestrator, "pvc").await.unwrap();
    kind.set_up(&orchestrator, &volume).await.unwrap();
    let link = volume.target.join("link");
    symlink(host.data().join("pools"), &link).unwrap();
    let device = volume.target.join("device");
    let number = fs::metadata("/dev/zero").map(|it| std::os::unix::fs::MetadataExt::rdev(&it));
    let (kind_of_file, mode) = (rustix::fs::FileType::CharacterDevice, 0o666.into());
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &device,
        kind_of_file,
        mode,
        number.unwrap(),
    )
    .unwrap();
    assert!(fs::metadata(&device).unwrap().file_type().is_char_device());
    fs::read(&device).unwrap_err();
    let through = NodeStageVolumeRequest {
        staging_target_path: link.join("outside").display().to_string(),
        ..kind.stage(&volume)
    };
    assert_ne!(code(&orchestrator.stage_as(through).await), Code::Ok);
    orchestrator.tear_down(&volume).await.unwrap();
    assert_untouched(&host, &outside);
    assert_nothing_left(&host);
}

/// The administrator's own link is followed: many nodes keep kubelet's directory elsewhere.
#[tokio::test]
async fn privileged_images_work_below_a_linked_kubelet_directory() {
    let (mut host, _) = serving().await;
    host.terminate().unwrap();
    let real = host.kubelet();
    let link = host.root().join("kubelet-link");
    symlink(&real, &link).unwrap();
    host.options().kubelet = link;
    host.restart().unwrap();
    let content = random_bytes(CONTENT_BYTES);
    for kind in [Kind::Block, Kind::Filesystem("ext4")] {
        let orchestrator = host.orchestrator().await.unwrap();
        let volume = kind.created(&orchestrator, "pvc").await.unwrap();
        kind.set_up(&orchestrator, &volume).await.unwrap();
        kind.write(&volume.target, &content).unwrap();
        let mounts = mounts_below(&real).unwrap();
        let orchestrator = crate::storage::back(&mut host).await;
        kind.set_up(&orchestrator, &volume).await.unwrap();
        assert_eq!(mounts_below(&real).unwrap(), mounts);
        assert!(kind.read(&volume.target, CONTENT_BYTES).unwrap() == content);
        orchestrator.tear_down(&volume).await.unwrap();
    }
    assert_nothing_left(&host);
}
