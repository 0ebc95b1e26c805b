//! Names that are swapped with links as fast as possible while calls on images and raw block volumes run: in the pool, at the staging path, at the
//! target, and above each. (`races` does the same for trees.)

use super::*;
use crate::races::swap_for_ever;
use crate::volume::{Volume, mounted_as};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use wasmount_core::volume::AccessType;

/// Calls on a raw block volume under attack: each takes one or two milliseconds.
const ROUNDS: usize = 200;
/// Calls that run tools, which take a hundred times as long.
const SLOW_ROUNDS: usize = 25;

/// An attacker that swaps two names until it is dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    fn of(one: &Path, other: &Path) -> Self {
        let (stop, thread) = swap_for_ever(one.to_owned(), other.to_owned());
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// After the attack: restores the link to its original place.
fn put_right(name: &Path, link: &Path) {
    if name.is_symlink() {
        renameat_with(CWD, name, CWD, link, RenameFlags::EXCHANGE).unwrap();
    }
}

/// Stages and unstages. Some calls succeed, between two swaps; their number is returned.
async fn stage_under_attack(volume: &Volume<'_>, canary: &Canary, rounds: usize) -> usize {
    let mut staged = 0;
    for _ in 0..rounds {
        if volume.stage().await.is_ok() {
            staged += 1;
        }
        canary.assert_unbound(volume.bench);
        let _ = volume.unstage().await;
    }
    staged
}

#[test]
fn privileged_an_image_swapped_for_a_link_stays_inside() {
    privileged(async |bench| {
        let canary = Canary::plant(bench.path("outside/swapped.img"));
        let image = bench.path("pool/swapped.img");
        let link = bench.path("pool/link");
        symlink(&canary.path, &link).unwrap();
        for (access_type, rounds) in [
            (AccessType::Block, ROUNDS),
            (mounted_as("ext4"), SLOW_ROUNDS),
        ] {
            let plan = if image.exists() {
                image_at("swapped.img")
            } else {
                bench.image("swapped", 32 * MEBIBYTE).await
            };
            let volume = Volume::new(&bench, "swapped", plan, access_type);
            let swapper = Swapper::of(&image, &link);
            let staged = stage_under_attack(&volume, &canary, rounds).await;
            drop(swapper);
            put_right(&image, &link);
            assert!(staged < rounds, "the link was never met");
            volume.end(&[]).await;
            volume.stage().await.unwrap();
            volume.end(&[]).await;
        }
        canary.assert_untouched();
    });
}

#[test]
fn privileged_an_image_directory_swapped_for_a_link_stays() {
    privileged(async |bench| {
        let canary = Canary::plant(bench.path("outside/v.img"));
        let (directory, link) = (bench.path("pool/tenant"), bench.path("pool/link"));
        fs::create_dir(&directory).unwrap();
        let image = File::create(directory.join("v.img")).unwrap();
        image.set_len(32 * MEBIBYTE).unwrap();
        symlink(bench.path("outside"), &link).unwrap();
        let volume = Volume::new(
            &bench,
            "tenant",
            image_at("tenant/v.img"),
            AccessType::Block,
        );
        let swapper = Swapper::of(&directory, &link);
        let staged = stage_under_attack(&volume, &canary, ROUNDS).await;
        drop(swapper);
        put_right(&directory, &link);
        assert!(staged < ROUNDS, "the link was never met");
        volume.end(&[]).await;
        canary.assert_untouched();
    });
}

/// No mount of the bench lies outside of its kubelet directory.
fn assert_nothing_escaped(bench: &Bench) {
    let outside = bench.path("outside");
    let mounts = bench.mounts();
    let escaped = mounts.iter().any(|(point, _)| point.starts_with(&outside));
    assert!(!escaped, "a mount escaped: {mounts:?}");
}

#[test]
fn privileged_an_image_staging_path_link_leads_nowhere() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "staged", "ext4", 32).await;
        // Set up once before the attack, so that the mount itself is attacked.
        volume.stage().await.unwrap();
        volume.unstage().await.unwrap();
        let (staging, link) = (bench.staging("staged"), bench.path("kubelet/link"));
        symlink(bench.path("outside"), &link).unwrap();
        let swapper = Swapper::of(&staging, &link);
        for _ in 0..SLOW_ROUNDS {
            let _ = volume.stage().await;
            assert_nothing_escaped(&bench);
            let _ = volume.unstage().await;
            // A rename that started before the mount was attached moves the mount with it, inside the root. Neither call follows it: the client's
            // path leads through a link, and both return an error.
            if bench.mounts_at(&link) > 0 {
                let refused = variant(volume.unstage().await);
                assert_eq!(refused, "OutsideRoots");
                take_off(&link);
            }
        }
        drop(swapper);
        put_right(&staging, &link);
        volume.end(&[]).await;
    });
}

#[test]
fn privileged_a_raw_target_link_leads_nowhere() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "target", "raw", 1).await;
        volume.stage().await.unwrap();
        let (target, link) = (bench.target("t"), bench.path("kubelet/link"));
        let outside = bench.path("outside/file");
        fs::write(&outside, "").unwrap();
        fs::write(&target, "").unwrap();
        symlink(&outside, &link).unwrap();
        let swapper = Swapper::of(&target, &link);
        for _ in 0..ROUNDS {
            let _ = volume.publish("t").await;
            assert_nothing_escaped(&bench);
            let _ = volume.unpublish("t").await;
        }
        drop(swapper);
        for path in [&target, &link] {
            if path.is_symlink() {
                fs::remove_file(path).unwrap();
            }
            bench.unpublish_path("target", path).await.unwrap();
        }
        assert!(outside.is_file());
        volume.end(&["t"]).await;
    });
}

#[test]
fn privileged_a_raw_target_parent_link_leads_nowhere() {
    privileged(async |bench| {
        let volume = Volume::of_image(&bench, "parent", "raw", 1).await;
        volume.stage().await.unwrap();
        let (parent, link) = (bench.path("kubelet/target-pod"), bench.path("kubelet/link"));
        fs::create_dir(&parent).unwrap();
        fs::write(bench.path("outside/device"), "").unwrap();
        symlink(bench.path("outside"), &link).unwrap();
        let swapper = Swapper::of(&parent, &link);
        for _ in 0..ROUNDS {
            let _ = volume.publish("pod/device").await;
            assert_nothing_escaped(&bench);
            let _ = volume.unpublish("pod/device").await;
        }
        drop(swapper);
        put_right(&parent, &link);
        assert!(bench.path("outside/device").is_file());
        volume.unpublish("pod/device").await.unwrap();
        fs::remove_dir(&parent).unwrap();
        volume.end(&[]).await;
    });
}
