//! What tests of all protocols stand on: programs of the node, waiting, a pod that writes.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long something may take that the kernel or a daemon does by itself, on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// A network behind a dummy device, which drops all packets, and an address in it.
const SILENT: [&str; 3] = ["silent0", "192.0.2.1/24", "192.0.2.9"];
/// What a pod writes each time.
const LINE: &str = "line\n";

/// A pod that writes lines to a file, each onto stable storage.
pub(crate) struct Writer {
    file: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Writer {
    pub(crate) fn start(file: PathBuf) -> Self {
        let (path, is_over) = (file.clone(), Arc::new(AtomicBool::new(false)));
        let until = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut written = 0;
            let mut file = fs::File::create(path).unwrap();
            while !until.load(Ordering::Relaxed) {
                file.write_all(LINE.as_bytes()).unwrap();
                file.sync_all().unwrap();
                written += 1;
            }
            written
        });
        Self {
            file,
            is_over,
            thread,
        }
    }

    /// Ends it, and checks that each line is there once.
    pub(crate) fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        let written = self.thread.join().unwrap();
        let text = fs::read_to_string(self.file).unwrap();
        assert_eq!(text, LINE.repeat(written));
    }
}

/// Writes a file, onto stable storage.
pub(crate) fn write_through(file: &Path, text: &str) -> io::Result<()> {
    let mut opened = fs::File::create(file)?;
    opened.write_all(text.as_bytes())?;
    opened.sync_all()
}

/// Runs a program that must succeed; returns what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("`{program}` cannot be run: {error}"));
    let [said, errors] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(
        output.status.success(),
        "`{program}` {arguments:?}: {said} {errors}"
    );
    said.into_owned()
}

/// An address that nobody answers for.
pub(crate) fn silent_address(port: u16) -> String {
    let [device, network, address] = SILENT;
    if !Path::new("/sys/class/net").join(device).exists() {
        run("ip", &["link", "add", device, "type", "dummy"]);
        run("ip", &["address", "add", network, "dev", device]);
        run("ip", &["link", "set", device, "up"]);
    }
    format!("{address}:{port}")
}

/// Waits until something is so.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    eventually(what, || is_so().then_some(()));
}

/// Waits until the kernel has nothing left to do on new ext4s by itself. Its thread `ext4lazyinit` reads bitmaps of blocks ahead and fills tables of
/// inodes. If a disk becomes another one meanwhile, the thread reads zeros of that one, takes them for damage (`ext4_validate_block_bitmap`) and
/// writes the error to the superblock there, before the host can stop the disk.
pub(crate) fn until_ext4_rests() {
    until("the thread ext4lazyinit ends", || {
        let mut processes = fs::read_dir("/proc").unwrap();
        !processes.any(|process| {
            let name = fs::read_to_string(process.unwrap().path().join("comm"));
            name.is_ok_and(|name| name.trim_end() == "ext4lazyinit")
        })
    });
}

/// Waits until something is there.
pub(crate) fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: never");
        std::thread::sleep(PAUSE);
    }
}
