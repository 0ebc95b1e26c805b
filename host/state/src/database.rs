//! The redb file in use: read, committed to, and opened again after an error. With `open` below it is the only place that knows redb.
//! One table a keyspace, key to (revision, value); one table for the store itself.
//!
//! Reads take microseconds: redb keeps its hot pages, the kernel the rest of a file of some megabytes. A commit waits for the disk, so only
//! the committer's thread calls it.

mod open;

pub use open::OpenError;

use crate::pending::{Batch, Write};
use redb::{
    ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, StorageError, Table,
    TableDefinition, TableError,
};
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};
use wasmount_core::state::{Keyspace, KeyspaceOwner, StateEntry, StateError, record_bytes};

/// A new value is rejected when the file system has less than this free, in bytes, so that waiting writes and every removal still find space. A
/// commit copies the pages it changes: four times [`crate::pending::PENDING_BYTES`].
const FREE_BYTES: u64 = 16 << 20;

/// Time after which a file that could not be opened again is tried once more: a disk that failed may be back, and each attempt reads the file.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);

const STORE: TableDefinition<'_, &str, u64> = TableDefinition::new("store");
const STORE_REVISION: &str = "last revision";
/// Key that is present in a store that was created although one should have existed.
const STORE_LOST: &str = "lost";

type Records<'a> = TableDefinition<'a, &'static str, (u64, &'static [u8])>;
type OpenRecords = ReadOnlyTable<&'static str, (u64, &'static [u8])>;

/// The open file.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    directory: File,
    open: RwLock<Open>,
}

/// redb rejects every operation after an I/O error, of a read too, until the file is opened again.
#[derive(Debug)]
enum Open {
    Yes(redb::Database),
    /// After an error: the next operation opens it.
    No,
    /// It could not be opened at that time.
    Failed(Instant),
}

/// The size of the records of a keyspace is stored beside them, under this and the keyspace's name. Absent in stores written before the size was
/// stored.
const STORE_SIZE_OF: &str = "size of ";

/// A snapshot of one keyspace that later commits do not change.
pub(crate) struct Snapshot(Option<OpenRecords>);

impl Database {
    /// Opens the store of a data directory that the caller has locked. Creates it if there is none, and notes then whether one should have existed.
    /// Also returns the last revision in it.
    pub(crate) fn open(directory: &Path, is_expected: bool) -> Result<(Self, u64), OpenError> {
        let path = directory.join(open::FILE_NAME);
        let opened = File::open(directory).map_err(open::io_error(&path))?;
        if !path.try_exists().map_err(open::io_error(&path))? {
            open::make(directory, &opened, &path, is_expected)?;
        }
        let (database, last_revision) = open::open_file(&path)?;
        let database = Self {
            path,
            directory: opened,
            open: RwLock::new(Open::Yes(database)),
        };
        Ok((database, last_revision))
    }

    /// The stored value of a key.
    pub(crate) fn get(
        &self,
        space: &Keyspace,
        key: &str,
    ) -> Result<Option<StateEntry>, StateError> {
        self.with("read", |database| {
            let Some(records) = records(&database.begin_read()?, space)? else {
                return Ok(None);
            };
            let record = records.get(key)?;
            Ok(record.map(|record| entry(key, record.value())))
        })
    }

    /// The keyspace as it is now.
    pub(crate) fn snapshot(&self, space: &Keyspace) -> Result<Snapshot, StateError> {
        self.with("read", |database| {
            Ok(Snapshot(records(&database.begin_read()?, space)?))
        })
    }

    /// The size of the durable records of a keyspace.
    pub(crate) fn size(&self, space: &Keyspace) -> Result<u64, StateError> {
        self.with("read", |database| kept_size(database, space))
    }

    /// Whether the store was created empty although one should have existed, and no administrator has accepted that.
    pub(crate) fn is_lost(&self) -> Result<bool, StateError> {
        self.with("read", |database| {
            let store = database.begin_read()?.open_table(STORE)?;
            Ok(store.get(STORE_LOST)?.is_some())
        })
    }

    /// Accepts that the store is empty. Durable on return.
    pub(crate) fn accept_loss(&self) -> Result<(), StateError> {
        self.with("write to", |database| {
            let transaction = database.begin_write()?;
            transaction.open_table(STORE)?.remove(STORE_LOST)?;
            Ok(transaction.commit()?)
        })
    }

    fn with<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&redb::Database) -> Result<T, redb::Error>,
    ) -> Result<T, StateError> {
        self.ensure_open();
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let result = guarded(operation, || match &*open {
            Open::Yes(database) => work(database),
            Open::No | Open::Failed(_) => Err(redb::Error::DatabaseClosed),
        });
        let has_failed = result.is_err() && matches!(*open, Open::Yes(_));
        drop(open);
        if has_failed {
            self.close();
        }
        result
    }

    /// After an error, also of a [`Snapshot`]: the next operation opens the file again.
    pub(crate) fn close(&self) {
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = Open::No;
    }

    fn ensure_open(&self) {
        let is_due = |open: &Open| match open {
            Open::Yes(_) => false,
            Open::No => true,
            Open::Failed(at) => at.elapsed() >= REOPEN_INTERVAL,
        };
        if !is_due(&self.open.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have opened it meanwhile.
        if !is_due(&open) {
            return;
        }
        *open = match open::open_file(&self.path) {
            Ok((database, _)) => Open::Yes(database),
            Err(error) => {
                if matches!(*open, Open::No) {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, "the state store cannot be opened again: retrying");
                }
                Open::Failed(Instant::now())
            }
        };
    }

    /// Whether the file system has space for new values, beyond what commits and removals need. redb may double the file when it grows.
    pub(crate) fn has_space(&self) -> bool {
        // A file system that does not report its free space fails the write when it is full.
        let Ok(disk) = rustix::fs::fstatvfs(&self.directory) else {
            return true;
        };
        disk.f_bfree.saturating_mul(disk.f_frsize) >= FREE_BYTES
    }

    /// The size of the file; 0 if it was removed.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.path.metadata().map_or(0, |file| file.len())
    }

    /// Makes a batch durable: waits for the disk. After an error nothing of it is stored.
    pub(crate) fn commit(&self, batch: &Batch) -> Result<(), StateError> {
        self.with("commit", |database| write(database, batch))
    }

    /// Stores what redb would have to compute from the whole file if it had to open it after a kill (`set_quick_repair`). Not part of each commit,
    /// since it costs a second wait for the disk.
    pub(crate) fn prepare_fast_open(&self) {
        let prepared = self.with("commit", |database| {
            let mut transaction = database.begin_write()?;
            transaction.set_quick_repair(true);
            Ok(transaction.commit()?)
        });
        if let Err(error) = prepared {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                error,
                "the state store may take longer to open after a crash"
            );
        }
    }
}

