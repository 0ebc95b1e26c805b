//! Secrets that the storage system makes for a volume while the driver runs, such as a key of its own: sealed for the volume's context by the controller
//! service, and opened by the host of the node, which the component never sees. The administrator grants it (`grants.sealing`).
//!
//! ```
//! use wasmount_guest::secrets::Secret;
//! use wasmount_guest::{Error, Volume, sealed_secrets, testing};
//!
//! fn created(id: &str, key: &Secret) -> Result<Volume, Error> {
//!     let sealed = sealed_secrets::seal(id, key)?;
//!     Ok(Volume::new(id, 1 << 30).with_context(&[("key", &sealed)]))
//! }
//!
//! testing::reset();
//! testing::grant_sealing();
//! let volume = created("volume-1", &Secret::new("AQBk")).unwrap();
//! let staged = testing::record(|plan| {
//!     plan.filesystem("ceph", "10.0.0.1:6789:/volumes/volume-1", &["name=volume-1"], &[])?;
//!     plan.sealed_secret_options(&[("secret", &volume.context[0].1)])
//! });
//! assert!(staged.is_ok());
//! ```

use crate::error::Error;
use crate::imports;
use crate::secrets::Secret;

/// A text of at most 2 KiB that opens for this volume of this driver only: for its context, and for records. The value has at most 1 KiB. The same value
/// gives the same text while the administrator's secret is the same.
pub fn seal(volume: &str, value: &Secret) -> Result<String, Error> {
    imports::sealed_secrets::seal(volume, value.expose())
}
