//! Two disks of the kernel's test driver for SCSI, which looks like hardware, in a VM; and what Nova would write to them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// What Nova tells an instance, shortened.
pub(crate) const META_DATA: &str = r#"{"uuid":"d8e02d56-2648-49a3-bf97-6be8f1204f38","availability_zone":"zone-a","admin_pass":"hunter22","name":"test"}"#;

/// Size of each disk, in MiB: the smallest that FAT and ISO 9660 fit into.
const SIZE: &str = "dev_size_mb=8";
/// Two hosts with one disk each, and content of their own.
const HOSTS: [&str; 2] = ["add_host=2", "per_host_store=1"];
/// Each disk tells this as its vendor.
const VENDOR: &str = "Linux";
/// The kernel looks for disks in the background.
const APPEARS: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// They end with this value.
pub(crate) struct Disks([PathBuf; 2]);

impl Disks {
    /// Blank disks.
    pub(crate) fn start() -> Self {
        assert!(
            std::env::var_os("WASMOUNT_VM").is_some(),
            "this test runs in a VM, by `cargo xtask test`, or alone by `cargo xtask vm -- PROGRAM NAME`"
        );
        run("modprobe", &["sd_mod"]);
        run("modprobe", &["scsi_debug", SIZE, HOSTS[0], HOSTS[1]]);
        let since = Instant::now();
        loop {
            let found: Result<[PathBuf; 2], _> = disks().try_into();
            match found {
                Ok(disks) => return Self(disks),
                Err(found) => assert!(since.elapsed() < APPEARS, "{found:?}"),
            }
            thread::sleep(PAUSE);
        }
    }

    /// The path of a disk.
    pub(crate) fn path(&self, index: usize) -> &Path {
        &self.0[index]
    }

    /// Writes an ISO 9660 file system as Nova does, with this `meta_data.json`.
    pub(crate) fn iso(&self, index: usize, label: &str, meta_data: &str) {
        self.iso_with(index, label, |path| fs::write(path, meta_data).unwrap());
    }

    /// The same, with a link in place of the file.
    #[allow(dead_code, reason = "the tests of the whole host need no link")]
    pub(crate) fn iso_with_link(&self, index: usize, label: &str, to: &str) {
        self.iso_with(index, label, |path| symlink(to, path).unwrap());
    }

    fn iso_with(&self, index: usize, label: &str, write: impl FnOnce(&Path)) {
        let folder = tempfile::tempdir().unwrap();
        let latest = folder.path().join("drive/openstack/latest");
        fs::create_dir_all(&latest).unwrap();
        write(&latest.join("meta_data.json"));
        let (image, drive) = (folder.path().join("image"), folder.path().join("drive"));
        let (image, drive) = (image.to_str().unwrap(), drive.to_str().unwrap());
        let words = ["-quiet", "-J", "-r", "-V", label, "-o", image, drive];
        run("genisoimage", &words);
        fs::write(self.path(index), fs::read(image).unwrap()).unwrap();
    }

    /// Writes a FAT file system as Nova does.
    #[allow(dead_code, reason = "the tests of the whole host have ISO 9660")]
    pub(crate) fn fat(&self, index: usize, label: &str, meta_data: &str) {
        let disk = self.path(index).to_str().unwrap();
        run("busybox", &["mkdosfs", "-n", label, disk]);
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_str().unwrap();
        run("mount", &["-t", "vfat", disk, place]);
        let latest = folder.path().join("openstack/latest");
        fs::create_dir_all(&latest).unwrap();
        fs::write(latest.join("meta_data.json"), meta_data).unwrap();
        run("umount", &[place]);
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        let ended = Command::new("modprobe").args(["-r", "scsi_debug"]).status();
        // A test that failed may still use one.
        assert!(thread::panicking() || ended.unwrap().success());
    }
}

/// Runs a program that must succeed.
pub(crate) fn run(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(output.status.success(), "{program} {words:?}: {output:?}");
}

/// The disks whose nodes are there, in order.
fn disks() -> Vec<PathBuf> {
    let mut disks: Vec<_> = fs::read_dir("/sys/block")
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| {
            let vendor = fs::read_to_string(entry.path().join("device/vendor"));
            vendor.is_ok_and(|vendor| vendor.trim() == VENDOR)
        })
        .map(|entry| Path::new("/dev").join(entry.file_name()))
        .filter(|node| node.exists())
        .collect();
    disks.sort_unstable();
    disks
}
