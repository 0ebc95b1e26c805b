//! The messages and clients of `proto/`, as generated.
//!
//! A message that can contain a secret cannot be formatted: `{request:?}` prints its name.

/// The descriptors of CSI and its imports, with CSI's field marks: a `google.protobuf.FileDescriptorSet`.
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
        include!(concat!(env!("OUT_DIR"), "/debug.rs"));
    }
}

#[cfg(test)]
mod tests;
