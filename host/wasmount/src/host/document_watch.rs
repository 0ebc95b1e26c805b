//! Documents that change while the host runs: they are applied.

use super::backends::{Backends, file_of};
use super::documents::desired;
use super::follow::{FileStates, changed};
use crate::config::{self, Configured};
use std::path::Path;
use std::slice;
use std::sync::Arc;
use tokio::task::spawn_blocking;
use wasmount_core::text::chain;

/// Applies each document that has changed since `states`, until the host ends.
pub(super) async fn keep(backends: Arc<Backends>, mut states: FileStates) {
    loop {
        for file in changed(&mut states).await {
            if let Err(error) = apply(&backends, &file).await {
                tracing::error!(
                    error,
                    "a document is not applied: the serving version continues"
                );
            }
        }
    }
}

/// Follows a document as it is now; the error says why it is not followed, and the driver's administrator is notified of it too.
pub(super) async fn apply(backends: &Backends, file: &Path) -> Result<(), String> {
    let served = read(file).await.and_then(|document| {
        let of_one_host = config::of_one_host(slice::from_ref(&document));
        of_one_host.map_err(|complaints| complaints.in_one_line())?;
        Ok(document)
    });
    let followed = match served {
        Ok(document) => {
            let applied = backends.apply(desired(document)).await;
            applied.map_err(|error| format!("{}: {}", file.display(), chain(&error)))
        }
        Err(error) => {
            backends.forget_removed(file);
            Err(error)
        }
    };
    followed.inspect_err(|error| trouble(backends, file, error.clone()))
}

async fn read(file: &Path) -> Result<Configured, String> {
    let path = file.to_owned();
    let read = spawn_blocking(move || {
        if !path.exists() {
            let path = path.display();
            return Err(format!(
                "{path}: is gone; restore it, or delete the driver with `wasmount delete`"
            ));
        }
        config::load_one(&path).map_err(|complaints| complaints.in_one_line())
    });
    read.await.map_err(|error| error.to_string())?
}

/// Notifies a driver's administrator that its document is not followed.
fn trouble(backends: &Backends, file: &Path, reason: String) {
    for (name, seen) in backends.all() {
        let is_its = file_of(&seen.desired.borrow().from).is_some_and(|path| path == file);
        if is_its {
            backends.set_trouble(&name, Some(reason.clone()));
        }
    }
}
