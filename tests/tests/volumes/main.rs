//! Volumes on real file systems and devices: conformance with CSI, contents, copies, faults of disks and attacks.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may end where it fails"
)]

mod array;
mod attacks;
mod capabilities;
mod cephfs;
mod cinder;
mod concurrency;
mod conformance;
mod local_images;
mod nfs;
mod printed_pod;
mod rbd;
mod sanity;
mod storage;
