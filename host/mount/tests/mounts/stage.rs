//! NodeStageVolume.

use crate::bench::*;
use rustix::mount::{MountFlags, mount_remount};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use wasmount_core::mounter::Staged;
use wasmount_core::plan::Source;
use wasmount_core::volume::{AccessMode, AccessType, VolumeCapability};

#[test]
fn privileged_a_tree_is_staged_and_twice_is_once() {
    privileged(async |bench| {
        bench.volume("v");
        assert_eq!(bench.staged("v").await, Ok(Staged::No));
        for _ in 0..2 {
            bench.stage("v").await.unwrap();
            assert_eq!(bench.mounts_at(&bench.staging("v")), 1);
            assert_eq!(bench.staged("v").await, Ok(Staged::AsWanted));
        }
        assert_eq!(fs::read(bench.staging("v").join("name")).unwrap(), b"v");
        fs::write(bench.staging("v").join("new"), "x").unwrap();
        assert_eq!(fs::read(bench.path("pool/v/new")).unwrap(), b"x");
        let [(_, options)] = bench.mounts().try_into().unwrap();
        assert!(
            options.contains("nosuid") && options.contains("nodev") && options.starts_with("rw"),
            "{options}"
        );
        assert_eq!(bench.mounter.notes(key("v")).await.unwrap()["portal"], "a");
    });
}

#[test]
fn privileged_a_mode_that_only_reads_is_staged_read_only() {
    privileged(async |bench| {
        bench.volume("v");
        bench
            .stage_as("v", AccessMode::MultiNodeReaderOnly)
            .await
            .unwrap();
        let refused = fs::write(bench.staging("v").join("new"), "x").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        assert_eq!(variant(bench.publish("v", "a").await), "OtherwiseThere");
    });
}

#[test]
fn privileged_another_capability_or_path_or_source_is_refused() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        let many = AccessMode::MultiNodeMultiWriter;
        assert_eq!(variant(bench.stage_as("v", many).await), "OtherwiseThere");
        let mut request = bench.stage_request("v", with_flags(WRITER, &["noexec"]));
        assert_eq!(
            variant(bench.mounter.stage(request.clone()).await),
            "OtherwiseThere"
        );
        request.capability = capability(WRITER);
        fs::create_dir(bench.staging("elsewhere")).unwrap();
        request.staging_path = node_path(&bench.staging("elsewhere"));
        assert_eq!(
            variant(bench.mounter.stage(request.clone()).await),
            "OtherwiseThere"
        );
        fs::create_dir(bench.path("pool/w")).unwrap();
        request.staging_path = node_path(&bench.staging("v"));
        request.plan = tree("w");
        assert_eq!(
            variant(bench.mounter.stage(request).await),
            "OtherwiseThere"
        );
        // It is unchanged.
        assert_eq!(bench.staged("v").await, Ok(Staged::AsWanted));
        assert_eq!(bench.mounts().len(), 1);
    });
}

#[test]
fn privileged_a_volume_unmounted_by_hand_is_staged_again() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        take_off(bench.staging("v"));
        assert_eq!(bench.staged("v").await, Ok(Staged::No));
        bench.stage("v").await.unwrap();
        assert_eq!(bench.mounts_at(&bench.staging("v")), 1);
    });
}

#[test]
fn privileged_an_unsuitable_staging_path_is_rejected() {
    privileged(async |bench| {
        bench.volume("v");
        let staging = bench.staging("v");
        fs::remove_dir(&staging).unwrap();
        assert_eq!(variant(bench.stage("v").await), "Precondition");
        fs::write(&staging, "").unwrap();
        assert_eq!(variant(bench.stage("v").await), "OtherwiseThere");
        fs::remove_file(&staging).unwrap();
        symlink(bench.path("outside"), &staging).unwrap();
        assert_eq!(variant(bench.stage("v").await), "OutsideRoots");
        fs::remove_file(&staging).unwrap();
        fs::create_dir(&staging).unwrap();
        bench.mount_something_at(&staging);
        assert_eq!(variant(bench.stage("v").await), "OtherwiseThere");
        assert_eq!(bench.mounts().len(), 1);
        assert_eq!(bench.journal_files().len(), 0);
    });
}

