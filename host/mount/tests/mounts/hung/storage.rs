//! A FUSE file system whose server is this test: it answers until it is silenced, for reads or for all requests. So the hang is real: the kernel
//! waits, and so does the caller.
//!
//! The names of the protocol are those of `linux/fuse.h`. It contains directories and one image, all without content.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// Size of the image, in bytes.
pub(crate) const IMAGE_BYTES: u64 = 32 << 20;
/// The kernel's smallest buffer is `FUSE_MIN_READ_BUFFER`, 8 KiB; writes stay below this size.
const BUFFER_BYTES: usize = 1 << 17;
/// `struct fuse_in_header`.
const IN_HEADER_BYTES: usize = 40;

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const RELEASEDIR: u32 = 29;
const ACCESS: u32 = 34;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

/// `FUSE_PARALLEL_DIROPS`: otherwise the kernel looks up only one name of a directory at a time.
const PARALLEL_DIROPS: u32 = 1 << 18;

const ENOENT: i32 = 2;
const ENOSYS: i32 = 38;

/// Which requests are not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    Nothing = 0,
    Reads = 1,
    Everything = 2,
}

/// The mounted file system. When it is dropped, its connection is cut: hanging callers get an error, and no process is left behind.
pub(crate) struct Storage {
    point: PathBuf,
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
}

struct Server {
    connection: File,
    silence: AtomicU8,
    unanswered: AtomicUsize,
    nodes: BTreeMap<String, u64>,
}

impl Storage {
    /// Mounts the file system, with directories and images (`.img`) of these names.
    pub(crate) fn mount(point: &Path, names: &[&str], silence: Silence) -> Self {
        let connection = File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .expect("this test needs /dev/fuse");
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            connection.as_raw_fd()
        );
        let options = CString::new(options).unwrap();
        rustix::mount::mount(
            "hung",
            point,
            "fuse",
            rustix::mount::MountFlags::empty(),
            Some(options.as_c_str()),
        )
        .unwrap();
        let server = Arc::new(Server {
            connection,
            silence: AtomicU8::new(silence as u8),
            unanswered: AtomicUsize::new(0),
            // The root has number 1.
            nodes: names
                .iter()
                .map(|name| (*name).to_owned())
                .zip(2..)
                .collect(),
        });
        let serving = server.clone();
        Self {
            point: point.to_owned(),
            server,
            thread: Some(std::thread::spawn(move || serving.serve())),
        }
    }

    pub(crate) fn fall_silent(&self) {
        let all = Silence::Everything as u8;
        self.server.silence.store(all, Ordering::SeqCst);
    }

    /// Number of requests that wait for an answer.
    pub(crate) fn unanswered(&self) -> usize {
        self.server.unanswered.load(Ordering::SeqCst)
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // `MNT_FORCE` cuts the connection, even if the mount is in use.
        let flags = rustix::mount::UnmountFlags::FORCE | rustix::mount::UnmountFlags::DETACH;
        let _ = rustix::mount::unmount(&self.point, flags);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Server {
    /// Serves until the connection is cut.
    fn serve(&self) {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match (&self.connection).read(&mut buffer) {
                Ok(length) => self.answer(&buffer[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // The request was interrupted before it was read.
                Err(error) if error.raw_os_error() == Some(ENOENT) => {}
                Err(_) => return,
            }
        }
    }

    fn answer(&self, request: &[u8]) {
        let opcode = u32::from_ne_bytes(request[4..8].try_into().unwrap());
        let unique = u64::from_ne_bytes(request[8..16].try_into().unwrap());
        let node = u64::from_ne_bytes(request[16..24].try_into().unwrap());
        let silence = self.silence.load(Ordering::SeqCst);
        let is_unanswered = silence == Silence::Everything as u8
            || (silence == Silence::Reads as u8 && opcode == READ);
        if matches!(opcode, FORGET | BATCH_FORGET | INTERRUPT) {
            return;
        }
        if is_unanswered {
            self.unanswered.fetch_add(1, Ordering::SeqCst);
            return;
        }
        let answer = match opcode {
            INIT => Ok(words(&[
                7,
                31,
                0,
                PARALLEL_DIROPS,
                0,
                1 << 16,
                1,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
            ])),
            LOOKUP => self.entry(&request[IN_HEADER_BYTES..]),
            GETATTR => Ok([words(&[0, 0, 0, 0]), self.attributes(node)].concat()),
            OPEN | OPENDIR => Ok(vec![0; 16]),
            STATFS => Ok([
                longs(&[1000, 500, 400, 100, 50]),
                words(&[4096, 255, 4096, 0, 0, 0, 0, 0, 0, 0]),
            ]
            .concat()),
            RELEASE | RELEASEDIR | FLUSH | ACCESS => Ok(Vec::new()),
            _ => Err(ENOSYS),
        };
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(errno) => (-errno, Vec::new()),
        };
        let length = u32::try_from(16 + body.len()).unwrap();
        let header = [
            &length.to_ne_bytes()[..],
            &error.to_ne_bytes(),
            &unique.to_ne_bytes(),
        ];
        // An interrupted request cannot be answered any more.
        let _ = (&self.connection).write(&[header.concat(), body].concat());
    }

    /// `struct fuse_entry_out`. Nothing is cached, so each lookup is a new request.
    fn entry(&self, name: &[u8]) -> Result<Vec<u8>, i32> {
        let name = std::str::from_utf8(name).unwrap().trim_end_matches('\0');
        let node = *self.nodes.get(name).ok_or(ENOENT)?;
        let head = [longs(&[node, 0, 0, 0]), words(&[0, 0])].concat();
        Ok([head, self.attributes(node)].concat())
    }

    /// `struct fuse_attr`.
    fn attributes(&self, node: u64) -> Vec<u8> {
        let is_image = self
            .nodes
            .iter()
            .any(|(name, number)| *number == node && name.ends_with(".img"));
        let (mode, size) = if is_image {
            (0o100_600, IMAGE_BYTES)
        } else {
            (0o040_755, 0)
        };
        [
            longs(&[node, size, 0, 0, 0, 0]),
            words(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0]),
        ]
        .concat()
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_ne_bytes()).collect()
}
