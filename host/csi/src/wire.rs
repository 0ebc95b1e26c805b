//! The messages, clients and server traits of `proto/`, as generated.
//!
//! What can carry a secret cannot be formatted: `{request:?}` prints a name.

/// The descriptors of CSI and its imports, with CSI's marks: a `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// CSI 1.12 and 1.13.
pub mod csi {
    /// Package `csi.v1`.
    #[allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        reason = "generated; the words are CSI's"
    )]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/csi.v1.rs"));
    }
}

/// `Debug` by name only. build.rs takes the derived one from every message with a secret: a message that is missing here does not compile,
/// one too many does not either.
macro_rules! prints_its_name_only {
    ($($message:ty),+ $(,)?) => {$(
        impl std::fmt::Debug for $message {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(std::any::type_name::<Self>().rsplit("::").next().unwrap_or_default())
            }
        }
    )+};
}

prints_its_name_only! {
    csi::v1::CreateVolumeRequest,
    csi::v1::DeleteVolumeRequest,
    csi::v1::ControllerPublishVolumeRequest,
    csi::v1::ControllerUnpublishVolumeRequest,
    csi::v1::ValidateVolumeCapabilitiesRequest,
    csi::v1::ControllerModifyVolumeRequest,
    csi::v1::ControllerListVolumeHealthRequest,
    csi::v1::ControllerGetVolumeHealthRequest,
    csi::v1::CreateSnapshotRequest,
    csi::v1::DeleteSnapshotRequest,
    csi::v1::ListSnapshotsRequest,
    csi::v1::GetSnapshotRequest,
    csi::v1::ControllerExpandVolumeRequest,
    csi::v1::NodeStageVolumeRequest,
    csi::v1::NodePublishVolumeRequest,
    csi::v1::NodeExpandVolumeRequest,
    csi::v1::NodeGetStorageHealthRequest,
    csi::v1::CreateVolumeGroupSnapshotRequest,
    csi::v1::DeleteVolumeGroupSnapshotRequest,
    csi::v1::GetVolumeGroupSnapshotRequest,
    csi::v1::GetMetadataAllocatedRequest,
    csi::v1::GetMetadataDeltaRequest,
    csi::v1::volume_capability::MountVolume,
}

#[cfg(test)]
mod tests;
