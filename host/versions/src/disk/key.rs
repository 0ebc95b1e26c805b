//! The key by which secrets of two versions are compared.

use super::{Disk, blocking, failed};
use crate::refusal::Refusal;
use crate::secrets_mark::{KEY_BYTES, Key};
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use wasmount_core::secrets::Secrets;

const KEY: &str = "secrets.key";

impl Disk {
    /// Tells two sets of secrets apart, and nothing of their values to whoever has not the key.
    pub(crate) async fn mark(self: &Arc<Self>, secrets: &Secrets) -> String {
        if secrets.is_empty() {
            return String::new();
        }
        self.key().await.mark(secrets)
    }

    /// Made when it is first needed. Where the disk does not take it, it lasts as long as this process: after that the same secrets look like
    /// others, once.
    async fn key(self: &Arc<Self>) -> Key {
        let known = || {
            let known = self.key.lock().unwrap_or_else(PoisonError::into_inner);
            known.clone()
        };
        if let Some(key) = known() {
            return key;
        }
        let disk = Arc::clone(self);
        let read = blocking(self.directory.join(KEY), move |path| {
            disk.read_or_make(path)
        });
        let key = read.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "changes of secrets while the host is stopped will not be detected");
            Key::random()
        });
        let mut known = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert(key).clone()
    }

    fn read_or_make(&self, path: &Path) -> Result<Key, Refusal> {
        match std::fs::read(path) {
            Ok(bytes) => match <[u8; KEY_BYTES]>::try_from(bytes.as_slice()) {
                Ok(bytes) => return Ok(Key::from(bytes)),
                Err(_) => {
                    tracing::warn!(path = %path.display(), "the key is truncated: generating a new one");
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("read", path)(error)),
        }
        let key = Key::random();
        self.put(path, key.bytes())?;
        Ok(key)
    }
}
