//! File systems that are really frozen, and hosts that are really killed.

use super::*;
use crate::block::{BlockRecord, loop_device};
use crate::namespace::in_a_namespace;
use crate::{LocalMounter, MounterConfig, PathRoot};
use rustix::mount::{UnmountFlags, unmount};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

const DIRECTORY: &str = "WASMOUNT_TEST_FREEZE_DIRECTORY";
const IMAGE_BYTES: u64 = 16 << 20;
/// Deadline of what must happen. It is generous because other tests share the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Images with mounted file systems. They are thawed and unmounted when this is dropped.
struct Mounts {
    directory: TempDir,
    names: Vec<&'static str>,
}

impl Mounts {
    fn new(names: &[&'static str]) -> Self {
        let mounts = Self {
            directory: tempfile::tempdir().unwrap(),
            names: names.to_vec(),
        };
        for name in names {
            let image = mounts.directory.path().join(name);
            std::fs::File::create(&image)
                .unwrap()
                .set_len(IMAGE_BYTES)
                .unwrap();
            std::fs::create_dir(mounts.path(name)).unwrap();
            run(Command::new("mkfs.ext4").arg("-q").arg(&image));
            run(Command::new("mount")
                .args(["-o", "loop"])
                .arg(&image)
                .arg(mounts.path(name)));
        }
        mounts
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("mounted-{name}"))
    }

    fn run(&self) -> PathBuf {
        self.directory.path().join("run")
    }

    fn open(&self, name: &str) -> OwnedFd {
        std::fs::File::open(self.path(name)).unwrap().into()
    }

    fn is_frozen(&self, name: &str) -> bool {
        let mount = self.open(name);
        match sys::freeze(&mount) {
            Ok(()) => {
                sys::thaw(&mount).unwrap();
                false
            }
            Err(Errno::BUSY) => true,
            Err(errno) => panic!("{errno}"),
        }
    }

    fn are_frozen(&self) -> Vec<bool> {
        self.names.iter().map(|name| self.is_frozen(name)).collect()
    }

    /// A mounter with these directories.
    fn mounter(&self) -> LocalMounter {
        let directory = self.directory.path();
        let config = MounterConfig {
            roots: vec![PathRoot::Any(directory.to_owned())],
            own: Vec::new(),
            run_dir: self.run(),
            state_dir: directory.join("state"),
            grants: BTreeMap::new(),
            threads_per_driver: 1,
            node_root: None,
        };
        LocalMounter::new(config).unwrap()
    }

    fn intents(&self) -> usize {
        std::fs::read_dir(self.run().join("frozen"))
            .unwrap()
            .count()
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for name in &self.names {
            // A file system that stays frozen would keep its loop device for ever.
            if let Ok(mount) = std::fs::File::open(self.path(name)) {
                let _ = sys::thaw(&mount);
            }
            let _ = unmount(self.path(name), UnmountFlags::DETACH);
        }
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}

fn images(directory: &Path, names: &[&str]) -> Vec<OwnedFd> {
    let images = names.iter().map(|name| directory.join(name));
    images
        .map(|path| std::fs::File::open(path).unwrap().into())
        .collect()
}

fn freeze<'f>(freezer: &'f Freezer, directory: &Path, names: &[&str]) -> Option<Frozen<'f>> {
    let files = images(directory, names);
    let images = names.iter().zip(&files);
    let images: Vec<_> = images.map(|(name, file)| Image { name, file }).collect();
    freezer.freeze(&images)
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn privileged_only_mounts_of_the_images_are_frozen() {
    in_a_namespace(|| {
        let mounts = Mounts::new(&["a", "b", "other"]);
        let freezer = Freezer::open(&mounts.run()).unwrap();
        let frozen = freeze(&freezer, mounts.directory.path(), &["a", "b"]);
        assert_eq!(mounts.are_frozen(), [true, true, false]);
        assert_eq!(mounts.intents(), 1);
        drop(frozen);
        assert_eq!(mounts.are_frozen(), [false; 3]);
        assert_eq!(mounts.intents(), 0);
        std::fs::write(mounts.path("a").join("file"), "written").unwrap();
    });
}

