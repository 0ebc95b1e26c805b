//! A host or an `mkfs` that is killed at any moment: the next call starts again, but only if nothing can have been written to the file system.

use super::*;
use std::os::unix::process::ExitStatusExt;
use std::time::Instant;

/// Number of moments at which each `mkfs` is killed.
const KILLS: u32 = 12;

/// Writes the intent; `mkfs` has not started yet.
pub(super) fn begin(bench: &Bench, disk: &Disk, fs_type: FsType) -> Uuid {
    let uuid = Uuid::new_v4();
    let intent = bench.intent(disk, fs_type, uuid);
    bench.durable.set_intent(&bench.key, Some(intent)).unwrap();
    uuid
}

/// The command of an `mkfs`.
pub(super) fn mkfs(disk: &Disk, fs_type: FsType, uuid: Uuid) -> Command {
    let call = make_call(&disk.device.path, fs_type, uuid);
    let mut command = Command::new(call.program);
    let quiet = std::process::Stdio::null;
    command
        .args(&call.arguments)
        .stdout(quiet())
        .stderr(quiet());
    command
}

/// Duration of an uninterrupted `mkfs`.
fn time_of(disk: &Disk, fs_type: FsType) -> Duration {
    let begun = Instant::now();
    let mut mkfs = mkfs(disk, fs_type, Uuid::new_v4());
    assert!(mkfs.status().unwrap().success());
    begun.elapsed()
}

#[test]
fn privileged_an_mkfs_that_is_killed_at_any_moment_is_repeated() {
    for fs_type in FsType::ALL {
        privileged(move |bench| {
            let disk = bench.disk(1024 * MIB);
            let whole = time_of(&disk, fs_type);
            let mut killed = 0;
            for kill in 0..KILLS {
                disk.wipe();
                let uuid = begin(bench, &disk, fs_type);
                let mut child = mkfs(&disk, fs_type, uuid).spawn().unwrap();
                std::thread::sleep(whole * kill / (KILLS - 1));
                child.kill().unwrap();
                let ended = child.wait().unwrap();
                killed += u32::from(ended.signal().is_some());
                let mount = bench
                    .mount(&disk, fs_type)
                    .unwrap_or_else(|error| panic!("{fs_type:?} {kill}: {error}"));
                put(&mount, "data", "kept");
                assert_eq!(bench.durable.intent(&bench.key), None);
                drop(mount);
                assert_eq!(get(&bench.mount(&disk, fs_type).unwrap(), "data"), "kept");
            }
            assert!(killed > 0, "each mkfs of {fs_type:?} ended before its kill");
        });
    }
}

#[test]
fn privileged_a_partial_mkfs_without_intent_is_kept() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        run("mkfs.ext4", &["-q", disk.path()]);
        // The state if it is killed before the superblock is written.
        disk.write(0, &[0; 4096]);
        let before = disk.digest();
        let error = bench.mount(&disk, FsType::Ext4).unwrap_err();
        assert!(matches!(error, MountError::Unusable { .. }), "{error}");
        assert!(disk.digest() == before);
    });
}

#[test]
fn privileged_an_unfinished_ext4_on_a_disk_is_made_again() {
    privileged(|bench| {
        let mount_by = |uuid: Uuid| {
            let mut disk = bench.disk(SIZE);
            // A disk of the node, not an image.
            disk.device.backing = None;
            run("mkfs.ext4", &["-q", "-U", &uuid.to_string(), disk.path()]);
            // The state if it is killed before the superblock is written.
            disk.write(0, &[0; 4096]);
            let intent = bench.intent(&disk, FsType::Ext4, uuid);
            bench.durable.set_intent(&bench.key, Some(intent)).unwrap();
            bench.mount(&disk, FsType::Ext4).map(drop)
        };
        mount_by(Uuid::now_v7()).unwrap();
        for not_recent in [Uuid::new_v4(), made_before(INTENT_TIME)] {
            let error = mount_by(not_recent).unwrap_err();
            assert!(matches!(error, MountError::Unusable { .. }), "{error}");
        }
    });
}

