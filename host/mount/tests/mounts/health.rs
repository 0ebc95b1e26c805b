//! Findings of the host about volumes and their mounts, and no findings for healthy ones. Damage below a mount is in `damaged`, storage that does not
//! answer in `hung`.

mod damaged;

use crate::bench::*;
use crate::volume::{Volume, mounted_as};
use HealthStatus::{Degraded, Inaccessible};
use rustix::mount::{MountFlags, mount_remount};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wasmount_core::health::HealthStatus;
use wasmount_core::mounter::{HealthQuery, MountError};
use wasmount_core::plan::{Plan, PlanFile, Source};
use wasmount_core::volume::{AccessMode, AccessType};

type Findings = Vec<(HealthStatus, String)>;

async fn ask(
    bench: &Bench,
    volume: &str,
    target: Option<&Path>,
    staging: Option<&Path>,
) -> Result<Findings, MountError> {
    let query = HealthQuery {
        key: key(volume),
        publish_path: target.map(node_path),
        staging_path: staging.map(node_path),
    };
    let findings = bench.mounter.health(query).await?.into_iter();
    let found = findings.map(|it| {
        assert!(
            it.message.contains(volume) && it.message.contains("; "),
            "{it:?}"
        );
        (it.status, it.reason)
    });
    Ok(found.collect())
}

/// Findings at all paths.
async fn found(bench: &Bench, volume: &str) -> Findings {
    ask(bench, volume, None, None).await.unwrap()
}

fn one(status: HealthStatus, reason: &str) -> Findings {
    vec![(status, reason.to_owned())]
}

async fn in_use<'b>(bench: &'b Bench, form: &'static str, mebibytes: u64) -> Volume<'b> {
    let volume = Volume::of_image(bench, form, form, mebibytes).await;
    volume.stage().await.unwrap();
    volume.publish("a").await.unwrap();
    assert_eq!(found(bench, form).await, []);
    volume
}

fn of(device: &NodeDevice) -> Plan {
    plan(Source::Device {
        facts: vec![("by-id".to_owned(), device.by_id())],
        wait_ms: 1000,
    })
}

#[test]
fn privileged_healthy_volumes_have_no_findings() {
    privileged(async |bench| {
        let device = NodeDevice::attach(&bench, "disk", 64 << 20);
        let of_device = of(&device);
        bench.volume("tree");
        let tmpfs = plan(Source::Tmpfs {
            size_bytes: Some(64 << 10),
        });
        let files = plan(Source::Files {
            files: vec![PlanFile {
                path: "token".to_owned(),
                mode: 0o444,
                content: b"x".to_vec(),
            }],
        });
        let volumes = [
            Volume::new(&bench, "tree", tree("tree"), mounted_as("ext4")),
            Volume::new(&bench, "tmpfs", tmpfs, mounted_as("ext4")),
            Volume::new(&bench, "files", files, mounted_as("ext4")),
            Volume::of_image(&bench, "ext4", "ext4", 32).await,
            Volume::of_image(&bench, "xfs", "xfs", 300).await,
            Volume::of_image(&bench, "btrfs", "btrfs", 128).await,
            Volume::of_image(&bench, "raw", "raw", 1).await,
            Volume::new(&bench, "disk", of_device.clone(), mounted_as("ext4")),
            Volume::new(&bench, "raw-disk", of_device, AccessType::Block),
        ];
        for volume in volumes {
            let name = volume.name;
            if name == "files" {
                volume.publish_plan("a", false).await.unwrap();
                assert_eq!(found(&bench, name).await, [], "{name}");
                volume.end(&["a"]).await;
                continue;
            }
            volume.stage().await.unwrap();
            assert_eq!(found(&bench, name).await, [], "{name}");
            volume.publish("a").await.unwrap();
            if !matches!(name, "raw" | "raw-disk" | "tree") {
                // Until it is full.
                let mut file = File::create(bench.target("a").join("data")).unwrap();
                let block = vec![1; 64 << 10];
                while std::io::Write::write_all(&mut file, &block).is_ok() {}
            }
            volume
                .publish_as("ro", AccessMode::SingleNodeWriter, true)
                .await
                .unwrap();
            assert_eq!(found(&bench, name).await, [], "{name}");
            let (target, staging) = (bench.target("ro"), bench.staging(name));
            for (target, staging) in [
                (Some(&*target), None),
                (None, Some(&*staging)),
                (Some(&*target), Some(&*staging)),
            ] {
                let found = ask(&bench, name, target, staging).await;
                assert_eq!(found, Ok(Vec::new()), "{name}");
            }
            volume.end(&["a", "ro"]).await;
        }
    });
}

