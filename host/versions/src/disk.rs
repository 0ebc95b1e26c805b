//! The reconciler's files: the history, and a component for each version that can be rolled back to. A component is written aside, synced and
//! renamed; the history is written to two files in turn. So each is on disk whole or not at all.

mod slots;

use crate::history::{FORMAT, History};
use crate::plugin_file::digest_of;
use crate::refusal::Refusal;
use crate::refused::PastRefusals;
use crate::secrets_mark::{KEY_BYTES, Key};
use slots::{SlotContent, Slots};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use wasmount_core::mutex::lock;
use wasmount_core::secrets::Secrets;

/// Only the host reads it: documents name paths and servers.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const KEY: &str = "secrets.key";
const REFUSALS: &str = "refusals.json";
const COMPONENT: &str = "wasm";
/// Suffix of a file that is being written.
const UNFINISHED: &str = "unfinished";

/// The directory of one reconciler.
pub(crate) struct Disk {
    directory: PathBuf,
    /// Created when it is first needed.
    key: OnceCell<Key>,
    history: Mutex<Slots>,
}

impl Disk {
    pub(crate) fn new(directory: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            key: OnceCell::new(),
            history: Mutex::new(Slots::new(&directory)),
            directory,
        })
    }

    /// Creates the directory if it is missing, removes files that a killed host left incomplete, and reads the history.
    pub(crate) async fn open(self: &Arc<Self>) -> Result<History, Refusal> {
        let disk = Arc::clone(self);
        blocking(self.directory.clone(), move |directory| {
            let mut slots = lock(&disk.history);
            open_blocking(directory, &mut slots)
        })
        .await
    }

    /// Writes the history: from here on a restart serves its current version. Returns how long the disk took.
    pub(crate) async fn write(self: &Arc<Self>, history: &History) -> Result<Duration, Refusal> {
        let write_down = "write down the versions in";
        let text = serde_json::to_vec(history)
            .map_err(|error| failed(write_down, &self.directory)(io::Error::other(error)))?;
        let disk = Arc::clone(self);
        blocking(self.directory.clone(), move |directory| {
            let mut slots = lock(&disk.history);
            let began = Instant::now();
            slots.write(&text).map_err(failed(write_down, directory))?;
            Ok(began.elapsed())
        })
        .await
    }

    /// Stores a component, if it is not there.
    pub(crate) async fn keep(&self, digest: &str, wasm: Arc<Vec<u8>>) -> Result<(), Refusal> {
        blocking(self.component(digest), move |path| {
            // A file of this name was written completely, and its digest is checked when it is read.
            match path.exists() {
                true => Ok(()),
                false => put(path, &wasm),
            }
        })
        .await
    }

    /// A stored component. Bytes with another digest are rejected and removed.
    pub(crate) async fn component_of(&self, digest: &str) -> Result<Vec<u8>, Refusal> {
        let expected = digest.to_owned();
        blocking(self.component(digest), move |path| {
            let wasm = fs::read(path).map_err(failed("read the kept component", path))?;
            let found = digest_of(&wasm);
            if found == expected {
                return Ok(wasm);
            }
            // Best effort: it is rejected whether or not the file is removed.
            let _ = fs::remove_file(path);
            Err(Refusal::OtherDigest { expected, found })
        })
        .await
    }

    /// Removes components with other digests than these.
    pub(crate) async fn remove_others(&self, digests: BTreeSet<String>) {
        let keep: BTreeSet<PathBuf> = digests.iter().map(|it| self.component(it)).collect();
        let removed = blocking(self.directory.clone(), move |directory| {
            for entry in entries(directory)? {
                let is_component = entry.extension().is_some_and(|kind| kind == COMPONENT);
                if is_component && !keep.contains(&entry) {
                    fs::remove_file(&entry).map_err(failed("remove the old component", &entry))?;
                }
            }
            Ok(())
        });
        if let Err(error) = removed.await {
            tracing::warn!(%error, "components of old versions stay on disk");
        }
    }

    /// The rejected candidates; none if the file cannot be read.
    pub(crate) async fn refusals(&self) -> PastRefusals {
        let path = self.directory.join(REFUSALS);
        let read = blocking(path, |path| {
            let text = read_if_there(path)?;
            let refusals = text.map(|text| serde_json::from_slice(&text)).transpose();
            refusals.map_err(|error| failed("read", path)(error.into()))
        });
        let refusals = read.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "earlier rejected versions are unknown");
            None
        });
        refusals.unwrap_or_default()
    }

    /// Stores the rejected candidates.
    pub(crate) async fn write_refusals(&self, refusals: &PastRefusals) -> Result<(), Refusal> {
        let text = serde_json::to_vec_pretty(refusals);
        blocking(self.directory.join(REFUSALS), move |path| {
            let text = text.map_err(|error| failed("write", path)(error.into()))?;
            put(path, &text)
        })
        .await
    }

    /// A mark that distinguishes two sets of secrets and reveals nothing of their values without the key. The key is created when it is first needed.
    /// If it cannot be written to disk, it lasts as long as this process: after that the same secrets seem changed, once.
    pub(crate) async fn mark(&self, secrets: &Secrets) -> String {
        if secrets.is_empty() {
            return String::new();
        }
        let key = self.key.get_or_init(async || {
            let read = blocking(self.directory.join(KEY), read_or_make_key).await;
            read.unwrap_or_else(|error| {
                tracing::warn!(%error, "changes of secrets while the host is stopped will not be detected");
                Key::random()
            })
        });
        key.await.mark(secrets)
    }

    fn component(&self, digest: &str) -> PathBuf {
        // A digest made by this host: `sha256:` and digits.
        let digits = digest.rsplit(':').next().unwrap_or(digest);
        self.directory.join(format!("{digits}.{COMPONENT}"))
    }
}

