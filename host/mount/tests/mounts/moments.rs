//! Copies of images whose file systems are mounted and written to: clean, and as of one moment over a whole group.

use crate::bench::*;
use crate::volume::Volume;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wasmount_core::mounter::MountError;
use wasmount_core::pool::{PoolCall, PoolReply};

/// Size of the file system below the pool: the minimum of `mkfs.xfs` is 300 MiB.
const POOL_BYTES: u64 = 1 << 30;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const ROUNDS: usize = 5;

/// Mounts an xfs at the pool, which must not have been used yet; it ends with the namespace.
fn on_xfs(bench: &Bench) {
    let image = bench.path("pool-disk");
    File::create(&image).unwrap().set_len(POOL_BYTES).unwrap();
    run(Command::new("mkfs.xfs").arg("-q").arg(&image));
    mount_image(&image, &bench.path("pool"), "loop");
}

fn mount_image(image: &Path, at: &Path, options: &str) {
    run(Command::new("mount")
        .args(["-o", options])
        .arg(image)
        .arg(at));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}

fn counter(volume: &Volume<'_>) -> File {
    let path = volume.bench.staging(volume.name).join("counter");
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    options.open(path).unwrap()
}

fn count(file: &File, count: u64) {
    file.write_all_at(&count.to_le_bytes(), 0).unwrap();
    file.sync_all().unwrap();
}

/// The content of a copy, mounted as it is: nothing is replayed or repaired.
fn counted(bench: &Bench, copy: &str) -> u64 {
    let at = bench.path("outside");
    mount_image(&bench.path("pool").join(copy), &at, "loop,ro,noload");
    let content = std::fs::read(at.join("counter")).unwrap();
    take_off(&at);
    u64::from_le_bytes(content.try_into().unwrap())
}

/// Nothing is mounted but the pool, and neither a record nor a freeze intent is left for the next host.
fn assert_ended(bench: &Bench) {
    let mounts = bench.mounts().into_iter().map(|(point, _)| point);
    assert_eq!(mounts.collect::<Vec<_>>(), [bench.path("pool")]);
    assert!(bench.journal_files().is_empty());
    let intents = std::fs::read_dir(bench.path("run/frozen")).unwrap();
    assert_eq!(intents.count(), 0);
}

async fn clone_all(bench: &Bench, round: usize) -> Result<PoolReply, MountError> {
    let copies = NAMES.map(|name| (format!("{name}.img"), format!("{name}-{round}.img")));
    let call = PoolCall::CloneImages {
        pool: "main".to_owned(),
        copies: copies.to_vec(),
    };
    bench.mounter.pool(driver(), call).await
}

#[test]
fn privileged_a_group_in_use_is_copied_clean_and_consistent() {
    privileged(async |bench| {
        on_xfs(&bench);
        let mut volumes = Vec::new();
        for name in NAMES {
            let volume = Volume::of_image(&bench, name, "ext4", 16).await;
            volume.stage().await.unwrap();
            volumes.push(volume);
        }
        let counters: Vec<_> = volumes.iter().map(counter).collect();
        counters.iter().for_each(|file| count(file, 0));
        let is_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_ended);
        let writer = std::thread::spawn(move || {
            let mut number = 0;
            while !ended.load(Ordering::Relaxed) {
                number += 1;
                counters.iter().for_each(|file| count(file, number));
            }
            number
        });
        for round in 0..ROUNDS {
            assert_eq!(clone_all(&bench, round).await, Ok(PoolReply::Done));
        }
        is_ended.store(true, Ordering::Relaxed);
        let last = writer.join().unwrap();
        let mut seen = Vec::new();
        for round in 0..ROUNDS {
            let counts = NAMES.map(|name| counted(&bench, &format!("{name}-{round}.img")));
            // In the order of the writes: only the first may be one ahead.
            let (first, rest) = counts.split_first().unwrap();
            let behind = rest.iter().find(|count| *count != first);
            assert!(counts.is_sorted_by(|one, next| one >= next), "{counts:?}");
            assert!(behind.is_none_or(|count| count + 1 == *first), "{counts:?}");
            seen.push(*first);
        }
        assert!(
            seen.is_sorted() && seen.iter().any(|count| *count > 0),
            "{seen:?}"
        );
        assert!(seen.iter().all(|count| *count <= last), "{seen:?} {last}");
        for volume in volumes {
            volume.unstage().await.unwrap();
        }
        assert_ended(&bench);
    });
}

#[test]
fn privileged_a_clone_of_a_volume_in_use_needs_no_replay() {
    privileged(async |bench| {
        on_xfs(&bench);
        let volume = Volume::of_image(&bench, "a", "ext4", 16).await;
        volume.stage().await.unwrap();
        let file = counter(&volume);
        // The data is not synced: a crash would lose it.
        file.write_all_at(&7_u64.to_le_bytes(), 0).unwrap();
        let call = PoolCall::CloneImage {
            pool: "main".to_owned(),
            source: "a.img".to_owned(),
            target: "a-0.img".to_owned(),
        };
        assert_eq!(
            bench.mounter.pool(driver(), call).await,
            Ok(PoolReply::Done)
        );
        assert_eq!(counted(&bench, "a-0.img"), 7);
        file.write_all_at(&8_u64.to_le_bytes(), 0).unwrap();
        drop(file);
        volume.unstage().await.unwrap();
        assert_ended(&bench);
    });
}
