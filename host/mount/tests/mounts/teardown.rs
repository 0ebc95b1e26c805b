//! NodeUnpublishVolume and NodeUnstageVolume.

use crate::bench::*;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use std::fs;
use std::os::unix::fs::symlink;
use wasmount_core::mounter::Staged;

#[test]
fn privileged_all_is_torn_down_and_twice_is_once() {
    privileged(async |bench| {
        bench.in_use("v").await;
        for _ in 0..2 {
            bench.unpublish("v", "v").await.unwrap();
            assert!(!bench.target("v").exists());
        }
        for _ in 0..2 {
            bench.unstage("v").await.unwrap();
        }
        bench.assert_clean();
        // The client owns the staging directory; the data belongs to the volume.
        assert!(bench.staging("v").is_dir());
        assert_eq!(fs::read(bench.path("pool/v/name")).unwrap(), b"v");
    });
}

#[test]
fn privileged_what_never_was_is_success() {
    privileged(async |bench| {
        bench.unpublish("unknown", "none").await.unwrap();
        bench.unstage("unknown").await.unwrap();
        let missing = bench.path("kubelet/a/b/c");
        bench.unpublish_path("unknown", &missing).await.unwrap();
        // The specification requires the driver to delete the target, whoever created it.
        fs::create_dir(bench.target("empty")).unwrap();
        bench.unpublish("unknown", "empty").await.unwrap();
        fs::write(bench.target("file"), "").unwrap();
        bench.unpublish("unknown", "file").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_without_the_journal_all_is_torn_down() {
    privileged(async |bench| {
        bench.in_use("v").await;
        let bench = bench.without_journal();
        assert_eq!(bench.staged("v").await, Ok(Staged::No));
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_without_journal_equal_calls_are_idempotent() {
    privileged(async |bench| {
        bench.in_use("v").await;
        let bench = bench.without_journal();
        bench.stage("v").await.unwrap();
        bench.publish("v", "v").await.unwrap();
        assert_eq!(bench.mounts().len(), 2);
        assert_eq!(bench.staged("v").await, Ok(Staged::AsWanted));
        let bench = bench.without_journal();
        bench.stage("v").await.unwrap();
        assert_eq!(
            variant(bench.publish_as("v", "v", WRITER, true).await),
            "OtherwiseThere"
        );
    });
}

#[test]
fn privileged_stacked_mounts_are_all_taken_off() {
    privileged(async |bench| {
        bench.in_use("v").await;
        for path in [bench.target("v"), bench.staging("v")] {
            for _ in 0..3 {
                bench.mount_something_at(&path);
            }
            assert_eq!(bench.mounts_at(&path), 4);
        }
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_without_journal_a_removed_tree_is_torn_down() {
    privileged(async |bench| {
        bench.in_use("v").await;
        fs::remove_dir_all(bench.path("pool/v")).unwrap();
        let bench = bench.without_journal();
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_stacked_mounts_without_record_are_unmounted() {
    privileged(async |bench| {
        bench.in_use("v").await;
        for path in [bench.target("v"), bench.staging("v")] {
            mount_bind(bench.path("pool/v"), &path).unwrap();
            // A tmpfs, which can belong to the driver: it has a grant for one.
            bench.mount_something_at(&path);
        }
        let bench = bench.without_journal();
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_foreign_mount_without_record_stays() {
    privileged(async |bench| {
        bench.volume("v");
        let (target, staging) = (bench.target("foreign"), bench.staging("v"));
        fs::create_dir(&target).unwrap();
        for source in ["outside", "pool"] {
            mount_bind(bench.path(source), &target).unwrap();
            mount_bind(bench.path(source), &staging).unwrap();
            let before = bench.mounts();
            let error = bench.unpublish("v", "foreign").await.unwrap_err();
            let words = "is not a mount of this driver";
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(variant(Err::<(), _>(error)), "InUse");
            assert_eq!(variant(bench.unstage("v").await), "InUse");
            // A mount of the driver on top of a foreign mount is not unmounted either.
            mount_bind(bench.path("pool/v"), &target).unwrap();
            assert_eq!(variant(bench.unpublish("v", "foreign").await), "InUse");
            take_off(&target);
            assert_eq!(bench.mounts(), before);
            take_off(&target);
            take_off(&staging);
        }
        bench.unpublish("v", "foreign").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_staging_path_is_never_unpublished() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        let staging = bench.staging("v");
        let refused = bench.unpublish_path("v", &staging).await.unwrap_err();
        assert!(
            refused.to_string().contains("call NodeUnstageVolume"),
            "{refused}"
        );
        assert_eq!(bench.staged("v").await, Ok(Staged::AsWanted));
        bench.unstage("v").await.unwrap();
        assert!(staging.is_dir());
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_name_that_no_file_can_have_is_refused() {
    privileged(async |bench| {
        let name = "x".repeat(256);
        assert_eq!(variant(bench.unpublish("v", &name).await), "OutsideRoots");
        let longest = bench.path("kubelet").join("x".repeat(255));
        bench.unpublish_path("v", &longest).await.unwrap();
    });
}

#[test]
fn privileged_a_target_with_foreign_files_is_not_removed() {
    privileged(async |bench| {
        bench.in_use("v").await;
        take_off(bench.target("v"));
        fs::write(bench.target("v").join("precious"), "x").unwrap();
        assert_eq!(variant(bench.unpublish("v", "v").await), "InUse");
        assert_eq!(fs::read(bench.target("v").join("precious")).unwrap(), b"x");
        fs::write(bench.target("file"), "x").unwrap();
        assert_eq!(variant(bench.unpublish("v", "file").await), "InUse");
        fs::remove_file(bench.target("v").join("precious")).unwrap();
        fs::remove_file(bench.target("file")).unwrap();
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_teardown_rejects_paths_outside_or_through_links() {
    privileged(async |bench| {
        let outside = bench.path("outside");
        fs::create_dir(outside.join("target")).unwrap();
        bench.mount_something_at(&outside);
        let link = bench.path("kubelet/link");
        symlink(&outside, &link).unwrap();
        for path in [
            outside.clone(),
            link.clone(),
            link.join("target"),
            bench.path("kubelet"),
            bench.path("kubelet/../outside"),
        ] {
            let refused = bench.unpublish_path("v", &path).await;
            assert_eq!(variant(refused), "OutsideRoots", "{path:?}");
        }
        assert_eq!(bench.mounts_at(&outside), 1);
        assert!(link.is_symlink());
    });
}

#[test]
fn privileged_a_busy_mount_stays_until_it_is_free() {
    privileged(async |bench| {
        bench.in_use("v").await;
        let open = fs::File::open(bench.target("v").join("name")).unwrap();
        assert_eq!(variant(bench.unpublish("v", "v").await), "InUse");
        assert_eq!(bench.mounts_at(&bench.target("v")), 1);
        drop(open);
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_another_volumes_mounts_are_not_touched() {
    privileged(async |bench| {
        bench.in_use("v").await;
        assert_eq!(variant(bench.unpublish("w", "v").await), "InUse");
        let staging = bench.staging("v");
        assert_eq!(variant(bench.unpublish_path("w", &staging).await), "InUse");
        assert_eq!(bench.mounts().len(), 2);
    });
}

#[test]
fn privileged_a_stale_record_gives_no_right_to_a_mount() {
    privileged(async |bench| {
        bench.in_use("w").await;
        bench.volume("v");
        bench.stage("v").await.unwrap();
        take_off(bench.target("w"));
        bench.publish("v", "w").await.unwrap();
        assert_eq!(variant(bench.unpublish("w", "w").await), "InUse");
        assert_eq!(bench.mounts_at(&bench.target("w")), 1);
        bench.unpublish("v", "w").await.unwrap();
        bench.unpublish("w", "w").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.unstage("w").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_full_journal_disk_does_not_stop_tear_down() {
    privileged(async |bench| {
        let run = bench.path("run");
        rustix::mount::mount(
            "run",
            &run,
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            Some(c"size=64k"),
        )
        .unwrap();
        let bench = bench.restarted();
        bench.volume("v").volume("w");
        bench.stage("v").await.unwrap();
        bench.publish("v", "a").await.unwrap();
        bench.publish("v", "b").await.unwrap();
        let full = fs::write(run.join("filler"), vec![0; 1 << 20]).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        assert_eq!(variant(bench.stage("w").await), "NoSpace");
        assert_eq!(bench.mounts_at(&bench.staging("w")), 0);
        bench.unpublish("v", "a").await.unwrap();
        bench.unpublish("v", "b").await.unwrap();
        bench.unstage("v").await.unwrap();
        unmount(&run, UnmountFlags::DETACH).unwrap();
        assert_eq!(bench.mounts(), []);
    });
}
