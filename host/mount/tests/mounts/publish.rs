//! NodePublishVolume.

use crate::bench::*;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use wasmount_core::mounter::MountError;
use wasmount_core::plan::Source;
use wasmount_core::volume::AccessMode;

#[test]
fn privileged_a_staged_volume_is_published_and_twice_is_once() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        for _ in 0..2 {
            bench.publish("v", "a").await.unwrap();
            assert_eq!(bench.mounts_at(&bench.target("a")), 1);
        }
        fs::write(bench.target("a").join("new"), "x").unwrap();
        assert_eq!(fs::read(bench.path("pool/v/new")).unwrap(), b"x");
    });
}

#[test]
fn privileged_a_target_directory_is_accepted_a_file_is_not() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        fs::create_dir(bench.target("a")).unwrap();
        bench.publish("v", "a").await.unwrap();
        fs::write(bench.target("b"), "x").unwrap();
        assert_eq!(variant(bench.publish("v", "b").await), "OtherwiseThere");
        assert_eq!(fs::read(bench.target("b")).unwrap(), b"x");
    });
}

#[test]
fn privileged_a_target_with_contents_is_rejected() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        fs::create_dir(bench.target("a")).unwrap();
        let content = bench.target("a").join("content");
        fs::write(&content, "x").unwrap();
        let error = bench.publish("v", "a").await.unwrap_err();
        assert!(error.to_string().contains("move that away"), "{error}");
        assert!(matches!(error, MountError::AlreadyExists { .. }));
        assert_eq!(bench.mounts_at(&bench.target("a")), 0);
        assert_eq!(fs::read(&content).unwrap(), b"x");
        fs::remove_file(&content).unwrap();
        bench.publish("v", "a").await.unwrap();
        bench.unpublish("v", "a").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_spellings_of_a_target_are_equal() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        let mut request = bench.publish_request("v", "a", capability(WRITER), false);
        for spelled in ["kubelet/target-a", "kubelet//target-a", "kubelet/target-a/"] {
            request.target_path = node_path(&bench.path(spelled));
            bench.mounter.publish(request.clone()).await.unwrap();
            assert_eq!(bench.mounts_at(&bench.target("a")), 1, "{spelled}");
        }
        request.target_path = node_path(&bench.staging("v"));
        assert_eq!(
            variant(bench.mounter.publish(request).await),
            "OtherwiseThere"
        );
        let spelled = bench.path("kubelet///target-a");
        bench.unpublish_path("v", &spelled).await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_read_only_publish_refuses_writes() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        bench.publish("v", "writes").await.unwrap();
        bench.publish_as("v", "reads", WRITER, true).await.unwrap();
        fs::write(bench.target("writes").join("new"), "x").unwrap();
        let refused = fs::write(bench.target("reads").join("new"), "y").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
        assert_eq!(fs::read(bench.target("reads").join("new")).unwrap(), b"x");
        fs::write(bench.target("writes").join("new"), "z").unwrap();
    });
}

#[test]
fn privileged_a_mode_that_only_reads_is_published_read_only() {
    privileged(async |bench| {
        bench.volume("v");
        let reader = AccessMode::SingleNodeReaderOnly;
        bench.stage_as("v", reader).await.unwrap();
        bench.publish_as("v", "a", reader, false).await.unwrap();
        let refused = fs::write(bench.target("a").join("new"), "y").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    });
}

#[test]
fn privileged_the_same_target_otherwise_is_refused() {
    privileged(async |bench| {
        bench.volume("v").volume("w");
        bench.stage("v").await.unwrap();
        bench.stage("w").await.unwrap();
        bench.publish("v", "a").await.unwrap();
        let many = AccessMode::MultiNodeMultiWriter;
        assert_eq!(
            variant(bench.publish_as("v", "a", WRITER, true).await),
            "OtherwiseThere"
        );
        assert_eq!(
            variant(bench.publish_as("v", "a", many, false).await),
            "OtherwiseThere"
        );
        assert_eq!(variant(bench.publish("w", "a").await), "OtherwiseThere");
        assert_eq!(bench.mounts_at(&bench.target("a")), 1);
        assert_eq!(fs::read(bench.target("a").join("name")).unwrap(), b"v");
    });
}

#[test]
fn privileged_a_single_writer_is_published_once() {
    privileged(async |bench| {
        bench.volume("v").volume("w");
        let single = AccessMode::SingleNodeSingleWriter;
        bench.stage_as("v", single).await.unwrap();
        bench.publish_as("v", "a", single, false).await.unwrap();
        bench.publish_as("v", "a", single, false).await.unwrap();
        assert_eq!(
            variant(bench.publish_as("v", "b", single, false).await),
            "InUse"
        );
        assert!(!bench.target("b").exists());
        assert_eq!(variant(bench.publish("v", "b").await), "InUse");
        bench.unpublish("v", "a").await.unwrap();
        bench.publish_as("v", "b", single, false).await.unwrap();
    });
}

