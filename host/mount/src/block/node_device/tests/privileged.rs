//! Real loop devices behind the links of a test `/dev`, in a mount namespace that ends with the test.

mod in_use;

use super::*;
use crate::namespace::unshare;
use rustix::fs::makedev;
use rustix::mount::{MountFlags, mount};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

/// Number of loop device nodes in the tests' `/dev`. Other programs of the machine attach some too.
const LOOPS: u32 = 256;
const LOOP_MAJOR: u32 = 7;
/// Large enough for any mkfs, in bytes.
const IMAGE_BYTES: u64 = 16 << 20;

/// Maximum time until a loop device is detached.
const DETACH: Duration = Duration::from_secs(5);

/// A loop device over its own image, or over a device.
struct Loop {
    _image: Option<tempfile::NamedTempFile>,
    node: PathBuf,
}

impl Loop {
    fn attach(options: &[&str]) -> Self {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(IMAGE_BYTES).unwrap();
        Self::over(Some(image), None, options)
    }

    fn over(
        image: Option<tempfile::NamedTempFile>,
        device: Option<&Path>,
        options: &[&str],
    ) -> Self {
        let file = image.as_ref().map(|image| image.path()).or(device).unwrap();
        let mut words: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
        words.extend(["--find", "--show"].map(OsStr::new));
        words.push(file.as_os_str());
        let node = run("losetup", &words);
        Self {
            _image: image,
            node: node.trim().into(),
        }
    }

    fn name(&self) -> &str {
        self.node.file_name().unwrap().to_str().unwrap()
    }

    fn number(&self) -> DeviceNumber {
        DeviceTree::default()
            .number(&KernelName::of_node(self.name()))
            .unwrap()
    }

    fn link(&self, by_id: &str) {
        symlink(
            format!("../../{}", self.name()),
            Path::new("/dev/disk/by-id").join(by_id),
        )
        .unwrap();
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.node).output();
        // The device stays bound while another program of the machine has it open.
        let bound = Path::new("/sys/block").join(self.name()).join("loop");
        let end = Instant::now() + DETACH;
        while bound.exists() && Instant::now() < end {
            thread::sleep(PAUSE);
        }
    }
}

fn run<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a test with a `/dev` that contains only the nodes which the test creates.
fn privileged(test: impl FnOnce() + Send + 'static) {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test needs root (CAP_SYS_ADMIN); leave it out with `--skip privileged_`"
    );
    let thread = thread::spawn(move || {
        unshare();
        mount("dev", "/dev", "tmpfs", MountFlags::empty(), None).unwrap();
        fs::create_dir_all("/dev/disk/by-id").unwrap();
        let character = FileType::CharacterDevice;
        mknodat(CWD, "/dev/null", character, 0o666.into(), makedev(1, 3)).unwrap();
        mknodat(
            CWD,
            "/dev/loop-control",
            character,
            0o600.into(),
            makedev(10, 237),
        )
        .unwrap();
        for minor in 0..LOOPS {
            node(&format!("/dev/loop{minor}"), LOOP_MAJOR, minor);
        }
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn node(path: &str, major: u32, minor: u32) {
    let number = makedev(major, minor);
    mknodat(CWD, path, FileType::BlockDevice, 0o600.into(), number).unwrap();
}

/// The granted device with this link.
fn by_id(name: &str, wait_ms: u32) -> CheckedDevice {
    asked(&[(ById, name)], &[(ById, "acme-*")], wait_ms)
}

/// Opens a device that nobody uses. A program that is given the same number of a free loop device claims it for a moment, until it sees that it is bound.
fn open_free(device: &CheckedDevice, read_only: bool) -> BlockDevice {
    let end = Instant::now() + DETACH;
    loop {
        match open(device, read_only) {
            Err(MountError::InUse(_)) if Instant::now() < end => thread::sleep(PAUSE),
            opened => return opened.unwrap(),
        }
    }
}

#[test]
fn privileged_a_device_is_opened_as_it_was_asked_for() {
    privileged(|| {
        let device = Loop::attach(&[]);
        device.link("acme-1");
        let opened = open_free(&by_id("acme-1", 0), false);
        assert_eq!(opened.number, device.number());
        assert_eq!(opened.path, device.node);
        assert_eq!(opened.backing, None);
        assert!(!opened.is_read_only);
        assert_eq!(opened.size_bytes().unwrap(), IMAGE_BYTES);
        assert_eq!(rustix::io::pwrite(&opened.file, &[1; 512], 0), Ok(512));
        let reader = open_free(&by_id("acme-1", 0), true);
        assert_eq!(
            rustix::io::pwrite(&reader.file, &[1; 512], 0),
            Err(Errno::BADF)
        );
    });
}

#[test]
fn privileged_a_read_only_device_is_reported() {
    privileged(|| {
        let device = Loop::attach(&["--read-only"]);
        device.link("acme-1");
        let opened = open_free(&by_id("acme-1", 0), false);
        assert!(opened.is_read_only);
        assert_eq!(
            rustix::io::pwrite(&opened.file, &[1; 512], 0),
            Err(Errno::BADF)
        );
    });
}

#[test]
fn privileged_a_device_that_comes_late_is_waited_for() {
    privileged(|| {
        let device = Loop::attach(&[]);
        let number = device.number();
        let begin = Instant::now();
        let opened = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(300));
                device.link("acme-1");
            });
            open_free(&by_id("acme-1", 30_000), true)
        });
        assert_eq!(opened.number, number);
        assert!(begin.elapsed() >= Duration::from_millis(300));
    });
}