impl Snapshot {
    /// Entries in key order that begin with `prefix`.
    pub(crate) fn range(
        &self,
        from: Bound<&str>,
        prefix: &str,
    ) -> Result<impl Iterator<Item = Result<StateEntry, StateError>>, StateError> {
        let bounds = (from, Bound::Unbounded);
        let records = self.0.as_ref();
        let mut records = records
            .map(|records| guarded("scan", || Ok(records.range::<&str>(bounds)?)))
            .transpose()?;
        let prefix = prefix.to_owned();
        let mut next = move || {
            let record = records.as_mut()?.next()?;
            let found = record.map(|(key, record)| entry(key.value(), record.value()));
            Some(found)
        };
        let next = move || {
            let found = guarded("scan", || next().transpose().map_err(Into::into));
            found.transpose()
        };
        Ok(
            std::iter::from_fn(next).take_while(move |entry| match entry {
                Ok(entry) => entry.key.starts_with(&prefix),
                Err(_) => true,
            }),
        )
    }
}

/// The table of a keyspace, if it has ever had a record.
fn records(
    transaction: &ReadTransaction,
    space: &Keyspace,
) -> Result<Option<OpenRecords>, redb::Error> {
    match transaction.open_table(Records::new(&table_name(space))) {
        Ok(records) => Ok(Some(records)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn write(database: &redb::Database, batch: &Batch) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    let mut store = transaction.open_table(STORE)?;
    store.insert(STORE_REVISION, batch.last_revision)?;
    for (space, writes) in &batch.writes {
        let name = table_name(space);
        let mut records = transaction.open_table(Records::new(&name))?;
        let size_key = format!("{STORE_SIZE_OF}{name}");
        let kept = store.get(size_key.as_str())?.map(|size| size.value());
        let mut size = match kept {
            Some(size) => size,
            None => measured(&records)?,
        };
        for (key, write) in writes {
            size = size.saturating_sub(change(&mut records, key, write)?);
            if let Some(value) = &write.value {
                size = size.saturating_add(record_bytes(key, value.len()));
            }
        }
        store.insert(size_key.as_str(), size)?;
    }
    drop(store);
    Ok(transaction.commit()?)
}

/// Applies a change. Returns the size of the record that was there.
fn change(
    records: &mut Table<'_, &'static str, (u64, &'static [u8])>,
    key: &str,
    write: &Write,
) -> Result<u64, StorageError> {
    let replaced = match &write.value {
        Some(value) => records.insert(key, (write.revision, &**value))?,
        None => records.remove(key)?,
    };
    Ok(replaced.map_or(0, |record| record_bytes(key, record.value().1.len())))
}

fn kept_size(database: &redb::Database, space: &Keyspace) -> Result<u64, redb::Error> {
    let transaction = database.begin_read()?;
    let name = table_name(space);
    let store = transaction.open_table(STORE)?;
    if let Some(size) = store.get(format!("{STORE_SIZE_OF}{name}").as_str())? {
        return Ok(size.value());
    }
    match records(&transaction, space)? {
        Some(records) => Ok(measured(&records)?),
        None => Ok(0),
    }
}

fn measured(
    records: &impl ReadableTable<&'static str, (u64, &'static [u8])>,
) -> Result<u64, StorageError> {
    let mut size: u64 = 0;
    for record in records.iter()? {
        let (key, record) = record?;
        size = size.saturating_add(record_bytes(key.value(), record.value().1.len()));
    }
    Ok(size)
}

/// No driver name has a `/`, so keyspaces never meet, nor the store's own table.
fn table_name(space: &Keyspace) -> String {
    let owner = match space.owner {
        KeyspaceOwner::Backend => "backend",
        KeyspaceOwner::Host => "host",
    };
    format!("{owner}/{}", space.driver)
}

fn entry(key: &str, (revision, value): (u64, &[u8])) -> StateEntry {
    StateEntry {
        key: key.to_owned(),
        value: value.to_owned(),
        revision,
    }
}

/// redb trusts what it reads and panics on inconsistent data: a flipped bit on the disk must fail a call and not end a thread.
fn guarded<T>(
    operation: &'static str,
    work: impl FnOnce() -> Result<T, redb::Error>,
) -> Result<T, StateError> {
    open::caught(work).map_err(|error| match &error {
        redb::Error::Io(io)
            if matches!(io.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
        {
            StateError::Full
        }
        _ => StateError::failed(operation, error),
    })
}

#[cfg(test)]
mod tests;
