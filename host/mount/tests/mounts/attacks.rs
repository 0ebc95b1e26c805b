//! Attacks on volumes on images, devices and mounted file systems: paths that lead elsewhere, planted or swapped links, devices of another volume,
//! and crafted content. The assertions cover what would have been lost: the bytes and the binding of a file outside of the pool, the flags of a
//! mount, another driver's device.
//!
//! These tests are separate from the unit tests because each makes complete calls, as a hostile plugin, pod or client would.

mod content;
mod devices;
mod links;
mod strings;
mod swaps;
mod targets;

use crate::bench::*;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wasmount_core::plan::{Plan, Source};
use wasmount_sys::loop_device;

const MEBIBYTE: u64 = 1 << 20;

/// A file that no call may access. It is empty, so a call that formats blank content would format it.
struct Canary {
    path: PathBuf,
    inode: u64,
}

impl Canary {
    fn plant(path: PathBuf) -> Self {
        File::create(&path).unwrap().set_len(32 * MEBIBYTE).unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        Self { path, inode }
    }

    /// No loop device is bound to it now.
    fn assert_unbound(&self, bench: &Bench) {
        let bound = bindings(bench);
        assert!(
            bound.iter().all(|(_, inode)| *inode != self.inode),
            "{bound:?} has the canary {}",
            self.inode
        );
    }

    /// Not one byte was written.
    fn assert_untouched(&self) {
        let now = fs::metadata(&self.path).unwrap();
        assert_eq!((now.ino(), now.blocks()), (self.inode, 0));
    }
}

/// The loop devices of this bench, with the inode of the file behind each. By now the name alone could belong to another file.
fn bindings(bench: &Bench) -> Vec<(PathBuf, u64)> {
    let own = bench.path("");
    let mut found = Vec::new();
    for device in fs::read_dir("/sys/block").unwrap() {
        let device = device.unwrap();
        let Ok(file) = fs::read_to_string(device.path().join("loop/backing_file")) else {
            continue;
        };
        if !Path::new(&file).starts_with(&own) {
            continue;
        }
        let node = Path::new("/dev").join(device.file_name());
        // It disappeared between two checks.
        let Ok(opened) = File::open(&node) else {
            continue;
        };
        if let Ok(status) = loop_device::status(&opened) {
            found.push((node, status.backing_inode));
        }
    }
    found
}

/// A program that checks all loop devices, as each stage of another test does, keeps one open for a moment.
async fn assert_let_go(bench: &Bench) {
    for _ in 0..100 {
        if bench.loop_devices() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bench.assert_no_loop_devices();
}

/// The one loop device of this bench.
pub(crate) fn only_device(bench: &Bench) -> PathBuf {
    let [(device, _)] = bindings(bench).try_into().unwrap();
    device
}

fn image_at(path: &str) -> Plan {
    plan(Source::Image {
        pool: "main".to_owned(),
        path: path.to_owned(),
    })
}

/// Runs a tool that a test needs.
fn run(program: &str, arguments: &[&str]) -> String {
    let ended = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("this test needs `{program}`: {error}"));
    assert!(ended.status.success(), "{program}: {ended:?}");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
