//! The identity of the file behind a device equals the result of `statx` for the file, on every kind of file system that a pool may use. This
//! includes file systems whose device is anonymous (btrfs, tmpfs, overlay) or differs from the mount's (subvolumes of btrfs).

use super::*;
use crate::namespace::in_a_namespace;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs;

/// `mkfs.xfs` requires at least this size.
const DISK_BYTES: u64 = 300 << 20;

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("`{program}` is missing: install it ({error})"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
}

/// Unmounts lazily: a child of another test may hold copies of our descriptors until its exec.
fn detach(directory: &Path) {
    unmount(directory, UnmountFlags::DETACH).unwrap();
}

/// Compares a device with an image in this directory with the result of `statx`.
fn check(directory: &Path) {
    let path = directory.join("image");
    let file = File::create_new(&path).unwrap();
    file.set_len(BYTES).unwrap();
    drop(file);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let image = OwnedFd::from(file);
    let device = attach(&image, false, &staged()).unwrap();
    let identity = observe(&image).unwrap().identity;
    assert_eq!(device.backing, Some(identity), "{}", directory.display());
    assert_eq!(attached_to(&image).len(), 1, "{}", directory.display());
    drop(device);
    wait_until_gone(&image);
}

fn on_disk(directory: &Path, file_system: &str, also: impl FnOnce(&Path)) {
    let disk = tempfile::tempfile().unwrap();
    disk.set_len(DISK_BYTES).unwrap();
    let device = attach(&disk.into(), false, &staged()).unwrap();
    run(
        &format!("mkfs.{file_system}"),
        &["-q", device.path.to_str().unwrap()],
    );
    mount(
        &device.path,
        directory,
        file_system,
        MountFlags::empty(),
        None,
    )
    .unwrap();
    check(directory);
    also(directory);
    detach(directory);
}

#[test]
fn privileged_ext4_and_xfs_files_are_known_by_disk_and_inode() {
    in_a_namespace(|| {
        let directory = tempfile::tempdir().unwrap();
        for file_system in ["ext4", "xfs"] {
            on_disk(directory.path(), file_system, |_| {});
        }
    });
}

#[test]
fn privileged_a_btrfs_file_is_known_by_subvolume_and_inode() {
    in_a_namespace(|| {
        let directory = tempfile::tempdir().unwrap();
        on_disk(directory.path(), "btrfs", |root| {
            let volume = root.join("subvolume");
            run("btrfs", &["subvolume", "create", volume.to_str().unwrap()]);
            check(&volume);
            let device = |path: &Path| {
                let identity = observe(File::open(path).unwrap()).unwrap().identity;
                (identity.device_major, identity.device_minor)
            };
            assert_ne!(device(root), device(&volume));
        });
    });
}

#[test]
fn privileged_tmpfs_and_overlay_files_are_known_by_stat() {
    in_a_namespace(|| {
        let directory = tempfile::tempdir().unwrap();
        let below = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        mount("none", directory.path(), "tmpfs", MountFlags::empty(), None).unwrap();
        check(directory.path());
        for name in ["lower", "upper", "work", "merged"] {
            fs::create_dir(below(name)).unwrap();
        }
        let [lower, upper, work] = ["lower", "upper", "work"].map(below);
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let options = CString::new(options).unwrap();
        let merged = below("merged");
        mount(
            "none",
            &merged,
            "overlay",
            MountFlags::empty(),
            options.as_c_str(),
        )
        .unwrap();
        check(Path::new(&merged));
        detach(Path::new(&merged));
        detach(directory.path());
    });
}
