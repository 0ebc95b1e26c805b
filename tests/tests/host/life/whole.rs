//! A life as it should be: each call twice, a second pod that only reads, figures of what is in use.

use crate::life::{assert_codes, assert_nothing_left, serving};
use rustix::io::Errno;
use std::fs;
use std::path::Path;
use tonic::Code;
use wasmount_csi::wire::csi::v1::volume_usage::Unit;
use wasmount_tests::orchestrator::{VOLUME_BYTES, code};
use wasmount_tests::requests;

fn write_error(mount: &Path) -> Option<Errno> {
    let error = fs::write(mount.join("more"), "").err()?;
    Errno::from_io_error(&error)
}

#[tokio::test]
async fn privileged_every_call_of_a_life_may_be_made_twice() {
    let (host, orchestrator) = serving().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    let again = orchestrator.created("pvc").await.unwrap();
    assert_eq!(volume, again);
    for _ in 0..2 {
        orchestrator.is_known(&volume.id).await.unwrap();
        orchestrator.stage(&volume).await.unwrap();
        assert_eq!(host.mounts().unwrap(), [volume.staging.as_path()]);
    }
    for _ in 0..2 {
        orchestrator.publish(&volume).await.unwrap();
        let mounts = [volume.staging.as_path(), volume.target.as_path()];
        assert_eq!(host.mounts().unwrap(), mounts);
    }
    volume.write("kept").unwrap();
    for _ in 0..2 {
        let request = requests::expand(&volume.id, 2 * VOLUME_BYTES);
        assert_eq!(
            orchestrator.expand(request).await.unwrap(),
            (2 * VOLUME_BYTES, false)
        );
        let request = requests::node_expand(&volume.id, &volume.target, 2 * VOLUME_BYTES);
        orchestrator.node_expand(request).await.unwrap();
    }
    assert_eq!(volume.read_at(&volume.staging).unwrap(), "kept");
    for _ in 0..2 {
        orchestrator.unpublish(&volume).await.unwrap();
        assert!(!volume.target.exists(), "the target was not removed");
    }
    for _ in 0..2 {
        orchestrator.unstage(&volume).await.unwrap();
        assert!(volume.staging.is_dir(), "it is the client's to remove");
    }
    // What was written outlives both mounts.
    orchestrator.set_up(&volume).await.unwrap();
    assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
    orchestrator.tear_down(&volume).await.unwrap();
    orchestrator.delete(&volume.id).await.unwrap();
    assert_eq!(
        code(&orchestrator.is_known(&volume.id).await),
        Code::NotFound
    );
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_read_only_publish_reads_and_refuses_writes() {
    let (host, orchestrator) = serving().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    volume.write("seen").unwrap();
    let reader = orchestrator.target("pvc", "second-pod").unwrap();
    let mut request = requests::publish(&volume.id, &volume.staging, &reader);
    request.readonly = true;
    for _ in 0..2 {
        orchestrator.publish_as(request.clone()).await.unwrap();
    }
    assert_eq!(volume.read_at(&reader).unwrap(), "seen");
    assert_eq!(write_error(&reader), Some(Errno::ROFS));
    volume.write("seen again").unwrap();
    assert_eq!(volume.read_at(&reader).unwrap(), "seen again");

    // Neither of the two becomes the other.
    let writer = requests::publish(&volume.id, &volume.staging, &reader);
    let mut read_only = requests::publish(&volume.id, &volume.staging, &volume.target);
    read_only.readonly = true;
    assert_codes(&[
        (
            "publish for writing where it is read-only",
            code(&orchestrator.publish_as(writer).await),
            Code::AlreadyExists,
        ),
        (
            "publish read-only where it is for writing",
            code(&orchestrator.publish_as(read_only).await),
            Code::AlreadyExists,
        ),
    ]);
    assert_eq!(write_error(&reader), Some(Errno::ROFS));
    assert_eq!(write_error(&volume.target), None);

    orchestrator
        .unpublish_at(&volume.id, &reader)
        .await
        .unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_use_is_reported_of_a_mounted_volume_only() {
    let (host, orchestrator) = serving().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    for path in [&volume.staging, &volume.target] {
        let stats = orchestrator.stats(&volume.id, path).await.unwrap();
        let units: Vec<_> = stats.usage.iter().map(|usage| usage.unit()).collect();
        assert_eq!(units, [Unit::Bytes, Unit::Inodes]);
        for usage in stats.usage {
            assert!(usage.total > 0 && usage.available > 0, "{usage:?}");
            assert!(usage.used + usage.available <= usage.total, "{usage:?}");
        }
    }
    let id = &volume.id;
    let no_bytes = requests::node_expand(id, &volume.target, 0);
    let elsewhere = requests::node_expand(id, host.root(), VOLUME_BYTES);
    let unknown = requests::node_expand("unknown", &volume.target, VOLUME_BYTES);
    assert_codes(&[
        (
            "stats of a directory beside",
            code(&orchestrator.stats(id, &host.kubelet()).await),
            Code::NotFound,
        ),
        (
            "stats of a relative path",
            code(&orchestrator.stats(id, Path::new("here")).await),
            Code::NotFound,
        ),
        (
            "stats of an unknown volume",
            code(&orchestrator.stats("unknown", &volume.target).await),
            Code::NotFound,
        ),
        (
            "stats without path",
            code(&orchestrator.stats(id, Path::new("")).await),
            Code::InvalidArgument,
        ),
        (
            "node expand without bytes",
            code(&orchestrator.node_expand(no_bytes).await),
            Code::Ok,
        ),
        (
            "node expand elsewhere",
            code(&orchestrator.node_expand(elsewhere).await),
            Code::NotFound,
        ),
        (
            "node expand of an unknown volume",
            code(&orchestrator.node_expand(unknown).await),
            Code::NotFound,
        ),
    ]);
    orchestrator.tear_down(&volume).await.unwrap();
    assert_eq!(
        code(&orchestrator.stats(&volume.id, &volume.target).await),
        Code::NotFound
    );
    assert_nothing_left(&host);
}
