//! Creates, recognises and opens a store file.

use super::{STORE, STORE_LOST, STORE_REVISION};
use crate::lock::LockError;
use redb::{ReadableDatabase, StorageBackend, TableError};
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The store's file in the data directory.
pub(super) const FILE_NAME: &str = "state.redb";
/// Name of a new file before it is renamed: a killed host leaves no incomplete store.
pub(super) const NEW_FILE_NAME: &str = "state.redb.new";
/// What a redb file begins with (redb, docs/design.md, "Database header").
pub(super) const MAGIC: [u8; 9] = [b'r', b'e', b'd', b'b', 0x1A, 0x0A, 0xA9, 0x0D, 0x0A];
/// Number of the table format; a store with another number is rejected.
pub(super) const FORMAT: u64 = 1;
/// redb's cache, in bytes: the hot pages of 100,000 records of a few hundred bytes. Its default is 1 GiB.
const CACHE_BYTES: usize = 16 << 20;
/// Only the host reads it.
const FILE_MODE: u32 = 0o600;
pub(super) const STORE_FORMAT: &str = "format";

/// Why a store could not be opened. The file is not changed then.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data directory could not be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The file cannot be read or created.
    #[error("cannot open state store {}", .path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The error of the kernel.
        #[source]
        source: io::Error,
    },
    /// Another kind of file has this name.
    #[error("{} is not a state store: move it away, or name another data directory", .path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
    },
    /// Written by another version of this host.
    #[error("state store {} has format {found}, this host reads {FORMAT}: use the host that wrote it", .path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
    /// redb cannot read it.
    #[error("state store {} is damaged: restore it from a copy, or move it away to begin with an empty one", .path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// The error of redb.
        #[source]
        source: Box<redb::Error>,
    },
}

/// An open store file. Space is reserved when it grows, so a full disk is noticed there, before anything is written. redb's own backend makes the
/// file longer but sparse: a write in the middle of a commit fails then, and the store may fail to open again on a full disk.
#[derive(Debug)]
struct ReservedFile(File);

impl StorageBackend for ReservedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let now = self.0.metadata()?.len();
        if len > now {
            match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), now, len - now) {
                Ok(()) => return Ok(()),
                // NFS before 4.2 and some FUSE file systems cannot reserve: there a write may fail later, which is handled too.
                Err(rustix::io::Errno::OPNOTSUPP) => {}
                Err(errno) => {
                    // Part of it may have been reserved; redb uses the length that it knows.
                    self.0.set_len(now)?;
                    return Err(errno.into());
                }
            }
        }
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

/// For `map_err`.
pub(super) fn io_error(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Creates an empty store under another name and renames it. `is_lost`: one should have existed.
pub(super) fn make(
    directory: &Path,
    opened: &File,
    path: &Path,
    is_lost: bool,
) -> Result<(), OpenError> {
    let new = directory.join(NEW_FILE_NAME);
    let failed = io_error(path);
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    let file = options.mode(FILE_MODE).open(&new).map_err(&failed)?;
    let database = guarded(path, || {
        Ok(redb::Database::builder().create_with_backend(ReservedFile(file))?)
    })?;
    guarded(path, || write_format(&database, is_lost))?;
    drop(database);
    std::fs::rename(&new, path).map_err(&failed)?;
    opened.sync_all().map_err(&failed)
}

/// Opens an existing store; also returns the last revision in it.
pub(super) fn open_file(path: &Path) -> Result<(redb::Database, u64), OpenError> {
    let failed = io_error(path);
    let open = || File::options().read(true).write(true).open(path);
    let file = open().map_err(&failed)?;
    let mut magic = [0; MAGIC.len()];
    match file.read_exact_at(&mut magic, 0) {
        Ok(()) if magic == MAGIC => {}
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(failed(error)),
        _ => {
            return Err(OpenError::Foreign {
                path: path.to_owned(),
            });
        }
    }
    // redb writes to a file as soon as it opens it for writing. A file that needs recovery cannot be inspected before.
    let inspected = guarded(path, || {
        Ok(redb::Database::builder().open_read_only_with_backend(ReservedFile(file))?)
    });
    if let Ok(inspected) = inspected {
        check(path, &inspected)?;
    }
    let file = open().map_err(&failed)?;
    let database = guarded(path, || {
        Ok(redb::Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(ReservedFile(file))?)
    })?;
    let last_revision = check(path, &database)?;
    Ok((database, last_revision))
}

/// Rejects a file that is not a store of this format; returns the last revision in it.
fn check(path: &Path, database: &impl ReadableDatabase) -> Result<u64, OpenError> {
    let (format, last_revision) = guarded(path, || read_store(database))?;
    match format {
        Some(FORMAT) => Ok(last_revision),
        Some(found) => Err(OpenError::Format {
            path: path.to_owned(),
            found,
        }),
        None => Err(OpenError::Foreign {
            path: path.to_owned(),
        }),
    }
}

/// Turns a panic of redb into an error. No state of this crate is left inconsistent: all state is redb's, and the file is opened again.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    let panicked = || redb::Error::Corrupted("redb panicked, see the line before".to_owned());
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked()))
}

/// redb trusts what it reads and panics on inconsistent data (`Builder::set_check_integrity_on_open` would check it; that option reads the whole file
/// at each start).
fn guarded<T>(path: &Path, open: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, OpenError> {
    caught(open).map_err(|error| match error {
        redb::Error::Io(source) if source.raw_os_error().is_some() => io_error(path)(source),
        error => OpenError::Damaged {
            path: path.to_owned(),
            source: Box::new(error),
        },
    })
}

fn read_store(database: &impl ReadableDatabase) -> Result<(Option<u64>, u64), redb::Error> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(STORE) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_) | TableError::TableTypeMismatch { .. }) => {
            return Ok((None, 0));
        }
        Err(error) => return Err(error.into()),
    };
    let number = |key| -> Result<Option<u64>, redb::Error> {
        Ok(table.get(key)?.map(|number| number.value()))
    };
    Ok((number(STORE_FORMAT)?, number(STORE_REVISION)?.unwrap_or(0)))
}

fn write_format(database: &redb::Database, is_lost: bool) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    let mut store = transaction.open_table(STORE)?;
    store.insert(STORE_FORMAT, FORMAT)?;
    if is_lost {
        store.insert(STORE_LOST, 1)?;
    }
    drop(store);
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn growing_reserves_the_space() {
        let file = ReservedFile(tempfile::tempfile().unwrap());
        file.set_len(1 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 1 << 20);
        assert!(file.0.metadata().unwrap().blocks() * 512 >= 1 << 20);
    }

    #[test]
    fn shrinking_gives_it_back() {
        let file = ReservedFile(tempfile::tempfile().unwrap());
        file.set_len(1 << 20).unwrap();
        file.set_len(4096).unwrap();
        assert_eq!(file.len().unwrap(), 4096);
        assert!(file.0.metadata().unwrap().blocks() * 512 <= 64 << 10);
    }

    #[test]
    fn a_read_past_the_end_is_an_error() {
        let file = ReservedFile(tempfile::tempfile().unwrap());
        file.write(0, b"abc").unwrap();
        assert!(file.read(1, &mut [0; 3]).is_err());
    }
}