/// The device of several links, each an alternative.
fn any_of(names: &[&str], rescan: bool, wait_ms: u32) -> CheckedDevice {
    let facts: Vec<_> = names.iter().map(|name| [(ById, *name)]).collect();
    let alternatives: Vec<&[_]> = facts.iter().map(<[_; 1]>::as_slice).collect();
    asked_each(&alternatives, rescan, &[(ById, "acme-*")], wait_ms)
}

#[test]
fn privileged_any_alternative_leads_to_the_device() {
    privileged(|| {
        let device = Loop::attach(&[]);
        let number = device.number();
        let opened = thread::scope(|scope| {
            scope.spawn(|| device.link("acme-2"));
            open_free(&any_of(&["acme-1", "acme-2"], false, 30_000), true)
        });
        assert_eq!(opened.number, number);
        drop(opened);
        device.link("acme-1");
        let opened = open_free(&any_of(&["acme-1", "acme-2"], false, 0), true);
        assert_eq!(opened.number, number);
        assert_eq!(
            find(&any_of(&["acme-0", "acme-2"], false, 0)),
            Ok(Some(number))
        );
    });
}

#[test]
fn privileged_alternatives_of_two_devices_are_refused() {
    privileged(|| {
        let (device, other) = (Loop::attach(&[]), Loop::attach(&[]));
        device.link("acme-1");
        other.link("acme-2");
        let both = any_of(&["acme-1", "acme-2"], false, 30_000);
        let error = open(&both, true).unwrap_err().to_string();
        for named in [device.name(), other.name(), "acme-1", "acme-2"] {
            assert!(error.contains(named), "{named}: {error}");
        }
        assert_eq!(find(&both), Ok(None));
        other.link("wwn-0x2");
        let other = asked_each(
            &[&[(ById, "acme-3")], &[(ById, "wwn-0x2")]],
            false,
            &[(ById, "acme-1")],
            0,
        );
        let error = open(&other, true).unwrap_err();
        assert!(matches!(error, MountError::NotGranted { .. }), "{error}");
        assert!(
            error.to_string().contains("with by-id `wwn-0x2`"),
            "{error}"
        );
    });
}

#[test]
fn privileged_a_device_that_a_rescan_finds_is_opened() {
    privileged(|| {
        let device = Loop::attach(&[]);
        let number = device.number();
        // The rescan is seen in a tree whose only SCSI host is a pipe.
        let folder = tempfile::tempdir().unwrap();
        symlink("/sys/dev", folder.path().join("dev")).unwrap();
        let host = folder.path().join("class/scsi_host/host0");
        fs::create_dir_all(&host).unwrap();
        symlink("/sys/class/block", folder.path().join("class/block")).unwrap();
        let scan = host.join("scan");
        mknodat(CWD, &scan, FileType::Fifo, 0o600.into(), 0).unwrap();
        let tree = DeviceTree::new("/dev".into(), folder.path().into());
        let opened = thread::scope(|scope| {
            scope.spawn(|| {
                let mut asked = [0; 5];
                let mut pipe = fs::File::open(&scan).unwrap();
                pipe.read_exact(&mut asked).unwrap();
                assert_eq!(&asked, b"- - -");
                device.link("acme-2");
                // The pipe keeps a reader while the host may write again.
                pipe
            });
            open_in(&tree, &any_of(&["acme-1", "acme-2"], true, 30_000), true).unwrap()
        });
        assert_eq!(opened.number, number);
    });
}

#[test]
fn privileged_a_device_that_never_appears_is_not_found() {
    privileged(|| {
        let begin = Instant::now();
        let error = open(&by_id("acme-1", 300), true).unwrap_err();
        assert!(begin.elapsed() >= Duration::from_millis(300));
        assert_eq!(
            error.to_string(),
            "a block device with by-id `acme-1` (waited 300 ms: there is no such by-id) does not exist"
        );
    });
}

#[test]
fn privileged_a_device_is_opened_only_when_it_is_granted_itself() {
    privileged(|| {
        let (device, other) = (Loop::attach(&[]), Loop::attach(&[]));
        device.link("acme-1");
        device.link("wwn-0x1");
        other.link("wwn-0x2");
        let granted = &[(ById, "acme-*")];
        let opened = open_free(&asked(&[(ById, "wwn-0x1")], granted, 0), true);
        assert_eq!(opened.number, device.number());
        let error = open(&asked(&[(ById, "wwn-0x2")], granted, 0), true).unwrap_err();
        assert!(matches!(error, MountError::NotGranted { .. }), "{error}");
        assert!(is_granted(&granting(granted), device.number()));
        assert!(!is_granted(&granting(granted), other.number()));
        assert!(!is_granted(
            &granting(granted),
            DeviceNumber { major: 1, minor: 0 }
        ));
    });
}

#[test]
fn privileged_a_node_of_another_device_number_is_not_opened() {
    privileged(|| {
        let (device, other) = (Loop::attach(&[]), Loop::attach(&[]));
        device.link("acme-1");
        fs::remove_file(&device.node).unwrap();
        node(
            device.node.to_str().unwrap(),
            LOOP_MAJOR,
            other.number().minor,
        );
        let error = open(&by_id("acme-1", 0), true).unwrap_err();
        assert!(
            error.to_string().contains("no node of its number in /dev"),
            "{error}"
        );
        fs::remove_file(&device.node).unwrap();
        node(
            device.node.to_str().unwrap(),
            LOOP_MAJOR,
            device.number().minor,
        );
        open_free(&by_id("acme-1", 0), true);
    });
}
