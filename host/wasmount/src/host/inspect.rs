//! Loads a plugin as `serve` would and looks at what it offers, without a driver: for commands that print. Apart because nothing is served,
//! mounted or kept: the store is a directory that goes with the command, and nobody answers where a mounter would.

use super::{OWN_MODE, secrets};
use crate::config::Configured;
use crate::fault::Fault;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::{env, io, process};
use wasmount_core::backend::Backend;
use wasmount_core::driver::Role;
use wasmount_core::services::Offer;
use wasmount_engine::{BackendParts, Engine, EngineOptions};
use wasmount_mounter::SocketMounter;
use wasmount_state::RedbStore;
use wasmount_versions::{Admitted, admit};

/// What was found.
pub(crate) struct Inspected {
    /// Services and features.
    pub(crate) offer: Offer,
    /// What its administrator should know.
    pub(crate) warnings: Vec<String>,
}

/// A directory that goes with the command.
struct Place(PathBuf);

impl Place {
    /// One that was there before is somebody else's: it is refused.
    fn make() -> io::Result<Self> {
        let path = env::temp_dir().join(format!("wasmount-inspect-{}", process::id()));
        DirBuilder::new().mode(OWN_MODE).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed is in the temporary directory of the system.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Admits the plugin of a document. Its storage need not be reachable from here: then the plugin says that it is not ready.
pub(crate) fn inspect(backend: &Configured) -> Result<Inspected, Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Fault::room("the threads for the plugin cannot be started"))?;
    runtime.block_on(admitted(backend))
}

async fn admitted(backend: &Configured) -> Result<Inspected, Fault> {
    let place = Place::make().map_err(Fault::room("no temporary directory can be made"))?;
    let Configured { document, folder } = backend;
    let secrets = secrets::read(document.secrets.clone()).await;
    let secrets = secrets.map_err(Fault::room("a secret cannot be read"))?;
    let state =
        RedbStore::open(&place.0).map_err(Fault::room("a temporary store cannot be opened"))?;
    let nobody = SocketMounter::new(place.0.join("mounter.sock"))
        .map_err(Fault::room("the mounter's client cannot be made"))?;
    let engine = Engine::new(EngineOptions::for_backends(None, [&document.limits]))
        .map_err(Fault::room("plugins cannot be run on this machine"))?;
    let parts = BackendParts {
        driver: document.driver_name.clone(),
        limits: document.limits.clone(),
        settings: document.settings.clone(),
        secrets: Arc::new(secrets),
        node_name: None,
        state,
        mounter: Arc::new(nobody),
    };
    // As a node: pools are the cluster's, and none is opened here.
    let (plugin, grants) = (&document.plugin, &document.grants);
    let Admitted { backend, warnings } = admit(&engine, plugin, folder, grants, parts, Role::Node)
        .await
        .map_err(Fault::room("the plugin cannot serve"))?;
    Ok(Inspected {
        offer: backend.offer().clone(),
        warnings,
    })
}
