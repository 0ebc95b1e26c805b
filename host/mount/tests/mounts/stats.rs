//! NodeGetVolumeStats and NodeExpandVolume.

use crate::bench::*;
use crate::volume::Volume;
use rustix::mount::mount_bind;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use wasmount_core::mounter::{ExpandVolume, HealthQuery, MountError, StatVolume, VolumeStats};
use wasmount_core::plan::Source;

async fn stats(bench: &Bench, volume: &str, path: &Path) -> Result<VolumeStats, MountError> {
    let request = StatVolume {
        key: key(volume),
        volume_path: node_path(path),
        staging_path: None,
    };
    bench.mounter.stats(request).await
}

async fn expand(bench: &Bench, volume: &str, path: &Path) -> Result<u64, MountError> {
    let request = ExpandVolume {
        key: key(volume),
        volume_path: node_path(path),
        required_bytes: Some(1 << 30),
        limit_bytes: None,
        grows_object: true,
    };
    bench.mounter.expand(request).await
}

#[test]
fn privileged_statistics_are_equal_at_both_paths() {
    privileged(async |bench| {
        bench.volume("v");
        let mut request = bench.stage_request("v", capability(WRITER));
        request.plan = plan(Source::Tmpfs {
            size_bytes: Some(64 << 10),
        });
        bench.mounter.stage(request).await.unwrap();
        bench.publish("v", "a").await.unwrap();
        fs::write(bench.target("a").join("file"), vec![1; 16 << 10]).unwrap();
        for path in [bench.staging("v"), bench.target("a")] {
            let figures = stats(&bench, "v", &path).await.unwrap();
            assert_eq!(figures.bytes.total, 64 << 10);
            assert_eq!(figures.bytes.used, Some(16 << 10));
            assert_eq!(figures.bytes.available, Some(48 << 10));
            assert_eq!(figures.inodes.unwrap().used, Some(2));
            assert_eq!(expand(&bench, "v", &path).await, Ok(0));
        }
    });
}

#[test]
fn privileged_an_unknown_volume_or_path_is_not_found() {
    privileged(async |bench| {
        bench.in_use("v").await;
        let (target, outside) = (bench.target("v"), bench.path("outside"));
        let none = bench.path("kubelet/none");
        for (volume, path) in [
            ("unknown", Path::new("some/path")),
            ("unknown", &target),
            ("v", Path::new("some/path")),
            ("v", &none),
            ("v", &outside),
            ("v", Path::new("/")),
        ] {
            let found = stats(&bench, volume, path).await;
            assert_eq!(variant(found), "NotFound", "{volume} {path:?}");
            let found = expand(&bench, volume, path).await;
            assert_eq!(variant(found), "NotFound", "{volume} {path:?}");
        }
        // A path with redundant components is the same path.
        let longer = bench.path("kubelet//target-v/");
        stats(&bench, "v", &longer).await.unwrap();
    });
}

#[test]
fn privileged_an_unmounted_volume_is_not_found() {
    privileged(async |bench| {
        bench.in_use("v").await;
        let target = bench.target("v");
        stats(&bench, "v", &target).await.unwrap();
        take_off(&target);
        assert_eq!(variant(stats(&bench, "v", &target).await), "NotFound");
        bench.unpublish("v", "v").await.unwrap();
        assert_eq!(variant(stats(&bench, "v", &target).await), "NotFound");
        assert_eq!(variant(expand(&bench, "v", &target).await), "NotFound");
    });
}

/// kubelet queries its own bind mount, `volumeDevices/<volume>/dev/<pod>`.
#[test]
fn privileged_a_raw_device_answers_wherever_it_is_shown() {
    privileged(async |bench| {
        const BYTES: u64 = 16 << 20;
        for (name, neighbour, is_staged) in [("staged", "a", true), ("planned", "b", false)] {
            let volume = Volume::of_image(&bench, name, "raw", BYTES >> 20).await;
            let other = Volume::of_image(&bench, neighbour, "raw", 1).await;
            other.stage().await.unwrap();
            other.publish(neighbour).await.unwrap();
            if is_staged {
                volume.stage().await.unwrap();
                volume.publish(name).await.unwrap();
            } else {
                volume.publish_plan(name, false).await.unwrap();
            }
            let bound = bench.path("kubelet").join("bound");
            fs::write(&bound, "").unwrap();
            mount_bind(bench.target(name), &bound).unwrap();
            assert_eq!(
                stats(&bench, name, &bound).await.unwrap().bytes.total,
                BYTES
            );
            let query = HealthQuery {
                key: key(name),
                publish_path: Some(node_path(&bound)),
                staging_path: None,
            };
            assert_eq!(bench.mounter.health(query).await, Ok(Vec::new()));
            assert_eq!(expand(&bench, name, &bound).await, Ok(1 << 30));
            let linked = bench.path("kubelet").join("linked");
            symlink(&bound, &linked).unwrap();
            let file = bench.path("kubelet").join("file");
            fs::write(&file, "").unwrap();
            let outside = bench.path("outside").join("bound");
            fs::write(&outside, "").unwrap();
            mount_bind(bench.target(name), &outside).unwrap();
            for path in [&bench.target(neighbour), &linked, &file, &outside] {
                let found = stats(&bench, name, path).await;
                assert_eq!(variant(found), "NotFound", "{}", path.display());
            }
            take_off(&bound);
            take_off(&outside);
            let found = stats(&bench, name, &bound).await;
            assert_eq!(variant(found), "NotFound");
            for path in [bound, linked, file, outside] {
                fs::remove_file(path).unwrap();
            }
            other.unpublish(neighbour).await.unwrap();
            other.unstage().await.unwrap();
            volume.end(&[name]).await;
        }
    });
}