fn read_or_make_key(path: &Path) -> Result<Key, Refusal> {
    if let Some(bytes) = read_if_there(path)? {
        match <[u8; KEY_BYTES]>::try_from(bytes.as_slice()) {
            Ok(bytes) => return Ok(Key(bytes)),
            Err(_) => {
                tracing::warn!(path = %path.display(), "the key is truncated: generating a new one");
            }
        }
    }
    let key = Key::random();
    put(path, &key.0)?;
    Ok(key)
}

/// Writes a file aside, syncs and renames it.
fn put(path: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    let aside = path.with_added_extension(UNFINISHED);
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(&aside)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&aside, path))
        .and_then(|()| {
            path.parent()
                .map_or(Ok(()), |parent| File::open(parent)?.sync_all())
        });
    if written.is_err() {
        // An incomplete file is useless and takes space on a full disk.
        let _ = fs::remove_file(&aside);
    }
    written.map_err(failed("write", path))
}

fn open_blocking(directory: &Path, slots: &mut Slots) -> Result<History, Refusal> {
    let made = DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(directory);
    made.map_err(failed("make the directory", directory))?;
    for entry in entries(directory)? {
        if entry.extension().is_some_and(|kind| kind == UNFINISHED) {
            fs::remove_file(&entry).map_err(failed("remove the unfinished file", &entry))?;
        }
    }
    let read = slots.read();
    let reason = match read.map_err(failed("read the versions in", directory))? {
        SlotContent::Nothing => return Ok(History::default()),
        SlotContent::Damaged(reason) => reason,
        SlotContent::Text(text) => match serde_json::from_slice::<History>(&text) {
            Ok(history) if history.is_readable() => return Ok(history),
            Ok(_) => format!("it is not of the form {FORMAT}, which this host writes"),
            Err(error) => error.to_string(),
        },
    };
    let aside = slots.put_aside();
    aside.map_err(failed("put aside the versions in", directory))?;
    tracing::error!(
        directory = %directory.display(),
        reason,
        "the version history cannot be read and is quarantined: the backend starts from its document"
    );
    Ok(History::default())
}

/// Removes the directory of a backend that is deleted.
pub(crate) async fn remove(directory: PathBuf) -> Result<(), Refusal> {
    blocking(directory, |directory| match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("remove", directory)(error))
        }
        _ => Ok(()),
    })
    .await
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let paths = fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    paths.map_err(failed("list", directory))
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, Refusal> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Refusal {
    let path = path.to_owned();
    move |source| Refusal::Disk {
        operation,
        path,
        source,
    }
}

async fn blocking<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce(&Path) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let named = path.clone();
    let done = tokio::task::spawn_blocking(move || work(&path)).await;
    done.unwrap_or_else(|error| Err(failed("use", &named)(io::Error::other(error))))
}

#[cfg(test)]
mod tests;
