//! The pool on a server: its calls, its mount, and what is refused.

use crate::host::{Host, NAS, copy, create, mounts_below, remove, rename};
use crate::server::{Knfsd, SHARE, eventually, run, text};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::time::Duration;
use wasmount_core::mounter::MountError;
use wasmount_core::pool::{PoolCall, PoolReply};

const DONE: Result<PoolReply, MountError> = Ok(PoolReply::Done);

#[tokio::test]
async fn on_other_kernel_a_share_serves_all_calls_of_a_pool() {
    let server = Knfsd::start();
    for version in ["vers=4.1", "vers=4.2"] {
        let host = Host::new(SHARE, &[version]);
        assert_eq!(host.mounts(), Vec::<[String; 4]>::new());
        assert_eq!(host.call(create(NAS, "a")).await, DONE);
        let [mount] = host.mounts().try_into().unwrap();
        assert_eq!(mount[3], Knfsd::source(SHARE));
        assert!(mount[2].contains("nosuid,nodev"), "{}", mount[2]);
        let inside = server.share().join("a");
        let permissions = PoolCall::SetPermissions {
            pool: NAS.to_owned(),
            path: "a".to_owned(),
            mode: 0o2775,
            uid: Some(7),
            gid: Some(8),
        };
        assert_eq!(host.call(permissions).await, DONE);
        let status = fs::metadata(&inside).unwrap();
        let owner = (status.mode() & 0o7777, status.uid(), status.gid());
        assert_eq!(owner, (0o2775, 7, 8));
        // A tree with everything that a pod can put into it.
        fs::create_dir(inside.join("d")).unwrap();
        fs::write(inside.join("d/file"), "x".repeat(3 << 20)).unwrap();
        fs::hard_link(inside.join("d/file"), inside.join("name")).unwrap();
        symlink("/etc/passwd", inside.join("link")).unwrap();
        let copied = eventually(async || host.call(copy("a", "b")).await).await;
        assert_eq!(copied, PoolReply::Done);
        let copied = server.share().join("b");
        assert_eq!(fs::read(copied.join("name")).unwrap().len(), 3 << 20);
        assert_eq!(fs::metadata(copied.join("d/file")).unwrap().nlink(), 2);
        assert!(
            fs::symlink_metadata(copied.join("link"))
                .unwrap()
                .is_symlink()
        );
        assert_eq!(
            fs::metadata(&copied).unwrap().permissions().mode() & 0o7777,
            0o2775
        );
        // The same copy once more, and another one at its place.
        assert_eq!(host.call(copy("a", "b")).await, DONE);
        host.call(create(NAS, "c")).await.unwrap();
        let other = host.call(copy("c", "b")).await;
        assert!(
            matches!(other, Err(MountError::AlreadyExists(_))),
            "{other:?}"
        );
        let replaced = host.call(rename("c", "b")).await;
        assert!(
            matches!(replaced, Err(MountError::AlreadyExists(_))),
            "{replaced:?}"
        );
        assert_eq!(host.call(rename("c", "moved")).await, DONE);
        assert_eq!(host.call(rename("c", "moved")).await, DONE);
        let Ok(PoolReply::Capacity(usage)) = host
            .call(PoolCall::Capacity {
                pool: NAS.to_owned(),
            })
            .await
        else {
            panic!("no capacity");
        };
        assert!(usage.available_bytes > 0 && usage.available_bytes <= usage.total_bytes);
        let image = |path: &str| PoolCall::CreateImage {
            pool: NAS.to_owned(),
            path: path.to_owned(),
            size_bytes: 1 << 20,
        };
        assert_eq!(host.call(image("disk")).await, DONE);
        let taken = host.call(image("moved")).await;
        assert!(
            matches!(taken, Err(MountError::AlreadyExists(_))),
            "{taken:?}"
        );
        let gone = PoolCall::RemoveImage {
            pool: NAS.to_owned(),
            path: "disk".to_owned(),
        };
        assert_eq!(host.call(gone).await, DONE);
        for path in ["a", "b", "moved", "none"] {
            assert_eq!(host.call(remove(NAS, path)).await, DONE, "{path}");
        }
        let left = fs::read_dir(server.share()).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".wasmount"]);
        assert_eq!(
            fs::read_dir(server.share().join(".wasmount/trash"))
                .unwrap()
                .count(),
            0
        );
        drop(host);
    }
}

#[tokio::test]
async fn on_other_kernel_a_copy_shares_blocks_on_the_server() {
    let server = Knfsd::start();
    let host = Host::new(SHARE, &["vers=4.2"]);
    host.call(create(NAS, "a")).await.unwrap();
    fs::write(server.share().join("a/file"), vec![7; 64 << 20]).unwrap();
    run("sync", &[]);
    let free = || rustix::fs::statvfs(server.share()).map(|it| it.f_bavail * it.f_frsize);
    let before = free().unwrap();
    eventually(async || host.call(copy("a", "b")).await).await;
    run("sync", &[]);
    let taken = before.saturating_sub(free().unwrap());
    assert!(taken < 8 << 20, "the copy takes {taken} bytes");
    assert_eq!(
        fs::read(server.share().join("b/file")).unwrap(),
        vec![7; 64 << 20]
    );
}

#[tokio::test]
async fn on_other_kernel_a_mount_ends_with_its_host_or_its_grant() {
    let _server = Knfsd::start();
    let mut host = Host::new(SHARE, &[]);
    host.call(create(NAS, "a")).await.unwrap();
    assert_eq!(host.mounts().len(), 1);
    host.withdraw();
    assert_eq!(host.mounts().len(), 0);
    assert_eq!(fs::read_dir(host.mount_points()).unwrap().count(), 0);
    host.stop();
    host.start();
    host.call(create(NAS, "b")).await.unwrap();
    assert_eq!(host.mounts().len(), 1);
    host.stop();
    assert_eq!(host.mounts().len(), 0);
}

