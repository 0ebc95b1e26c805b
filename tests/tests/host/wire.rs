//! The wire form of every message, compared with the one that the specification's own Go module makes: names, numbers, types and marks from the
//! descriptors, and what is really sent by round trips through a Go program, with every field set, in both directions.
//!
//! What we serve is the union of CSI 1.12 and 1.13: each is compared with what it knows, and nothing may be left that neither knows.

mod c_core;
mod descriptors;
mod filler;
mod generated;
mod official;
mod round_trip;

use prost_reflect::DescriptorPool;
use wasmount_csi::wire::DESCRIPTOR_SET;

/// Of CSI; the same file may hold others.
pub(crate) const PACKAGE: &str = "csi.v1";

/// As the host has them.
pub(crate) fn ours() -> DescriptorPool {
    DescriptorPool::decode(DESCRIPTOR_SET).unwrap()
}