#[test]
fn privileged_one_of_eight_single_writers_is_published() {
    privileged(async |bench| {
        bench.volume("v");
        let single = AccessMode::SingleNodeSingleWriter;
        bench.stage_as("v", single).await.unwrap();
        let bench = Arc::new(bench);
        let calls = (0..8).map(|number| {
            let bench = bench.clone();
            tokio::spawn(async move {
                bench
                    .publish_as("v", &number.to_string(), single, false)
                    .await
            })
        });
        let mut published = 0;
        for call in calls.collect::<Vec<_>>() {
            match call.await.unwrap() {
                Ok(()) => published += 1,
                Err(error) => assert!(matches!(error, MountError::InUse { .. }), "{error}"),
            }
        }
        assert_eq!(published, 1);
        assert_eq!(bench.mounts().len(), 2);
    });
}

#[test]
fn privileged_a_volume_is_published_at_eight_targets_at_once() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        let bench = Arc::new(bench);
        for _ in 0..5 {
            let calls = (0..8).map(|number| {
                let bench = bench.clone();
                tokio::spawn(async move { bench.publish("v", &number.to_string()).await })
            });
            for call in calls.collect::<Vec<_>>() {
                call.await.unwrap().unwrap();
            }
            assert_eq!(bench.mounts().len(), 9);
            let calls = (0..8).map(|number| {
                let bench = bench.clone();
                tokio::spawn(async move { bench.unpublish("v", &number.to_string()).await })
            });
            for call in calls.collect::<Vec<_>>() {
                call.await.unwrap().unwrap();
            }
        }
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_what_is_not_staged_is_not_published() {
    privileged(async |bench| {
        bench.volume("v").volume("w");
        assert_eq!(variant(bench.publish("v", "a").await), "NotStaged");
        bench.stage("v").await.unwrap();
        let mut request = bench.publish_request("v", "a", capability(WRITER), false);
        request.staging_path = None;
        assert_eq!(
            variant(bench.mounter.publish(request.clone()).await),
            "NotStaged"
        );
        request.staging_path = Some(node_path(&bench.staging("w")));
        assert_eq!(variant(bench.mounter.publish(request).await), "NotStaged");
        // Another mount covers it.
        bench.mount_something_at(&bench.staging("v"));
        assert_eq!(variant(bench.publish("v", "a").await), "NotStaged");
        assert!(!bench.target("a").exists());
    });
}

#[test]
fn privileged_an_invalid_target_is_rejected() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        symlink(bench.path("outside"), bench.path("kubelet/link")).unwrap();
        symlink(bench.path("outside"), bench.target("link")).unwrap();
        fs::create_dir(bench.target("foreign")).unwrap();
        bench.mount_something_at(&bench.target("foreign"));
        let kubelet = bench.path("kubelet");
        let mut request = bench.publish_request("v", "a", capability(WRITER), false);
        for (path, expected) in [
            (kubelet.join("none/target"), "Precondition"),
            (kubelet.join("link/target"), "OutsideRoots"),
            (bench.target("link"), "OutsideRoots"),
            (bench.path("outside/target"), "OutsideRoots"),
            (kubelet.join("x".repeat(300)), "OutsideRoots"),
            (kubelet.clone(), "OutsideRoots"),
            (bench.target("foreign"), "OtherwiseThere"),
        ] {
            request.target_path = node_path(&path);
            assert_eq!(
                variant(bench.mounter.publish(request.clone()).await),
                expected,
                "{path:?}"
            );
        }
        assert_eq!(bench.mounts().len(), 2);
        assert_eq!(fs::read_dir(bench.path("outside")).unwrap().count(), 0);
    });
}

#[test]
fn privileged_a_volume_without_stage_is_published() {
    privileged(async |bench| {
        let mut request = bench.publish_request("v", "a", capability(WRITER), true);
        request.staging_path = None;
        request.plan = Some(plan(Source::Tmpfs {
            size_bytes: Some(4096),
        }));
        bench.mounter.publish(request.clone()).await.unwrap();
        bench.mounter.publish(request.clone()).await.unwrap();
        assert_eq!(bench.mounts_at(&bench.target("a")), 1);
        let refused = fs::write(bench.target("a").join("new"), "y").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
        request.plan = Some(plan(Source::Tmpfs {
            size_bytes: Some(8192),
        }));
        assert_eq!(
            variant(bench.mounter.publish(request).await),
            "OtherwiseThere"
        );
        bench.unpublish("v", "a").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_publish_that_the_kernel_refuses_leaves_nothing() {
    privileged(async |bench| {
        bench.volume("v");
        bench.stage("v").await.unwrap();
        // A directory in which no entry can be created.
        let full = bench.path("kubelet/full");
        fs::create_dir(&full).unwrap();
        rustix::mount::mount(
            "full",
            &full,
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            Some(c"nr_inodes=1"),
        )
        .unwrap();
        let mut request = bench.publish_request("v", "a", capability(WRITER), false);
        request.target_path = node_path(&full.join("target"));
        assert_eq!(variant(bench.mounter.publish(request).await), "NoSpace");
        assert_eq!(bench.mounts().len(), 2);
        assert_eq!(bench.mounter.unsettled(driver()).await, Ok(Vec::new()));
        bench.unstage("v").await.unwrap();
        assert_eq!(bench.journal_files().len(), 0);
    });
}