#[test]
fn privileged_a_path_outside_of_the_roots_is_refused() {
    privileged(async |bench| {
        bench.volume("v");
        symlink(bench.path("outside"), bench.path("kubelet/link")).unwrap();
        let kubelet = bench.path("kubelet");
        let mut request = bench.stage_request("v", capability(WRITER));
        for path in [
            bench.path("outside"),
            kubelet.clone(),
            kubelet.join("../outside"),
            kubelet.join("link/x"),
            kubelet.join("link"),
            Path::new("kubelet/x").to_owned(),
        ] {
            request.staging_path = node_path(&path);
            assert_eq!(
                variant(bench.mounter.stage(request.clone()).await),
                "OutsideRoots",
                "{path:?}"
            );
        }
        assert_eq!(bench.mounts(), []);
    });
}

#[test]
fn privileged_a_root_that_is_a_link_itself_works() {
    privileged(async |bench| {
        let link = bench.path("link");
        symlink(bench.path("kubelet"), &link).unwrap();
        let bench = bench.with_roots(std::slice::from_ref(&link));
        bench.volume("v");
        let mut request = bench.stage_request("v", capability(WRITER));
        request.staging_path = node_path(&link.join("stage-v"));
        bench.mounter.stage(request.clone()).await.unwrap();
        assert_eq!(bench.mounts_at(&bench.staging("v")), 1);
        // The target of the link is not below a root of the administrator.
        request.staging_path = node_path(&bench.staging("v"));
        assert_eq!(variant(bench.mounter.stage(request).await), "OutsideRoots");
        assert_eq!(bench.mounter.unsettled(driver()).await, Ok(Vec::new()));
    });
}

#[test]
fn privileged_a_missing_or_linked_tree_is_rejected() {
    privileged(async |bench| {
        bench.volume("v");
        let pool = bench.path("pool");
        fs::write(pool.join("file"), "").unwrap();
        fs::create_dir(pool.join("mounted")).unwrap();
        bench.mount_something_at(&pool.join("mounted"));
        symlink(bench.path("outside"), pool.join("link")).unwrap();
        symlink("v", pool.join("inner")).unwrap();
        let mut request = bench.stage_request("v", capability(WRITER));
        for (path, expected) in [
            ("none", "NotFound"),
            ("file", "Invalid"),
            ("mounted", "Invalid"),
            ("link", "Invalid"),
            ("inner", "Invalid"),
            ("../outside", "Invalid"),
            ("/etc", "Invalid"),
            ("", "Invalid"),
            ("v/", "Invalid"),
        ] {
            request.plan = tree(path);
            assert_eq!(
                variant(bench.mounter.stage(request.clone()).await),
                expected,
                "{path:?}"
            );
        }
        assert_eq!(bench.journal_files().len(), 0);
        assert_eq!(bench.mounts_at(&bench.staging("v")), 0);
    });
}

#[test]
fn privileged_later_mounts_in_a_pool_are_not_in_the_volume() {
    privileged(async |bench| {
        bench.share("pool");
        bench.volume("v");
        fs::create_dir(bench.path("pool/v/inner")).unwrap();
        bench.stage("v").await.unwrap();
        bench.mount_something_at(&bench.path("pool/v/inner"));
        assert_eq!(bench.mounts_at(&bench.staging("v").join("inner")), 0);
        // The reverse is refused too.
        bench.mount_something_at(&bench.staging("v").join("inner"));
        assert_eq!(bench.mounts_at(&bench.path("pool/v/inner")), 1);
    });
}