#[test]
fn privileged_a_file_system_is_thawed_when_the_copy_panics() {
    in_a_namespace(|| {
        let mounts = Mounts::new(&["a"]);
        let freezer = Freezer::open(&mounts.run()).unwrap();
        let directory = mounts.directory.path();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _frozen = freeze(&freezer, directory, &["a"]);
            assert!(!mounts.is_frozen("a"), "as wanted: it is");
        }));
        assert!(panicked.is_err());
        assert_eq!((mounts.are_frozen(), mounts.intents()), (vec![false], 0));
    });
}

#[test]
fn privileged_a_file_system_is_thawed_though_the_copy_hangs() {
    in_a_namespace(|| {
        let mounts = Mounts::new(&["a", "b"]);
        let freezer = Freezer::open(&mounts.run()).unwrap();
        let frozen = freeze(&freezer, mounts.directory.path(), &["a", "b"]);
        assert_eq!(mounts.are_frozen(), [true; 2]);
        wait_until(|| mounts.are_frozen() == [false; 2]);
        // The end of the copy does not thaw what another copy has frozen since.
        let other = mounts.open("a");
        sys::freeze(&other).unwrap();
        drop(frozen);
        assert!(mounts.is_frozen("a"));
        assert_eq!(mounts.intents(), 0);
        sys::thaw(&other).unwrap();
    });
}

#[test]
fn privileged_a_frozen_device_goes_when_it_is_thawed() {
    in_a_namespace(|| {
        let mounts = Mounts::new(&["a"]);
        let freezer = Freezer::open(&mounts.run()).unwrap();
        let directory = mounts.directory.path();
        let file = &images(directory, &["a"])[0];
        let (records, clones) = mounts::mounted(&[Image { name: "a", file }]).unwrap();
        let frozen = freeze(&freezer, directory, &["a"]);
        unmount(mounts.path("a"), UnmountFlags::empty()).unwrap();
        assert_eq!(sys::freeze(&clones[0]), Err(Errno::BUSY));
        drop(frozen);
        assert_eq!(sys::thaw(&clones[0]), Err(Errno::INVAL));
        assert!(loop_device::is_bound(&records[0]).unwrap());
        drop(clones);
        wait_until(|| !loop_device::is_bound(&records[0]).unwrap());
        assert_eq!(mounts.intents(), 0);
    });
}

#[test]
fn privileged_a_mounter_thaws_at_its_end() {
    in_a_namespace(|| {
        let mounts = Mounts::new(&["a", "b"]);
        let directory = mounts.directory.path();
        let mounter = mounts.mounter();
        let freezer = Arc::clone(&mounter.freezer);
        let frozen = freeze(&freezer, directory, &["a", "b"]);
        assert_eq!(mounts.are_frozen(), [true; 2]);
        drop(mounter);
        // It is thawed at once, and not only when the guard's time is over.
        assert_eq!(mounts.are_frozen(), [false; 2]);
        drop(frozen);
        let late = freeze(&freezer, directory, &["a", "b"]);
        assert!(late.is_none());
        assert_eq!((mounts.are_frozen(), mounts.intents()), (vec![false; 2], 0));
    });
}

