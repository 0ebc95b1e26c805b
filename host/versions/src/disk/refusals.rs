//! What was refused, on disk.

use super::{Disk, blocking, failed};
use crate::refusal::Refusal;
use crate::refused::PastRefusals;
use std::io;
use std::sync::Arc;

const REFUSALS: &str = "refusals.json";

impl Disk {
    /// What is remembered; nothing, where it cannot be read.
    pub(crate) async fn refusals(&self) -> PastRefusals {
        let path = self.directory.join(REFUSALS);
        let read = blocking(path, |path| match std::fs::read(path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| failed("read", path)(io::Error::other(error))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(PastRefusals::default()),
            Err(error) => Err(failed("read", path)(error)),
        });
        read.await.unwrap_or_else(|error: Refusal| {
            tracing::warn!(%error, "earlier rejected versions are unknown");
            PastRefusals::default()
        })
    }

    /// Remembers it.
    pub(crate) async fn write_refusals(
        self: &Arc<Self>,
        refusals: &PastRefusals,
    ) -> Result<(), Refusal> {
        let (disk, refusals) = (Arc::clone(self), refusals.clone());
        blocking(self.directory.join(REFUSALS), move |path| {
            let text = serde_json::to_vec_pretty(&refusals)
                .map_err(|error| failed("write", path)(io::Error::other(error)))?;
            disk.put(path, &text)
        })
        .await
    }
}