#[test]
fn an_intent_is_recent_for_an_hour() {
    let now = SystemTime::now();
    assert!(is_recent(made_before(Duration::ZERO), now));
    let almost = INTENT_TIME - Duration::from_secs(2);
    assert!(is_recent(made_before(almost), now));
    assert!(!is_recent(made_before(INTENT_TIME), now));
    // The clock was set back.
    let earlier = now - Duration::from_mins(1);
    assert!(!is_recent(made_before(Duration::ZERO), earlier));
    assert!(!is_recent(Uuid::new_v4(), now));
}

fn made_before(age: Duration) -> Uuid {
    let made = SystemTime::now() - age;
    let since = made.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let millis = u64::try_from(since.as_millis()).unwrap();
    uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid()
}

#[test]
fn privileged_an_intent_of_another_device_permits_nothing() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        run("mkfs.ext4", &["-q", disk.path()]);
        disk.write(0, &[0; 4096]);
        let intent = bench.intent(&disk, FsType::Ext4, Uuid::new_v4());
        let others = [
            FormatIntent {
                size_bytes: intent.size_bytes - 1,
                ..intent.clone()
            },
            FormatIntent {
                fs_type: "xfs".to_owned(),
                ..intent.clone()
            },
            FormatIntent {
                source: Source::Image {
                    pool: "pool".to_owned(),
                    path: "other".to_owned(),
                },
                ..intent.clone()
            },
            FormatIntent {
                backing: Some(crate::observe::Identity {
                    device_major: 0,
                    device_minor: 1,
                    inode: 2,
                }),
                ..intent
            },
        ];
        for other in others {
            bench
                .durable
                .set_intent(&bench.key, Some(other.clone()))
                .unwrap();
            let error = bench.mount(&disk, FsType::Ext4).unwrap_err();
            assert!(matches!(error, MountError::Unusable { .. }), "{other:?}");
        }
    });
}

#[test]
fn privileged_an_intent_ends_with_a_mount_of_another_node() {
    for fs_type in FsType::ALL {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            // This node went down after `mkfs`. The volume was then used on another node, and returns to this one.
            let uuid = begin(bench, &disk, fs_type);
            assert!(mkfs(&disk, fs_type, uuid).status().unwrap().success());
            let place = bench.directory.join("elsewhere");
            fs::create_dir(&place).unwrap();
            run("mount", &[disk.path(), text(&place)]);
            fs::write(place.join("data"), "of another node").unwrap();
            take_off(&place);
            let mount = bench.mount(&disk, fs_type).unwrap();
            assert_eq!(get(&mount, "data"), "of another node");
        });
    }
}

#[test]
fn privileged_mkfs_on_a_full_disk_fails_and_is_repeated() {
    for fs_type in FsType::ALL {
        privileged(move |bench| {
            let small = bench.directory.join("small");
            fs::create_dir(&small).unwrap();
            let resize = |size: &str| {
                let options = format!("remount,size={size}");
                run("mount", &["-o", &options, text(&small)]);
            };
            run(
                "mount",
                &["-t", "tmpfs", "-o", "size=48k", "tmpfs", text(&small)],
            );
            let image = small.join("image");
            File::create(&image).unwrap().set_len(SIZE).unwrap();
            let disk = Disk::attach(&image, &[]);
            let error = bench.mount(&disk, fs_type).unwrap_err();
            assert!(
                matches!(error, MountError::NoSpace { .. }),
                "{fs_type:?} {error}"
            );
            assert!(bench.durable.intent(&bench.key).is_some());
            resize("400m");
            let mount = bench.mount(&disk, fs_type).unwrap();
            put(&mount, "data", "kept");
            assert_eq!(bench.durable.intent(&bench.key), None);
            drop((mount, disk));
            unmount(&small, UnmountFlags::DETACH).unwrap();
        });
    }
}

#[test]
fn privileged_without_a_durable_intent_nothing_is_formatted() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        let before = disk.digest();
        fs::remove_dir_all(bench.directory.join("state/volumes")).unwrap();
        let error = bench.mount(&disk, FsType::Xfs).unwrap_err();
        assert!(error.to_string().contains("durable records"), "{error}");
        assert!(disk.digest() == before);
    });
}