#[test]
#[ignore = "the process that the other test kills"]
fn worker() {
    let directory = std::env::var_os(DIRECTORY).expect("started by the other test");
    let directory = Path::new(&directory);
    let freezer = Freezer::open(&directory.join("run")).unwrap();
    let _frozen = freeze(&freezer, directory, &["a", "b"]);
    std::fs::write(directory.join("begun"), "").unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn privileged_a_mount_left_frozen_is_thawed_at_start() {
    in_a_namespace(|| {
        let mounts = Mounts::new(&["a", "b"]);
        let directory = mounts.directory.path();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["freeze::tests::worker", "--exact", "--ignored"])
            .env(DIRECTORY, directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until(|| directory.join("begun").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((mounts.are_frozen(), mounts.intents()), (vec![true; 2], 1));
        let _host = mounts.mounter();
        // It is refused at once: what is frozen must not be unmounted.
        assert_eq!((mounts.are_frozen(), mounts.intents()), (vec![false; 2], 0));
        std::fs::write(mounts.path("a").join("file"), "written").unwrap();
    });
}

#[test]
fn privileged_an_intent_is_kept_until_its_mount_is_seen() {
    in_a_namespace(|| {
        let mounts = Mounts::new(&["a"]);
        let file = &images(mounts.directory.path(), &["a"])[0];
        let (records, _) = mounts::mounted(&[Image { name: "a", file }]).unwrap();
        let (intents, _) = Intent::left_in(&mounts.run()).unwrap();
        drop(Intent::write(&intents, records).unwrap());
        let again = || {
            let (_, left) = Intent::left_in(&mounts.run()).unwrap();
            left.into_iter().for_each(thaw_left);
            mounts.intents()
        };
        let mount = mounts.open("a");
        sys::freeze(&mount).unwrap();
        unmount(mounts.path("a"), UnmountFlags::DETACH).unwrap();
        assert_eq!(again(), 1);
        sys::thaw(&mount).unwrap();
        drop(mount);
        wait_until(|| again() == 0);
    });
}

#[test]
fn privileged_what_another_hand_froze_stays_frozen() {
    in_a_namespace(|| {
        let mounts = Mounts::new(&["a", "b"]);
        let freezer = Freezer::open(&mounts.run()).unwrap();
        let other = mounts.open("a");
        sys::freeze(&other).unwrap();
        let frozen = freeze(&freezer, mounts.directory.path(), &["a", "b"]);
        assert_eq!(mounts.are_frozen(), [true; 2]);
        drop(frozen);
        assert_eq!(mounts.are_frozen(), [true, false]);
        sys::thaw(&other).unwrap();
    });
}

#[test]
fn privileged_two_copies_of_one_image_take_turns() {
    in_a_namespace(|| {
        let mounts = Mounts::new(&["a", "b"]);
        let directory = mounts.directory.path();
        let freezer = Freezer::open(&mounts.run()).unwrap();
        let first = freeze(&freezer, directory, &["a"]);
        let (say, said) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _second = freeze(&freezer, directory, &["a", "b"]);
                say.send(mounts.are_frozen()).unwrap();
            });
            let early = said.recv_timeout(Duration::from_millis(300));
            assert_eq!(early, Err(RecvTimeoutError::Timeout));
            assert_eq!(mounts.are_frozen(), [true, false]);
            drop(first);
            assert_eq!(said.recv_timeout(PATIENCE), Ok(vec![true; 2]));
        });
        assert_eq!((mounts.are_frozen(), mounts.intents()), (vec![false; 2], 0));
    });
}

#[test]
fn an_unmounted_image_freezes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a"), "image").unwrap();
    let freezer = Freezer::open(&directory.path().join("run")).unwrap();
    let frozen = freeze(&freezer, directory.path(), &["a"]);
    assert!(frozen.is_none());
    let left = std::fs::read_dir(directory.path().join("run/frozen")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn an_intent_outlives_its_host_and_a_torn_one_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let (intents, left) = Intent::left_in(directory.path()).unwrap();
    assert!(left.is_empty());
    let (major, minor) = (7, 4096);
    let record = BlockRecord {
        number: DeviceNumber { major, minor },
        backing: None,
    };
    let first = Intent::write(&intents, vec![record]).unwrap();
    let second = Intent::write(&intents, vec![record, record]).unwrap();
    second.end(true);
    std::fs::write(directory.path().join("frozen/7"), "[{\"num").unwrap();
    let (intents, left) = Intent::left_in(directory.path()).unwrap();
    let [left] = left.try_into().unwrap();
    assert_eq!(left.devices, first.devices);
    // The existing intent is not overwritten.
    let third = Intent::write(&intents, Vec::new()).unwrap();
    third.end(false);
    let (_, left) = Intent::left_in(directory.path()).unwrap();
    let mut counts: Vec<_> = left.iter().map(|it| it.devices.len()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [0, 1]);
    assert!(!directory.path().join("frozen/7").exists());
}
