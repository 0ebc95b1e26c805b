//! Devices that are in use are not opened.

use super::*;
use crate::namespace::take_off;

fn in_use(name: &str) -> String {
    match open(&by_id(name, 0), true).unwrap_err() {
        MountError::InUse(text) => text.split_once(" is in use: ").unwrap().1.to_owned(),
        other => panic!("{other}"),
    }
}

/// A mount, swap or another device may be the user. The kernel does not say which, so the message explains how to find out.
fn assert_held(name: &str) {
    let by = in_use(name);
    assert!(by.contains("`lsblk`"), "{by}");
}

#[test]
fn privileged_a_mounted_device_is_in_use() {
    privileged(|| {
        let device = Loop::attach(&[]);
        device.link("acme-1");
        run("mkfs.ext4", &[OsStr::new("-q"), device.node.as_os_str()]);
        let point = tempfile::tempdir().unwrap();
        mount(
            &device.node,
            point.path(),
            "ext4",
            MountFlags::empty(),
            None,
        )
        .unwrap();
        assert_held("acme-1");
        take_off(point.path());
        open_free(&by_id("acme-1", 0), false);
    });
}

#[test]
fn privileged_a_device_mounted_elsewhere_is_in_use() {
    privileged(|| {
        let device = Loop::attach(&[]);
        device.link("acme-1");
        run("mkfs.ext4", &[OsStr::new("-q"), device.node.as_os_str()]);
        let folder = tempfile::tempdir().unwrap();
        let (node, point) = (device.node.as_path(), folder.path());
        let (mounted, is_mounted) = std::sync::mpsc::channel();
        let (finish, is_finished) = std::sync::mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                unshare();
                mount(node, point, "ext4", MountFlags::empty(), None).unwrap();
                mounted.send(()).unwrap();
                // Blocks until the sender is dropped.
                let _ = is_finished.recv();
            });
            is_mounted.recv().unwrap();
            assert_held("acme-1");
            drop(finish);
        });
    });
}

#[test]
fn privileged_a_device_under_a_loop_device_is_in_use() {
    privileged(|| {
        let device = Loop::attach(&[]);
        device.link("acme-1");
        let above = Loop::over(None, Some(&device.node), &[]);
        assert_eq!(
            in_use("acme-1"),
            format!("{} lies on it", above.node.display())
        );
        drop(above);
        open_free(&by_id("acme-1", 0), true);
    });
}

#[test]
fn privileged_a_device_below_a_kubelet_loop_device_is_in_use() {
    privileged(|| {
        let device = Loop::attach(&[]);
        device.link("acme-1");
        // kubelet opens a raw block volume at its target path, which is a bind mount of the device's node.
        let target = tempfile::NamedTempFile::new().unwrap();
        rustix::mount::mount_bind(&device.node, target.path()).unwrap();
        let above = Loop::over(None, Some(target.path()), &[]);
        assert_eq!(
            in_use("acme-1"),
            format!("{} lies on it", above.node.display())
        );
        drop(above);
        open_free(&by_id("acme-1", 0), true);
    });
}

#[test]
fn privileged_a_device_that_the_node_swaps_to_is_in_use() {
    privileged(|| {
        let device = Loop::attach(&[]);
        device.link("acme-1");
        run("mkswap", &[&device.node]);
        run("swapon", &[&device.node]);
        let by = std::panic::catch_unwind(|| assert_held("acme-1"));
        run("swapoff", &[&device.node]);
        by.unwrap();
    });
}

#[test]
fn privileged_a_mounted_partition_keeps_its_disk_in_use() {
    privileged(|| {
        let disk = Loop::attach(&["--partscan"]);
        // The partition is given to the kernel directly: not every kernel reads a partition table. It starts at 1 MiB and is 8 MiB long, in sectors.
        let words = [disk.node.to_str().unwrap(), "1", "2048", "16384"];
        run("addpart", &words);
        disk.link("acme-1");
        let name = KernelName::of_node(&format!("{}p1", disk.name()));
        let number = DeviceTree::default().number(&name).unwrap();
        node(&name.to_string(), number.major, number.minor);
        let partition = asked(
            &[(ById, "acme-1"), (Partition, "1")],
            &[(ById, "acme-*")],
            0,
        );
        let opened = open_free(&partition, false);
        assert_eq!(opened.number, number);
        assert_eq!(opened.size_bytes().unwrap(), 8 << 20);
        assert!(is_granted(&granting(&[(ById, "acme-*")]), number));
        drop(opened);

        run("mkfs.ext4", &["-q", &name.to_string()]);
        let point = tempfile::tempdir().unwrap();
        mount(
            name.to_string(),
            point.path(),
            "ext4",
            MountFlags::empty(),
            None,
        )
        .unwrap();
        assert_held("acme-1");
        assert!(matches!(
            open(&partition, true),
            Err(MountError::InUse { .. })
        ));
        take_off(point.path());
    });
}
