//! The RPCs of CSI by name, of all versions that are served.

use std::fmt;

macro_rules! calls {
    ($($service:literal { $($name:ident),+ $(,)? })+) => {
        /// A CSI call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each is CSI's own name, described there")]
        pub enum Rpc { $($($name),+),+ }

        impl Rpc {
            /// All calls, in the order of the specification.
            pub const ALL: &[Rpc] = &[$($(Rpc::$name),+),+];

            /// The method name, as CSI spells it.
            pub fn name(self) -> &'static str {
                match self { $($(Rpc::$name => stringify!($name)),+),+ }
            }

            /// The service that it belongs to, as CSI spells it.
            pub fn service(self) -> &'static str {
                match self { $($(Rpc::$name => $service),+),+ }
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
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
