//! Block devices of a bench: the loop devices on its pool, and devices of the node with names in the form of udev.

use super::{Bench, DEVICE_PREFIX};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Longest time until a detached loop device is released: the kernel does so when its last user closes it, and programs beside this one look through
/// all devices (loop(4)).
const RELEASE_TIME: Duration = Duration::from_secs(10);

/// Time between two looks at the devices.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

impl Bench {
    /// Detaches the loop devices of this bench, as an administrator with `losetup` might.
    pub(crate) fn detach_loop_devices(&self) {
        for device in fs::read_dir("/sys/block").unwrap() {
            let device = device.unwrap();
            let file = fs::read_to_string(device.path().join("loop/backing_file"));
            if file.is_ok_and(|file| Path::new(&file).starts_with(self.path("pool"))) {
                let node = Path::new("/dev").join(device.file_name());
                let detached = Command::new("losetup").arg("--detach").arg(node).status();
                assert!(detached.unwrap().success());
            }
        }
    }

    /// Publishes an image as a raw block volume, as a driver that uses `losetup` does.
    pub(crate) fn attach_as_others(&self, image: &Path, target: &Path) {
        let attached = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(image)
            .output()
            .expect("this test needs `losetup` of the Debian package mount");
        let device = String::from_utf8(attached.stdout).unwrap();
        fs::write(target, "").unwrap();
        rustix::mount::mount_bind(device.trim_end(), target).unwrap();
    }

    /// Number of the loop device that lies on a file of the pool.
    pub(crate) fn loop_of(&self, file: &str) -> u64 {
        let file = self.path("pool").join(file);
        let devices = fs::read_dir("/sys/block").unwrap();
        let names = devices.map(|device| device.unwrap());
        let device = names.into_iter().find(|device| {
            let backing = fs::read_to_string(device.path().join("loop/backing_file"));
            backing.is_ok_and(|backing| Path::new(backing.trim_end()) == file)
        });
        let node = Path::new("/dev").join(device.unwrap().file_name());
        std::os::unix::fs::MetadataExt::rdev(&fs::metadata(node).unwrap())
    }

    /// Number of loop devices on this bench's pool.
    pub(crate) fn loop_devices(&self) -> usize {
        let own = |file: &&PathBuf| file.starts_with(self.path("pool"));
        loop_files().iter().filter(own).count()
    }

    /// Waits until it has so many.
    pub(crate) fn assert_loop_devices(&self, expected: usize) {
        let deadline = Instant::now() + RELEASE_TIME;
        while self.loop_devices() != expected {
            let files = loop_files();
            assert!(Instant::now() < deadline, "not {expected} of {files:?}");
            thread::sleep(POLL_INTERVAL);
        }
    }

    pub(crate) fn assert_no_loop_devices(&self) {
        self.assert_loop_devices(0);
    }
}

/// The files behind the bound loop devices of this machine.
fn loop_files() -> Vec<PathBuf> {
    let devices = fs::read_dir("/sys/block").unwrap();
    let file = |device: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(device.unwrap().path().join("loop/backing_file"))
    };
    devices
        .filter_map(|device| file(device).ok())
        .map(|file| PathBuf::from(file.trim_end()))
        .collect()
}

/// A block device of the node with a name in `/dev/disk/by-id`, in the form of udev. Detached when it is dropped.
pub(crate) struct NodeDevice {
    device: PathBuf,
    link: PathBuf,
}

impl NodeDevice {
    pub(crate) fn attach(bench: &Bench, name: &str, size_bytes: u64) -> Self {
        let image = bench.path("outside").join(name);
        fs::File::create(&image)
            .unwrap()
            .set_len(size_bytes)
            .unwrap();
        let attached = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&image)
            .output()
            .expect("this test needs `losetup` of the Debian package mount");
        assert!(attached.status.success(), "{attached:?}");
        let device = PathBuf::from(String::from_utf8(attached.stdout).unwrap().trim_end());
        let names = Path::new("/dev/disk/by-id");
        fs::create_dir_all(names).unwrap();
        let unique = bench.directory.file_name().unwrap().to_str().unwrap();
        let link = names.join(format!(
            "{DEVICE_PREFIX}{}-{name}",
            unique.trim_start_matches('.')
        ));
        std::os::unix::fs::symlink(&device, &link).unwrap();
        Self { device, link }
    }

    pub(crate) fn by_id(&self) -> String {
        self.link.file_name().unwrap().to_str().unwrap().to_owned()
    }
}

impl Drop for NodeDevice {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.link);
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.device)
            .status();
    }
}