#[test]
fn privileged_a_read_only_pool_is_staged_for_readers_only() {
    privileged(async |bench| {
        bench.volume("v");
        let pool = bench.share("pool");
        let flags = MountFlags::BIND | MountFlags::RDONLY;
        mount_remount(&pool, flags, "").unwrap();
        let before = bench.mounts().len();
        // The clone inherits the read-only state of the pool, and this is detected only after it is attached.
        assert_eq!(variant(bench.stage("v").await), "Kernel");
        assert_eq!(bench.mounts().len(), before);
        assert_eq!(bench.journal_files().len(), 0);
        bench
            .stage_as("v", AccessMode::MultiNodeReaderOnly)
            .await
            .unwrap();
        assert_eq!(bench.mounts_at(&bench.staging("v")), 1);
    });
}

#[test]
fn privileged_options_are_obeyed_or_refused_but_never_smuggled() {
    privileged(async |bench| {
        bench.volume("v");
        for (flags, expected) in [
            (&["suid"][..], "NotGranted"),
            (&["exec,suid"], "Invalid"),
            (&["ro,dev"], "Invalid"),
            (&["upperdir=/etc"], "Invalid"),
        ] {
            let request = bench.stage_request("v", with_flags(WRITER, flags));
            assert_eq!(variant(bench.mounter.stage(request).await), expected);
        }
        let request = bench.stage_request("v", with_flags(WRITER, &["noexec", "noatime"]));
        bench.mounter.stage(request).await.unwrap();
        let [(_, options)] = bench.mounts().try_into().unwrap();
        for word in ["nosuid", "nodev", "noexec", "noatime"] {
            assert!(options.split(',').any(|option| option == word), "{options}");
        }
    });
}

#[test]
fn privileged_a_tmpfs_has_its_size_within_the_grant() {
    privileged(async |bench| {
        bench.volume("v");
        let mut request = bench.stage_request("v", capability(WRITER));
        for (size_bytes, expected) in [(Some(TMPFS_BYTES + 1), "NotGranted"), (Some(0), "Invalid")]
        {
            request.plan = plan(Source::Tmpfs { size_bytes });
            assert_eq!(
                variant(bench.mounter.stage(request.clone()).await),
                expected
            );
        }
        request.plan = plan(Source::Tmpfs { size_bytes: None });
        request.plan.mount_options = vec!["mode=0700".to_owned()];
        bench.mounter.stage(request.clone()).await.unwrap();
        let staging = bench.staging("v");
        let figures = rustix::fs::statvfs(&staging).unwrap();
        assert_eq!(figures.f_blocks * figures.f_frsize, TMPFS_BYTES);
        assert_eq!(fs::metadata(&staging).unwrap().mode() & 0o7777, 0o700);
        fs::write(staging.join("kept"), "x").unwrap();
        bench.mounter.stage(request).await.unwrap();
        assert_eq!(fs::read(staging.join("kept")).unwrap(), b"x");
        assert_eq!(bench.mounts().len(), 1);
    });
}

#[test]
fn privileged_a_way_of_access_that_csi_did_not_have_is_refused() {
    privileged(async |bench| {
        bench.volume("v");
        for (access_type, access_mode) in [
            (AccessType::Other(9), WRITER),
            (AccessType::Block, AccessMode::Other(99)),
        ] {
            let capability = VolumeCapability {
                access_type,
                access_mode,
            };
            let request = bench.stage_request("v", capability);
            assert_eq!(variant(bench.mounter.stage(request).await), "Unsupported");
        }
    });
}

#[test]
fn privileged_eight_volumes_are_handled_at_once() {
    privileged(async |bench| {
        let bench = std::sync::Arc::new(bench);
        let lives = (0..8).map(|number| {
            let bench = bench.clone();
            tokio::spawn(async move {
                let volume = format!("v{number}");
                for _ in 0..5 {
                    if !bench.staging(&volume).exists() {
                        bench.volume(&volume);
                    }
                    bench.stage(&volume).await.unwrap();
                    bench.publish(&volume, &volume).await.unwrap();
                    let name = fs::read_to_string(bench.target(&volume).join("name")).unwrap();
                    assert_eq!(name, volume);
                    bench.unpublish(&volume, &volume).await.unwrap();
                    bench.unstage(&volume).await.unwrap();
                }
            })
        });
        for life in lives.collect::<Vec<_>>() {
            life.await.unwrap();
        }
        bench.assert_clean();
    });
}
