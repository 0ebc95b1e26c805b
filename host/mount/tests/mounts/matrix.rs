//! Every kind of persistent volume through its full lifecycle: each call twice, out of order, with another capability, for writing and for reading,
//! and the data compared byte by byte.

use crate::bench::*;
use crate::volume::{Volume, mounted_as};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use wasmount_core::plan::{Plan, Source};
use wasmount_core::volume::{AccessMode, AccessType};

const READER: AccessMode = AccessMode::SingleNodeReaderOnly;
/// Offset of the pattern in a raw block volume: not at the start, where a probe would read.
const PATTERN_AT: u64 = 5 << 20;
/// Length of the pattern: more than a page cache flushes at a time, and not a multiple of any block.
const PATTERN_BYTES: usize = (1 << 20) + 77;

/// A volume that is staged and published.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    fs_type: Option<&'static str>,
    /// Size of its image or device: the minimum of the file system.
    size_bytes: u64,
}

const fn kind(name: &'static str, fs_type: Option<&'static str>, mebibytes: u64) -> Kind {
    Kind {
        name,
        fs_type,
        size_bytes: mebibytes << 20,
    }
}

/// Bytes that depend on their offset, so that no two positions look alike.
fn pattern() -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..PATTERN_BYTES).map(|_| next()).collect()
}

fn write(kind: Kind, target: &Path) {
    let mut file = match kind.fs_type {
        None => {
            let mut device = File::options().write(true).open(target).unwrap();
            device.seek(SeekFrom::Start(PATTERN_AT)).unwrap();
            device
        }
        Some(_) => File::create(target.join("data")).unwrap(),
    };
    file.write_all(&pattern()).unwrap();
    file.sync_all().unwrap();
}

fn read(kind: Kind, target: &Path) -> Vec<u8> {
    let mut bytes = vec![0; PATTERN_BYTES];
    let mut file = match kind.fs_type {
        None => {
            let mut device = File::open(target).unwrap();
            device.seek(SeekFrom::Start(PATTERN_AT)).unwrap();
            device
        }
        Some(_) => File::open(target.join("data")).unwrap(),
    };
    file.read_exact(&mut bytes).unwrap();
    bytes
}

fn assert_no_write(kind: Kind, target: &Path) {
    let refused = match kind.fs_type {
        None => File::options()
            .write(true)
            .open(target)
            .and_then(|mut device| {
                device
                    .write_all(&[1; 4096])
                    .and_then(|()| device.sync_all())
            }),
        Some(_) => File::create(target.join("more")).map(drop),
    };
    assert!(refused.is_err(), "{} takes a write for reading", kind.name);
}

struct Life<'b> {
    kind: Kind,
    volume: Volume<'b>,
}

