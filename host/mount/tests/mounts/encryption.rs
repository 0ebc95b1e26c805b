//! Encrypted volumes on images, by the real cryptsetup and dm-crypt: only the VM's kernel has them.

mod devices;
mod kills;
mod others;

use crate::bench::*;
use crate::volume::Volume;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::Source;
use wasmount_core::pool::PoolCall;
use wasmount_core::volume::{AccessMode, AccessType};

const MEBIBYTE: u64 = 1 << 20;
/// Time limit of a copy that is tried until the file system writes nothing: longer than it commits its journal by itself (5 s).
const PATIENCE: Duration = Duration::from_secs(60);
const PASSPHRASE: &str = "correct horse battery staple\n";
/// What is written to volumes, and must not be on their storage.
const PLAIN: &[u8] = b"nobody reads this on the storage. ";

/// Pause between two looks at all processes: short beside the life of a program, and long beside a look.
const LOOK: Duration = Duration::from_millis(2);

/// The image of a volume.
fn image(bench: &Bench, name: &str) -> PathBuf {
    bench.path("pool").join(format!("{name}.img"))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The names of all maps.
fn maps() -> Vec<String> {
    let devices = fs::read_dir("/sys/class/block").unwrap();
    let names = devices.map(|it| it.unwrap().path().join("dm/name"));
    let names = names.filter_map(|it| fs::read_to_string(it).ok());
    names.map(|it| it.trim().to_owned()).collect()
}

/// Everything that the host keeps, as bytes.
fn kept(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        bytes.extend(match path.is_dir() {
            true => kept(&path),
            false => fs::read(&path).unwrap_or_default(),
        });
    }
    bytes
}

/// Every process that runs a program, with its arguments. A thread of the kernel has none, and never gets any: those that were there before a test are
/// left out, since a VM has more of them than of all others, and one processor.
struct Programs(BTreeSet<OsString>);

impl Programs {
    fn new() -> Self {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let of_kernel =
            all.filter(|it| fs::read(it.path().join("cmdline")).is_ok_and(|it| it.is_empty()));
        Self(of_kernel.map(|it| it.file_name()).collect())
    }

    fn running(&self) -> impl Iterator<Item = (PathBuf, Vec<u8>)> {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let programs = all.filter(|it| !self.0.contains(&it.file_name()));
        programs.filter_map(|it| Some((it.path(), fs::read(it.path().join("cmdline")).ok()?)))
    }
}

/// Reads the arguments and the environment of every process until it is told to end; returns whether the passphrase was among them, and how many of
/// `cryptsetup` were.
fn watch(end: Arc<AtomicBool>) -> std::thread::JoinHandle<(bool, usize)> {
    std::thread::spawn(move || {
        let (mut is_seen, mut calls) = (false, 0);
        let programs = Programs::new();
        while !end.load(Ordering::Relaxed) {
            for (process, arguments) in programs.running() {
                let environment = fs::read(process.join("environ")).unwrap_or_default();
                calls += usize::from(arguments.starts_with(b"cryptsetup"));
                let part = b"correct horse";
                is_seen |= contains(&arguments, part) || contains(&environment, part);
            }
            std::thread::sleep(LOOK);
        }
        (is_seen, calls)
    })
}

/// Writes to what a target shows: a file, or the device itself.
fn write(volume: &Volume<'_>, target: &str) {
    let at = volume.bench.target(target);
    let at = match volume.access_type {
        AccessType::Block => at,
        _ => at.join("data"),
    };
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(!at.exists()).open(at).unwrap();
    for _ in 0..1000 {
        file.write_all(PLAIN).unwrap();
    }
    file.sync_all().unwrap();
}

fn read(volume: &Volume<'_>, target: &str) -> Vec<u8> {
    let at = volume.bench.target(target);
    let at = match volume.access_type {
        AccessType::Block => at,
        _ => at.join("data"),
    };
    let mut bytes = vec![0; PLAIN.len()];
    fs::File::open(at).unwrap().read_exact(&mut bytes).unwrap();
    bytes
}

