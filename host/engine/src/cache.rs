//! The cache of compiled components: a directory that only the host can read or write, with machine code that the host compiled earlier.
//!
//! An entry is two files. The code's name is its own checksum, and the file never changes; a pointer, named by the key, contains the checksum of the
//! current code and is renamed into place last. So any number of writers may run concurrently, a torn write is never visible, and a mapped file is
//! never written. A damaged entry is removed and compiled again; a full disk only disables the cache. The host never accepts an entry from outside.
//!
//! All functions here block: only `load` calls them.

use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wasmount_sys::component::{Checksum, MapError, map_component};
use wasmtime::Engine;
use wasmtime::component::Component;

/// Permissions of the directory: no access for other users.
const DIRECTORY_MODE: u32 = 0o700;
/// Permission bits that a group or others must not have.
const FOREIGN_BITS: u32 = 0o077;
/// How long an entry without an owner stays. 1 h: a host that is killed before it has recorded the version that it compiled, and starts again, need not
/// compile for minutes each time.
const GRACE: Duration = Duration::from_hours(1);
/// Extension of a file that is being written.
const UNFINISHED: &str = "new";

/// A directory that only the host can access.
#[derive(Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
    compatibility: String,
    /// Random at each start: process ids repeat, in a container at every start.
    start: u64,
    written: AtomicU64,
}

/// Feeds wasmtime's compatibility hash into SHA-256: a standard hasher may differ between builds of Rust.
struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest: Checksum = self.0.clone().finalize().into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

impl Cache {
    /// Creates the directory if it is missing. A directory that other users can access is rejected: its machine code could come from any user.
    /// Unfinished files of a killed host are removed: the directory belongs to one host at a time, by the lock of its data directory.
    pub(crate) fn open(directory: &Path, engine: &Engine) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(directory)?;
        let status = fs::symlink_metadata(directory)?;
        let own = status.uid() == rustix::process::geteuid().as_raw();
        if !status.is_dir() || !own || status.permissions().mode() & FOREIGN_BITS != 0 {
            return Err(io::Error::other(
                "the directory is not this user's alone; make it so with chmod 0700, or remove it",
            ));
        }
        remove_unfinished(directory)?;
        let mut hasher = Sha256Hasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self {
            directory: directory.to_owned(),
            compatibility: format!("{:016x}", hasher.finish()),
            start: RandomState::new().build_hasher().finish(),
            written: AtomicU64::new(0),
        })
    }

    /// The compiled code of a component, if it is in the cache and intact.
    pub(crate) fn get(&self, engine: &Engine, wasm: &Checksum) -> Option<Component> {
        let pointer = self.pointer(wasm);
        let reason = match self.current(wasm)? {
            None => "its pointer cannot be read".to_owned(),
            Some(checksum) => match self.map(engine, wasm, &checksum) {
                Ok(component) => return Some(component),
                Err(error) => error.to_string(),
            },
        };
        tracing::warn!(entry = %pointer.display(), reason, "a damaged entry of the cache is deleted and compiled again");
        // Only the pointer: another process may be about to map the code.
        let _ = fs::remove_file(&pointer);
        None
    }

    fn map(
        &self,
        engine: &Engine,
        wasm: &Checksum,
        checksum: &Checksum,
    ) -> Result<Component, MapError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(self.code(wasm, checksum), flags, Mode::empty())
            .map_err(|error| MapError::Read(error.into()))?;
        map_component(engine, &mut File::from(file), checksum)
    }

    /// Stores the compiled code of a component. The code that it replaces, if any, is removed. `code` must be the output of this host's own compiler.
    pub(crate) fn put(&self, wasm: &Checksum, code: &[u8]) -> io::Result<()> {
        let checksum: Checksum = Sha256::digest(code).into();
        let pointer = self.pointer(wasm);
        let before = self.current(wasm).flatten();
        self.write(&self.code(wasm, &checksum), code)?;
        self.write(&pointer, hex::encode(checksum).as_bytes())?;
        match before {
            Some(before) if before != checksum => fs::remove_file(self.code(wasm, &before)),
            _ => Ok(()),
        }
    }

    /// Removes the compiled code of a component; existing mappings stay valid.
    pub(crate) fn remove(&self, wasm: &Checksum) -> io::Result<()> {
        let Some(checksum) = self.current(wasm) else {
            return Ok(());
        };
        fs::remove_file(self.pointer(wasm))?;
        checksum.map_or(Ok(()), |it| fs::remove_file(self.code(wasm, &it)))
    }

    /// Removes the compiled code of all other components, code of another engine, and code without a pointer, if older than an hour. Returns the number
    /// of removed files. No `put` may run meanwhile.
    pub(crate) fn retain(&self, components: &HashSet<Checksum>) -> io::Result<usize> {
        let keep: HashSet<PathBuf> = components
            .iter()
            .flat_map(|wasm| self.files_of(wasm))
            .collect();
        let mut removed = 0;
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if is_entry(&path) && !keep.contains(&path) && !is_recent(&path)? {
                fs::remove_file(&path)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Pointer and code of a component, if present.
    fn files_of(&self, wasm: &Checksum) -> Vec<PathBuf> {
        match self.current(wasm).flatten() {
            Some(checksum) => vec![self.code(wasm, &checksum), self.pointer(wasm)],
            None => Vec::new(),
        }
    }

    /// The checksum of a component's current code, as its pointer has it: unknown in a damaged one. None: there is no pointer.
    fn current(&self, wasm: &Checksum) -> Option<Option<Checksum>> {
        match fs::read_to_string(self.pointer(wasm)) {
            Ok(checksum) => Some(parse_hex(checksum.trim())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => Some(None),
        }
    }

    /// Writes a temporary file, makes it durable and renames it: the file is complete or absent.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let aside = path.with_added_extension(format!("{:016x}.{number}.{UNFINISHED}", self.start));
        let written = File::options()
            .write(true)
            .create_new(true)
            .open(&aside)
            .and_then(|mut file| {
                file.set_permissions(fs::Permissions::from_mode(0o600))?;
                file.write_all(bytes)?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&aside, path));
        if written.is_err() {
            // Half a file on a full disk is useless.
            let _ = fs::remove_file(&aside);
        }
        written
    }

    fn pointer(&self, wasm: &Checksum) -> PathBuf {
        let Self { compatibility, .. } = self;
        self.directory
            .join(format!("{}-{compatibility}", hex::encode(wasm)))
    }

    fn code(&self, wasm: &Checksum, checksum: &Checksum) -> PathBuf {
        let suffix = format!("{}.cwasm", hex::encode(checksum));
        self.pointer(wasm).with_added_extension(suffix)
    }
}

/// A time in the future is that of a clock that was wrong.
fn is_recent(path: &Path) -> io::Result<bool> {
    let written = fs::symlink_metadata(path)?.modified()?;
    Ok(written.elapsed().is_ok_and(|age| age < GRACE))
}

/// Whether a file has the name of a pointer or of code: `<digest>-<compatibility>` with an optional suffix.
fn is_entry(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let digest = name.and_then(|name| Some(name.split_once('-')?.0));
    digest.is_some_and(|digest| parse_hex(digest).is_some())
}

fn remove_unfinished(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == UNFINISHED) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// A checksum as [`hex::encode`] writes it, in either case.
pub(crate) fn parse_hex(text: &str) -> Option<Checksum> {
    let mut checksum = Checksum::default();
    hex::decode_to_slice(text, &mut checksum).ok()?;
    Some(checksum)
}

#[cfg(test)]
mod tests;
