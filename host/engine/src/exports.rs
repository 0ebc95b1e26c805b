//! Finds the services that a component exports.
//!
//! The name of an interface proves little: a changed record only shows when its functions are loaded from a live instance, and a missing function
//! looks like a missing interface. So every exported interface must load, or the component is rejected.

use crate::bindings::exported;
use crate::error::{EngineError, describe};
use crate::invocation::Invocation;
use crate::linker::{CONTRACT_LINE, CONTRACT_PACKAGE, is_of_line};
use wasmount_core::services::Service;
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

macro_rules! exports {
    ($($field:ident = $interface:literal: $($service:ident)?),+ $(,)?) => {
        const INTERFACES: &[&str] = &[$($interface),+];

        /// The functions of each exported interface.
        #[derive(Clone)]
        pub(crate) struct Exports {
            $(pub(crate) $field: Option<exported::$field::GuestIndices>),+
        }

        impl Exports {
            /// Finds the exports with names of the contract.
            pub(crate) fn find(
                pre: &InstancePre<Invocation>,
                names: &[String],
            ) -> Result<Self, EngineError> {
                Ok(Self {
                    $($field: if is_exported(names, $interface) {
                        let indices = exported::$field::GuestIndices::new(pre);
                        Some(indices.map_err(|error| shape($interface, &error))?)
                    } else {
                        None
                    }),+
                })
            }

            /// Loads every function of every interface from a live instance, which verifies that their types are the contract's.
            pub(crate) fn prove(
                &self,
                store: &mut Store<Invocation>,
                instance: &Instance,
            ) -> Result<(), EngineError> {
                $(if let Some(indices) = &self.$field {
                    indices
                        .load(&mut *store, instance)
                        .map_err(|error| shape($interface, &error))?;
                })+
                Ok(())
            }

            /// The optional services among them.
            pub(crate) fn services(&self) -> Vec<Service> {
                let mut services = Vec::new();
                $($(if self.$field.is_some() {
                    services.push(Service::$service);
                })?)+
                services
            }
        }
    };
}

exports! {
    identity = "identity":,
    controller = "controller": Controller,
    controller_publish = "controller-publish": ControllerPublish,
    controller_expand = "controller-expand": ControllerExpand,
    controller_modify = "controller-modify": ControllerModify,
    volume_listing = "volume-listing": VolumeListing,
    volume_lookup = "volume-lookup": VolumeLookup,
    capacity = "capacity": Capacity,
    snapshots = "snapshots": Snapshots,
    snapshot_listing = "snapshot-listing": SnapshotListing,
    group_snapshots = "group-snapshots": GroupSnapshots,
    snapshot_metadata = "snapshot-metadata": SnapshotMetadata,
    volume_health = "volume-health": VolumeHealth,
    node_info = "node-info": NodeInfo,
    node_stage = "node-stage": NodeStage,
    node_publish = "node-publish": NodePublish,
    node_hooks = "node-hooks": NodeHooks,
    node_register = "node-register": NodeRegister,
    state_migration = "state-migration":,
}

/// Whether this host calls an interface of the contract, service or not.
pub fn is_known_export(interface: &str) -> bool {
    INTERFACES.contains(&interface)
}

fn is_exported(names: &[String], interface: &str) -> bool {
    names
        .iter()
        .filter_map(|name| name.strip_prefix(CONTRACT_PACKAGE)?.split_once('@'))
        .any(|(name, version)| name == interface && is_of_line(version, CONTRACT_LINE))
}

fn shape(interface: &'static str, error: &wasmtime::Error) -> EngineError {
    EngineError::Shape {
        interface,
        reason: describe(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_of_another_contract_line_are_ignored() {
        let names = [
            "wasmount:csi/node-stage@0.1.2",
            "wasmount:csi/capacity@0.2.0",
        ];
        let names = names.map(str::to_owned);
        assert!(is_exported(&names, "node-stage"));
        assert!(!is_exported(&names, "capacity"));
        assert!(!is_exported(&names, "controller"));
    }
}