#[test]
fn privileged_what_is_not_recorded_is_not_found() {
    privileged(async |bench| {
        assert_eq!(variant(ask(&bench, "v", None, None).await), "NotFound");
        bench.in_use("v").await;
        let (target, staging) = (bench.target("v"), bench.staging("v"));
        let (none, outside) = (bench.path("kubelet/none"), Path::new("/etc"));
        for (target, staging) in [
            (Some(&*none), None),
            (Some(outside), None),
            (None, Some(&*none)),
            (Some(&*none), Some(&*staging)),
            // A stage is not a publish.
            (None, Some(Path::new("/"))),
        ] {
            let found = ask(&bench, "v", target, staging).await;
            assert_eq!(variant(found), "NotFound", "{target:?} {staging:?}");
        }
        assert_eq!(
            ask(&bench, "v", Some(&target), Some(&none)).await,
            Ok(vec![])
        );
        bench.unpublish("v", "v").await.unwrap();
        assert_eq!(
            variant(ask(&bench, "v", Some(&target), None).await),
            "NotFound"
        );
        assert_eq!(ask(&bench, "v", None, Some(&staging)).await, Ok(vec![]));
        bench.unstage("v").await.unwrap();
        assert_eq!(variant(ask(&bench, "v", None, None).await), "NotFound");
    });
}

#[test]
fn privileged_an_unmounted_target_is_reported_until_republish() {
    privileged(async |bench| {
        bench.in_use("v").await;
        take_off(bench.target("v"));
        let lost = one(Inaccessible, "MountLost");
        assert_eq!(found(&bench, "v").await, lost);
        let staging = bench.staging("v");
        assert_eq!(ask(&bench, "v", None, Some(&staging)).await, Ok(vec![]));
        bench.publish("v", "v").await.unwrap();
        assert_eq!(found(&bench, "v").await, []);
        // Another mount hides it.
        bench.mount_something_at(&bench.target("v"));
        assert_eq!(found(&bench, "v").await, lost);
        take_off(bench.target("v"));
        take_off(&staging);
        assert_eq!(ask(&bench, "v", None, Some(&staging)).await, Ok(lost));
        bench.unpublish("v", "v").await.unwrap();
        bench.unstage("v").await.unwrap();
        bench.assert_clean();
    });
}

#[test]
fn privileged_a_read_only_remount_is_degraded_for_writers() {
    privileged(async |bench| {
        let volume = in_use(&bench, "ext4", 32).await;
        volume.publish_as("ro", WRITER, true).await.unwrap();
        let target = bench.target("a");
        let bind = MountFlags::BIND | MountFlags::RDONLY;
        mount_remount(&target, bind, "").unwrap();
        let staging = bench.staging("ext4");
        let made = one(Degraded, "MountMadeReadOnly");
        assert_eq!(ask(&bench, "ext4", Some(&target), None).await, Ok(made));
        assert_eq!(ask(&bench, "ext4", None, Some(&staging)).await, Ok(vec![]));
        mount_remount(&target, MountFlags::BIND, "").unwrap();
        assert_eq!(found(&bench, "ext4").await, []);
        mount_remount(&staging, MountFlags::RDONLY, "").unwrap();
        for (target, expected) in [
            (target, one(Degraded, "ReadOnlyAfterError")),
            (bench.target("ro"), vec![]),
        ] {
            let found = ask(&bench, "ext4", Some(&target), None).await;
            assert_eq!(found, Ok(expected));
        }
        volume.end(&["a", "ro"]).await;
    });
}

#[test]
fn privileged_a_volume_in_transition_is_not_unhealthy() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "v", "ext4", 32).await;
        let mounter = bench.mounter.clone();
        let is_over = Arc::new(AtomicBool::new(false));
        let asking = tokio::spawn({
            let is_over = is_over.clone();
            async move {
                let mut answers = 0;
                while !is_over.load(Ordering::SeqCst) {
                    let query = HealthQuery {
                        key: key("v"),
                        publish_path: None,
                        staging_path: None,
                    };
                    match mounter.health(query).await {
                        Ok(findings) => {
                            assert_eq!(findings, []);
                            answers += 1;
                        }
                        Err(error) => assert!(matches!(error, MountError::NotFound { .. })),
                    }
                    tokio::task::yield_now().await;
                }
                answers
            }
        });
        for _ in 0..10 {
            volume.stage().await.unwrap();
            for target in ["a", "b", "c"] {
                volume.publish(target).await.unwrap();
            }
            volume.end(&["a", "b", "c"]).await;
        }
        is_over.store(true, Ordering::SeqCst);
        assert!(asking.await.unwrap() > 0);
    });
}