/// A volume whose blank image has the header of an unfinished first stage, with a key that takes no time. That of the mounter itself takes more than a
/// second of the VM's CPU whenever the volume is opened: only tests of the first stage begin without.
async fn prepared<'b>(
    bench: &'b Bench,
    name: &'static str,
    form: &str,
    mebibytes: u64,
) -> Volume<'b> {
    let volume = Volume::of_image(bench, name, form, mebibytes).await;
    luks_format(&image(bench, name));
    volume.encrypted_by(PASSPHRASE)
}

fn luks_format(device: &Path) {
    let device = device.display();
    let options = "-q --type=luks2 --label=wasmount-new --sector-size=512 --key-size=512";
    let key = "--pbkdf=pbkdf2 --pbkdf-force-iterations=1000 --key-file=-";
    let format = format!("cryptsetup luksFormat {options} {key} {device}");
    shell(&format!(
        "printf '{}' | {format}",
        PASSPHRASE.escape_default()
    ));
}

/// Nothing is left, and neither a map nor its node.
async fn end(volume: &Volume<'_>, targets: &[&str]) {
    volume.end(targets).await;
    assert_eq!(maps(), [""; 0]);
    let nodes = fs::read_dir("/dev/mapper").unwrap();
    let nodes = nodes.map(|it| it.unwrap().file_name());
    assert_eq!(nodes.collect::<Vec<_>>(), ["control"]);
}

#[test]
fn on_other_kernel_an_encrypted_image_lives_and_hides_it_all() {
    privileged(async |bench| {
        for (form, mebibytes) in [("ext4", 64), ("raw", 48)] {
            let volume = Volume::of_image(&bench, form, form, mebibytes).await;
            let volume = volume.encrypted_by(PASSPHRASE);
            let is_over = Arc::new(AtomicBool::new(false));
            let watched = watch(is_over.clone());
            for round in 0..2 {
                volume.stage().await.unwrap();
                volume.stage().await.unwrap();
                assert_eq!(maps().len(), 1, "{form}");
                volume.publish("a").await.unwrap();
                volume.publish("a").await.unwrap();
                if round == 0 {
                    write(&volume, "a");
                }
                assert_eq!(read(&volume, "a"), PLAIN, "{form}");
                let total = volume.stats("a").await.unwrap().bytes.total;
                assert!(total <= (mebibytes - 16) * MEBIBYTE, "{form} {total}");
                assert!(!contains(&kept(&bench.path("run")), b"correct horse"));
                assert!(!contains(&kept(&bench.path("state")), b"correct horse"));
                end(&volume, &["a"]).await;
            }
            is_over.store(true, Ordering::Relaxed);
            let (is_seen, calls) = watched.join().unwrap();
            assert!(!is_seen && calls > 0, "{form} {is_seen} {calls}");
            let image = image(&bench, form);
            for words in ["nobody reads", "correct horse"] {
                shell(&format!("! grep -aqF '{words}' {}", image.display()));
            }
        }
    });
}

#[test]
fn on_other_kernel_an_encrypted_volume_grows_in_use() {
    privileged(async |bench| {
        for (form, mebibytes) in [("xfs", 400), ("raw", 48)] {
            let volume = prepared(&bench, form, form, mebibytes).await;
            volume.stage().await.unwrap();
            for (target, readonly) in [("rw", false), ("ro", true)] {
                volume.publish_as(target, WRITER, readonly).await.unwrap();
            }
            write(&volume, "rw");
            let before = volume.stats("ro").await.unwrap().bytes.total;
            let wanted = (mebibytes + 256) * MEBIBYTE;
            for _ in 0..2 {
                let grown = volume.expand(Some(wanted), None).await;
                assert_eq!(grown, Ok(wanted), "{form}");
            }
            for target in ["rw", "ro"] {
                let after = volume.stats(target).await.unwrap().bytes.total;
                assert!(after >= before + 240 * MEBIBYTE, "{form} {before} {after}");
                assert_eq!(read(&volume, target), PLAIN, "{form}");
            }
            end(&volume, &["rw", "ro"]).await;
        }
    });
}

