//! Components from files, read as a host reads them, and secrets from memory, if the files exist that a document names.
//! Tests can remove either, or delay them.

use async_trait::async_trait;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::RwLock;
use wasmount_core::document::{PluginPlace, SecretSource};
use wasmount_core::secrets::Secrets;
use wasmount_versions::{Component, Desired, Fetched, Refusal, Sources, check_kind};

#[derive(Default)]
pub(crate) struct TestSources {
    /// While a test holds it for writing, components wait.
    pub(crate) gate: RwLock<()>,
    pub(crate) away: Mutex<bool>,
    pub(crate) secret: Mutex<Option<String>>,
    pub(crate) asked: AtomicUsize,
}

#[async_trait]
impl Sources for TestSources {
    async fn component(&self, desired: &Desired) -> Result<Fetched, Refusal> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.read().await);
        if *self.away.lock().unwrap() {
            return Err(Refusal::Source {
                place: "the test".to_owned(),
                reason: "it is away".to_owned(),
                passes: true,
            });
        }
        let plugin = &desired.document.plugin;
        let PluginPlace::File(path) = &plugin.place else {
            panic!("only files are tested here");
        };
        let path = desired.folder.join(path);
        let wasm = fs::read(&path).map_err(|source| Refusal::Unreadable {
            path: path.clone(),
            source,
        })?;
        let component = Component::of(wasm).await?;
        component.check_digest(plugin.digest.as_deref())?;
        check_kind(component.wasm())?;
        Ok(Fetched {
            component,
            origin: path.display().to_string(),
            signed_by: Vec::new(),
        })
    }

    async fn secrets(&self, desired: &Desired) -> Result<Secrets, Refusal> {
        for source in desired.document.secrets.values() {
            let SecretSource::File(path) = source else {
                panic!("only files are tested here");
            };
            let path = desired.folder.join(path);
            fs::metadata(&path).map_err(|_| {
                Refusal::Secret(format!("secret {}: it is missing", path.display()))
            })?;
        }
        let secret = self.secret.lock().unwrap().clone();
        let secret =
            secret.ok_or_else(|| Refusal::Secret("secret `password`: it is missing".to_owned()))?;
        Ok([("password".to_owned(), secret)].into_iter().collect())
    }
}
