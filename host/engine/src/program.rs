//! One linked version of one backend: the immutable data that all its calls share.

use crate::engine::Engine;
use crate::exports::Exports;
use crate::gate::Gate;
use crate::guest_log::LogRate;
use crate::invocation::{BackendParts, Invocation};
use crate::limits::SharedMemory;
use crate::resident::Resident;
use std::sync::Arc;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::PluginLabel;
use wasmount_core::names::DriverName;
use wasmtime::component::InstancePre;

/// The checked plugin info.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginInfo {
    /// Its own name; the document may give another one.
    pub name: DriverName,
    /// Its version.
    pub version: String,
    /// For people.
    pub manifest: Attributes,
    /// In its own spelling.
    pub features: Vec<String>,
}

/// A linked component with the data of its backend.
pub(crate) struct Program {
    /// While this is held, its compiled code is not removed like that of a rejected component.
    pub(crate) _in_use: Arc<Resident>,
    pub(crate) pre: InstancePre<Invocation>,
    pub(crate) exports: Exports,
    pub(crate) parts: Arc<BackendParts>,
    pub(crate) gate: Gate,
    pub(crate) memory: Arc<SharedMemory>,
    pub(crate) rate: Arc<LogRate>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) label: PluginLabel,
}
