//! The RPCs of CSI by name, of all versions that are served, and the calls that the host makes by itself.

use std::fmt;

macro_rules! calls {
    ($($service:literal { $($name:ident),+ $(,)? })+; $($own_service:literal { $($own:ident: $purpose:literal),+ $(,)? })+) => {
        /// A call of a driver: one of CSI, or one that the host makes by itself.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each is CSI's own name, described there")]
        pub enum Rpc {
            $($($name),+),+,
            $($(#[doc = $purpose] $own),+),+
        }

        impl Rpc {
            /// All calls of CSI, in the order of the specification.
            pub const ALL: &[Rpc] = &[$($(Rpc::$name),+),+];

            /// The method name, as CSI spells it.
            pub fn name(self) -> &'static str {
                match self {
                    $($(Rpc::$name => stringify!($name)),+),+,
                    $($(Rpc::$own => stringify!($own)),+),+
                }
            }

            /// The service that it belongs to, as CSI spells it.
            pub fn service(self) -> &'static str {
                match self {
                    $($(Rpc::$name => $service),+),+,
                    $($(Rpc::$own => $own_service),+),+
                }
            }

            /// Whether it belongs to the controller service of a driver, which has all services of CSI but two.
            pub fn is_of_controller(self) -> bool {
                !matches!(self.service(), "Identity" | "Node")
            }

            /// Whether no client can make it: the host makes it by itself.
            pub fn is_of_host(self) -> bool {
                matches!(self, $($(Rpc::$own)|+)|+)
            }
        }
    };
}

calls! {
    "Identity" { GetPluginInfo, GetPluginCapabilities, Probe }
    "Controller" {
        CreateVolume, DeleteVolume, ControllerPublishVolume, ControllerUnpublishVolume, ValidateVolumeCapabilities, ListVolumes,
        ControllerListVolumeHealth, ControllerGetVolumeHealth, GetCapacity, ControllerGetCapabilities, CreateSnapshot, DeleteSnapshot,
        ListSnapshots, GetSnapshot, ControllerExpandVolume, ControllerGetVolume, ControllerModifyVolume,
    }
    "GroupController" {
        GroupControllerGetCapabilities, CreateVolumeGroupSnapshot, DeleteVolumeGroupSnapshot, GetVolumeGroupSnapshot,
    }
    "SnapshotMetadata" { GetMetadataAllocated, GetMetadataDelta }
    "Node" {
        NodeStageVolume, NodeUnstageVolume, NodePublishVolume, NodeUnpublishVolume, NodeGetVolumeStats, NodeExpandVolume,
        NodeGetCapabilities, NodeGetInfo, NodeGetVolumeHealth, NodeGetStorageHealth,
    };
    "Controller" {
        RegisterNode: "Makes a node known to the storage system (`node-register`).",
        UnregisterNode: "Ends that.",
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