#[tokio::test]
async fn on_other_kernel_an_unused_pool_is_unmounted() {
    let _server = Knfsd::start();
    let host = Host::new(SHARE, &[]);
    host.call(create(NAS, "a")).await.unwrap();
    // The clock of the runtime jumps while nothing runs.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(host.mounts().len(), 1);
    tokio::time::sleep(Duration::from_secs(120)).await;
    tokio::time::resume();
    eventually(async || match host.mounts().len() {
        0 => Ok(()),
        _ => Err("it is still mounted"),
    })
    .await;
    host.call(create(NAS, "b")).await.unwrap();
    assert_eq!(host.mounts().len(), 1);
}

#[tokio::test]
async fn on_other_kernel_a_restarted_host_finds_its_own_mount() {
    let _server = Knfsd::start();
    let mut host = Host::new(SHARE, &[]);
    host.call(create(NAS, "a")).await.unwrap();
    let [mount] = host.mounts().try_into().unwrap();
    host.stop();
    // As a killed host leaves it, and one for a grant that is gone.
    let stale = host.mount_points().join("stale");
    for at in [std::path::Path::new(&mount[1]), &stale] {
        fs::create_dir_all(at).unwrap();
        run("mount", &["-t", "nfs4", &mount[3], text(at)]);
    }
    let [left] = mounts_below(std::path::Path::new(&mount[1]))
        .try_into()
        .unwrap();
    host.start();
    host.call(create(NAS, "b")).await.unwrap();
    eventually(async || match stale.exists() {
        true => Err("the mount of another grant is still there"),
        false => Ok(()),
    })
    .await;
    let [found] = host.mounts().try_into().unwrap();
    assert_eq!(found[0], left[0], "it was mounted anew");
}

#[tokio::test]
async fn on_other_kernel_a_share_that_leads_elsewhere_is_refused() {
    let server = Knfsd::start();
    fs::create_dir(server.disk().join("secret")).unwrap();
    fs::remove_dir(server.share()).unwrap();
    symlink("secret", server.share()).unwrap();
    let host = Host::new(SHARE, &[]);
    let refused = host.call(create(NAS, "a")).await;
    let Err(MountError::NotGranted { text, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(text.contains("leads to `127.0.0.1:/secret`"), "{text}");
    assert_eq!(host.mounts().len(), 0);
    assert_eq!(
        fs::read_dir(server.disk().join("secret")).unwrap().count(),
        0
    );
    // With the share in its place it works without a restart.
    fs::remove_file(server.share()).unwrap();
    fs::create_dir(server.share()).unwrap();
    eventually(async || host.call(create(NAS, "a")).await).await;
}

#[tokio::test]
async fn on_other_kernel_a_missing_share_is_named() {
    let server = Knfsd::start();
    let host = Host::new("none", &[]);
    let missing = host.call(create(NAS, "a")).await.unwrap_err().to_string();
    assert!(missing.contains("127.0.0.1:/none"), "{missing}");
    fs::create_dir(server.disk().join("none")).unwrap();
    eventually(async || host.call(create(NAS, "a")).await).await;
}

#[tokio::test]
async fn on_other_kernel_a_share_made_anew_is_mounted_anew() {
    let server = Knfsd::start();
    let host = Host::new(SHARE, &[]);
    host.call(create(NAS, "a")).await.unwrap();
    fs::rename(server.share(), server.disk().join("old")).unwrap();
    fs::remove_dir_all(server.disk().join("old")).unwrap();
    fs::create_dir(server.share()).unwrap();
    eventually(async || host.call(create(NAS, "b")).await).await;
    assert!(server.share().join("b").is_dir());
    assert_eq!(host.mounts().len(), 1);
}

#[tokio::test]
async fn on_other_kernel_a_mount_removed_by_hand_is_made_again() {
    let server = Knfsd::start();
    let host = Host::new(SHARE, &[]);
    host.call(create(NAS, "a")).await.unwrap();
    let [mount] = host.mounts().try_into().unwrap();
    run("umount", &["-l", &mount[1]]);
    host.call(create(NAS, "b")).await.unwrap();
    assert!(server.share().join("b").is_dir());
    assert_eq!(host.mounts().len(), 1);
}

#[tokio::test]
async fn on_other_kernel_a_pool_belongs_to_one_host_at_a_time() {
    let server = Knfsd::start();
    let other = tempfile::tempdir().unwrap();
    // Other options, so that the kernel takes it for another client's mount.
    run(
        "mount",
        &[
            "-t",
            "nfs4",
            "-o",
            "hard,noac",
            &Knfsd::source(SHARE),
            text(other.path()),
        ],
    );
    fs::create_dir(other.path().join(".wasmount")).unwrap();
    let lock = other.path().join(".wasmount/lock");
    let mut holder = Command::new("flock")
        .args([
            "--no-fork",
            text(&lock),
            "sh",
            "-c",
            "echo held; exec sleep 600",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut said).unwrap();
    let host = Host::new(SHARE, &[]);
    let refused = host.call(create(NAS, "a")).await;
    assert!(
        matches!(refused, Err(MountError::UnderWay(_))),
        "{refused:?}"
    );
    assert!(!server.share().join("a").exists());
    holder.kill().unwrap();
    holder.wait().unwrap();
    eventually(async || host.call(create(NAS, "a")).await).await;
    run("umount", &["-l", text(other.path())]);
}
