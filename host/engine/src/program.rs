//! One version of one backend, linked: what all its calls have in common. It never changes.

use crate::exports::Exports;
use crate::gate::{Gate, Share};
use crate::guest_log::LogRate;
use crate::invocation::Invocation;
use crate::limits::SharedMemory;
use crate::resident::Resident;
use crate::slices::Slices;
use crate::usage::UsageWatch;
use std::sync::Arc;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::PluginLabel;
use wasmount_core::document::Limits;
use wasmount_core::mounter::Mounter;
use wasmount_core::names::DriverName;
use wasmount_core::secrets::Secrets;
use wasmount_core::state::StateStore;
use wasmtime::component::InstancePre;

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

/// What a call may change. It follows from what the call is for: until a version serves it changes nothing, and reading changes nothing later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Records and pools.
    ReadWrite,
    /// Nothing; records and pools can be read.
    ReadOnly,
    /// Nothing; pools can be read, and records come with the call.
    Migration,
}

/// An export and how it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Function {
    /// The interface that it belongs to.
    pub(crate) interface: &'static str,
    /// Its name in the contract.
    pub(crate) name: &'static str,
    pub(crate) share: Share,
    /// Whether it may record a plan.
    pub(crate) records: bool,
    pub(crate) access: Access,
}

impl Function {
    /// One that makes or reads things.
    pub(crate) const fn ordinary(interface: &'static str, name: &'static str) -> Self {
        Self {
            interface,
            name,
            share: Share::Ordinary,
            records: false,
            access: Access::ReadWrite,
        }
    }

    /// One that takes things down, or that a node or a health check waits for.
    pub(crate) const fn reserved(interface: &'static str, name: &'static str) -> Self {
        Self {
            share: Share::Reserved,
            ..Self::ordinary(interface, name)
        }
    }

    /// One that says by a plan what a volume is.
    pub(crate) const fn planning(interface: &'static str, name: &'static str) -> Self {
        Self {
            records: true,
            ..Self::reserved(interface, name)
        }
    }

    /// The same with another access.
    pub(crate) const fn with(self, access: Access) -> Self {
        Self { access, ..self }
    }
}

/// A linked component with what it was given.
pub(crate) struct Program {
    /// As long as it is here, nobody takes its compiled code for something that was refused.
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
