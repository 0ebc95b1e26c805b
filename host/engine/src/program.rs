//! One linked version of one backend: what all its calls have in common. It never changes.

use crate::exports::Exports;
use crate::gate::Gate;
use crate::guest_log::LogRate;
use crate::invocation::{BackendParts, Invocation};
use crate::limits::SharedMemory;
use crate::resident::Resident;
use crate::slices::Slices;
use crate::usage::UsageWatch;
use std::sync::Arc;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::PluginLabel;
use wasmount_core::names::DriverName;
use wasmtime::component::InstancePre;

/// What a plugin says of itself, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginInfo {
    /// Its own name; the document may give another one.
    pub name: DriverName,
    /// Its version.
    pub version: String,
    /// For people.
    pub manifest: Attributes,
    /// As it spells them.
    pub features: Vec<String>,
}

/// A linked component with what it was given.
pub(crate) struct Program {
    /// While it is here, its compiled code is not removed as that of a rejected component.
    pub(crate) _in_use: Arc<Resident>,
    pub(crate) pre: InstancePre<Invocation>,
    pub(crate) exports: Exports,
    pub(crate) parts: Arc<BackendParts>,
    pub(crate) gate: Gate,
    pub(crate) memory: Arc<SharedMemory>,
    pub(crate) rate: Arc<LogRate>,
    pub(crate) slices: Slices,
    pub(crate) usage: UsageWatch,
    pub(crate) label: PluginLabel,
}