#[test]
fn on_other_kernel_readers_of_an_encrypted_volume_only_read() {
    privileged(async |bench| {
        for form in ["ext4", "raw"] {
            let volume = Volume::of_image(&bench, form, form, 48).await;
            let volume = volume.encrypted_by(PASSPHRASE);
            let blank = volume.stage_as(AccessMode::MultiNodeReaderOnly).await;
            let text = blank.unwrap_err().to_string();
            assert!(text.contains("is not encrypted yet"), "{text}");
            luks_format(&image(&bench, form));
            volume.stage().await.unwrap();
            volume.publish("a").await.unwrap();
            write(&volume, "a");
            end(&volume, &["a"]).await;
            let before = fs::read(image(&bench, form)).unwrap();
            let mode = AccessMode::MultiNodeReaderOnly;
            volume.stage_as(mode).await.unwrap();
            volume.publish_as("a", mode, true).await.unwrap();
            assert_eq!(read(&volume, "a"), PLAIN);
            let node = bench.target("a");
            if form == "raw" {
                let opened = fs::OpenOptions::new().write(true).open(node);
                let written = opened.and_then(|mut file| {
                    file.write_all(PLAIN)?;
                    file.sync_all()
                });
                assert!(written.is_err());
            }
            end(&volume, &["a"]).await;
            let after = fs::read(image(&bench, form)).unwrap();
            assert!(before == after, "{form}");
        }
    });
}

#[test]
fn on_other_kernel_a_copy_opens_with_the_key_of_its_origin() {
    privileged(async |bench| {
        let volume = prepared(&bench, "v", "ext4", 64).await;
        volume.stage().await.unwrap();
        volume.publish("v").await.unwrap();
        write(&volume, "v");
        let call = PoolCall::CloneImage {
            pool: "main".to_owned(),
            source: "v.img".to_owned(),
            target: "copy.img".to_owned(),
        };
        // The origin is in use, and this pool copies its blocks one by one: again, if the file system wrote one meanwhile.
        let begin = Instant::now();
        while let Err(error) = bench.mounter.pool(driver(), call.clone()).await {
            let is_written = matches!(&error, MountError::InUse(text) if text.contains("written"));
            assert!(is_written && begin.elapsed() < PATIENCE, "{error}");
        }
        let plan = plan(Source::Image {
            pool: "main".to_owned(),
            path: "copy.img".to_owned(),
        });
        let access_type = volume.access_type.clone();
        let copy = Volume::new(&bench, "copy", plan, access_type).encrypted_by(PASSPHRASE);
        copy.stage().await.unwrap();
        copy.publish("copy").await.unwrap();
        assert_eq!(maps().len(), 2);
        assert_eq!(read(&copy, "copy"), PLAIN);
        for (one, target) in [(&copy, "copy"), (&volume, "v")] {
            one.unpublish(target).await.unwrap();
            one.unstage().await.unwrap();
        }
        bench.assert_clean();
        assert_eq!(maps(), [""; 0]);
    });
}

#[test]
fn on_other_kernel_an_encrypted_volume_needs_no_stage() {
    privileged(async |bench| {
        for (form, mebibytes) in [("btrfs", 200), ("raw", 48)] {
            let volume = prepared(&bench, form, form, mebibytes).await;
            volume.publish_plan("a", false).await.unwrap();
            volume.publish_plan("b", true).await.unwrap();
            write(&volume, "a");
            assert_eq!(read(&volume, "b"), PLAIN, "{form}");
            assert_eq!(maps().len(), 1, "{form}");
            volume.unpublish("a").await.unwrap();
            assert_eq!(read(&volume, "b"), PLAIN, "{form}");
            volume.unpublish("b").await.unwrap();
            bench.assert_clean();
            bench.assert_no_loop_devices();
            assert_eq!(maps(), [""; 0]);
        }
    });
}

/// What a line for the shell writes.
fn shell(line: &str) -> String {
    let mut command = Command::new("sh");
    // A test's namespace has no udev to wait for.
    let output = command
        .args(["-c", line])
        .env("DM_DISABLE_UDEV", "1")
        .output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {text}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().to_owned()
}

fn refused(result: Result<(), MountError>) -> String {
    match result {
        Err(MountError::Unusable(text) | MountError::Damaged(text)) => text,
        other => panic!("{other:?}"),
    }
}
