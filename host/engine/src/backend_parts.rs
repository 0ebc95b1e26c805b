//! What a backend is given by the host.

use std::sync::Arc;
use wasmount_core::attributes::Attributes;
use wasmount_core::document::Limits;
use wasmount_core::mounter::Mounter;
use wasmount_core::names::DriverName;
use wasmount_core::secrets::Secrets;
use wasmount_core::state::StateStore;

/// What a backend is given.
pub struct BackendParts {
    /// The driver that it serves: names its keys and its pools.
    pub driver: DriverName,
    /// How much it may use.
    pub limits: Limits,
    /// `call.settings`.
    pub settings: Attributes,
    /// Secrets of the backend's document.
    pub secrets: Arc<Secrets>,
    /// Where this host runs; absent when it is a controller outside of the nodes.
    pub node_name: Option<String>,
    /// Its durable keys.
    pub state: Arc<dyn StateStore>,
    /// Its pools.
    pub mounter: Arc<dyn Mounter>,
}
