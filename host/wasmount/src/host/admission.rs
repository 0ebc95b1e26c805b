//! Brings one backend into use, and tries again until it works. Apart because it is one task a backend: whatever is wrong with a plugin, its
//! secrets or its settings delays no other and stops nothing.
//!
//! Which plugin is fit to serve is decided in `versions`; here are only the secrets, the retries, and who is told.

use super::rooms::Rooms;
use super::secrets::{self, SecretError};
use crate::config::Configured;
use crate::fault::chain;
use crate::readiness::Readiness;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use wasmount_core::backend::Backend;
use wasmount_core::driver::Driver;
use wasmount_core::names::NodeId;
use wasmount_engine::BackendParts;
use wasmount_versions::{Admitted, Refusal, admit};

/// Pause after the first failure; doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause: what a person who mends a file will wait for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// One backend and what it needs.
pub(super) struct Admission {
    pub(super) backend: Configured,
    pub(super) driver: Arc<Driver>,
    pub(super) rooms: Rooms,
    pub(super) node: NodeId,
    pub(super) readiness: Arc<Readiness>,
}

#[derive(Debug, thiserror::Error)]
enum NotAdmitted {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Returns when the backend serves.
pub(super) async fn run(admission: Admission) {
    let name = admission.driver.name();
    let mut pause = FIRST_PAUSE;
    loop {
        match admission.attempt().await {
            Ok(()) => {
                admission.readiness.set_plugin(name, None);
                return;
            }
            Err(error) => {
                let reason = chain(&error);
                admission.driver.set_fault(reason.clone());
                admission.readiness.set_plugin(name, Some(reason.clone()));
                // Last, so that whoever reads the line finds it so.
                tracing::warn!(driver = %name, reason, retry_seconds = pause.as_secs(), "the backend has no plugin");
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl Admission {
    async fn attempt(&self) -> Result<(), NotAdmitted> {
        let Configured { document, folder } = &self.backend;
        let secrets = secrets::read(document.secrets.clone()).await?;
        let parts = BackendParts {
            driver: document.driver_name.clone(),
            limits: document.limits.clone(),
            settings: document.settings.clone(),
            secrets: Arc::new(secrets),
            node_name: Some(self.node.to_string()),
            state: self.rooms.state.clone(),
            mounter: self.rooms.mounter.clone(),
        };
        let plugin = &document.plugin;
        let (grants, role) = (&document.grants, self.driver.role());
        let Admitted { backend, warnings } =
            admit(&self.rooms.engine, plugin, folder, grants, parts, role).await?;
        let driver = self.driver.name();
        for warning in warnings {
            tracing::warn!(%driver, "{warning}");
        }
        tracing::info!(%driver, plugin = %backend.label(), "the backend serves");
        self.driver.put_to_use(backend);
        Ok(())
    }
}