impl Life<'_> {
    /// First for writing, then, staged again, for reading.
    async fn live(&self) {
        let Self { kind, volume } = self;
        let (kind, bench, name) = (*kind, volume.bench, kind.name);
        let (writing, reading) = (bench.target("rw"), bench.target("ro"));
        assert_eq!(variant(volume.publish("rw").await), "NotStaged");
        for _ in 0..2 {
            volume
                .stage()
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_eq!(
            variant(volume.stage_as(READER).await),
            "OtherwiseThere",
            "{name}"
        );
        for _ in 0..2 {
            volume
                .publish("rw")
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        write(kind, &writing);
        for _ in 0..2 {
            volume
                .publish_as("ro", WRITER, true)
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert!(read(kind, &reading) == pattern(), "{name}");
        assert_no_write(kind, &reading);
        for (target, readonly) in [("rw", true), ("ro", false)] {
            let changed = volume.publish_as(target, WRITER, readonly).await;
            assert_eq!(variant(changed), "OtherwiseThere", "{name} at {target}");
        }
        let other = volume
            .publish_as("rw", AccessMode::SingleNodeMultiWriter, false)
            .await;
        assert_eq!(variant(other), "OtherwiseThere", "{name}");
        self.assert_stats().await;
        assert_eq!(variant(volume.unstage().await), "InUse", "{name}");
        for target in ["rw", "ro", "rw", "ro"] {
            volume
                .unpublish(target)
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!bench.target(target).exists(), "{name}");
        }
        for _ in 0..2 {
            volume
                .unstage()
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_eq!(variant(volume.publish("rw").await), "NotStaged");
        bench.assert_clean();

        volume
            .stage_as(READER)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        volume
            .publish_as("ro", READER, false)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read(kind, &reading) == pattern(), "{name}");
        assert_no_write(kind, &reading);
        let writer = volume.publish("rw").await;
        assert_eq!(variant(writer), "OtherwiseThere", "{name}");
        volume
            .unpublish("ro")
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        volume
            .unstage()
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        bench.assert_clean();
    }

    async fn assert_stats(&self) {
        let stats = self.volume.stats("ro").await.unwrap();
        if self.kind.fs_type.is_none() {
            assert_eq!(stats.bytes.total, self.kind.size_bytes);
            assert_eq!((stats.bytes.used, stats.inodes), (None, None));
        } else {
            assert!(stats.bytes.used.unwrap() >= PATTERN_BYTES as u64);
        }
    }
}

async fn lives(bench: &Bench, kinds: &[Kind], plan_of: impl AsyncFn(Kind) -> Plan) {
    for kind in kinds {
        let plan = plan_of(*kind).await;
        let access_type = kind.fs_type.map_or(AccessType::Block, mounted_as);
        let volume = Volume::new(bench, kind.name, plan, access_type);
        Life {
            kind: *kind,
            volume,
        }
        .live()
        .await;
    }
}

#[test]
fn privileged_a_tree_lives() {
    privileged(async |bench| {
        // The requested type is ignored: a tree has a fixed one.
        lives(&bench, &[kind("tree", Some("ext4"), 0)], async |kind| {
            fs::create_dir(bench.path("pool").join(kind.name)).unwrap();
            tree(kind.name)
        })
        .await;
    });
}

#[test]
fn privileged_an_image_lives_with_each_file_system_and_raw() {
    privileged(async |bench| {
        let kinds = [
            kind("ext4", Some("ext4"), 32),
            kind("xfs", Some("xfs"), 300),
            kind("btrfs", Some("btrfs"), 128),
            kind("raw", None, 16),
        ];
        lives(&bench, &kinds, async |kind| {
            bench.image(kind.name, kind.size_bytes).await
        })
        .await;
        bench.assert_no_loop_devices();
    });
}

#[test]
fn privileged_a_device_lives_with_each_file_system_and_raw() {
    privileged(async |bench| {
        let kinds = [
            kind("ext4", Some("ext4"), 32),
            kind("xfs", Some("xfs"), 300),
            kind("btrfs", Some("btrfs"), 128),
            kind("raw", None, 16),
            kind("any-ext4", Some("ext4"), 32),
            kind("any-raw", None, 16),
        ];
        let devices = std::cell::RefCell::new(Vec::new());
        lives(&bench, &kinds, async |kind| {
            let device = NodeDevice::attach(&bench, kind.name, kind.size_bytes);
            let by_id = |name: String| vec![("by-id".to_owned(), name)];
            let facts = by_id(device.by_id());
            devices.borrow_mut().push(device);
            let wait_ms = 1000;
            if !kind.name.starts_with("any-") {
                return plan(Source::Device { facts, wait_ms });
            }
            plan(Source::AnyDevice {
                alternatives: vec![by_id("none".to_owned()), facts].try_into().unwrap(),
                rescan: false,
                wait_ms,
            })
        })
        .await;
    });
}

#[test]
fn privileged_a_file_system_mounted_by_name_works() {
    privileged(async |bench| {
        lives(&bench, &[kind("overlay", Some("ext4"), 0)], async |_| {
            let tmpfs = bench.path("layers");
            fs::create_dir(&tmpfs).unwrap();
            bench.mount_something_at(&tmpfs);
            let option = |name: &str| {
                let layer = tmpfs.join(name);
                fs::create_dir(&layer).unwrap();
                format!("{name}={}", layer.display())
            };
            let options = ["lowerdir", "upperdir", "workdir"].map(option).to_vec();
            plan(Source::Filesystem {
                fs_type: "overlay".to_owned(),
                source: "layers".to_owned(),
                options,
                secret_options: Vec::new(),
                backend_secret_options: Vec::new(),
                sealed_options: Vec::new(),
            })
        })
        .await;
        take_off(bench.path("layers"));
    });
}
