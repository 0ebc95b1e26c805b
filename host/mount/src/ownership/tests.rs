//! Lines of the mount table, and the drivers to which they can belong.

use super::*;

fn line(words: &str) -> MountLine {
    let line = format!("9 1 {words} x rw");
    mountinfo::parse(line.as_bytes()).remove(0)
}

fn own(has_tmpfs: bool) -> OwnSources {
    let pool = PoolRoot {
        device: DeviceNumber { major: 8, minor: 1 },
        root: "/srv/pool".into(),
        directory: "/mnt/pool".into(),
    };
    let tmpfs = FilesystemGrant {
        fs_type: "tmpfs".to_owned(),
        sources: Vec::new(),
        mount_options: Vec::new(),
        max_bytes: None,
    };
    OwnSources {
        pools: vec![pool],
        filesystems: Vec::from_iter(has_tmpfs.then_some(tmpfs)),
        devices: vec![DeviceNumber { major: 7, minor: 9 }],
    }
}

#[test]
fn what_lies_in_a_pool_and_a_granted_tmpfs_can_be_the_drivers() {
    for words in [
        "8:1 /srv/pool/v /t rw - ext4",
        "8:1 /srv/pool/a/b /t rw shared:1 - ext4",
        // It was removed while it was mounted.
        "8:1 /srv/pool/.wasmount/trash/1//deleted /t rw - ext4",
        "0:50 / /t rw - tmpfs",
        // Shown by the file system on the device.
        "7:9 / /t rw - ext4",
    ] {
        assert!(own(true).include(&line(words)), "{words}");
    }
}

#[test]
fn a_mount_tells_which_tree_of_the_pool_it_shows() {
    let own = own(false);
    let tree = |words: &str| own.pools[0].tree(&line(words));
    assert_eq!(
        tree("8:1 /srv/pool/a/b /t rw - ext4").as_deref(),
        Some("a/b")
    );
    assert_eq!(tree("8:2 /srv/pool/a/b /t rw - ext4"), None);
}

#[test]
fn an_image_lies_in_its_pool_and_in_no_other() {
    let own = own(false);
    let place = |file: &str| own.pools[0].place_of(Path::new(file));
    assert_eq!(place("/mnt/pool/a/b.img").as_deref(), Some("a/b.img"));
    assert_eq!(place("/mnt/pools/a"), None);
    assert_eq!(place("/srv/pool/a"), None);
}

#[test]
fn what_lies_elsewhere_cannot() {
    for words in [
        "8:1 /srv/pool /t rw - ext4",
        "8:1 /srv/pools/v /t rw - ext4",
        "8:1 /srv /t rw - ext4",
        "8:1 / /t rw - ext4",
        "8:2 /srv/pool/v /t rw - ext4",
        "0:50 / /t rw - tmpfs",
        "0:51 / /t rw - fuse.other",
        "7:8 / /t rw - ext4",
    ] {
        assert!(!own(false).include(&line(words)), "{words}");
    }
    assert!(!own(true).include(&line("0:50 /part /t rw - tmpfs")));
}
