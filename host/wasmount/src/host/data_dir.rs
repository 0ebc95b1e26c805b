//! What lies in the data directory of a host.

/// Compiled plugins.
pub(super) const COMPILED: &str = "compiled";
/// What is kept of the versions of each driver.
pub(super) const VERSIONS: &str = "versions";
/// The StorageBackend objects that were seen last.
pub(super) const STORAGE_BACKENDS: &str = "storage-backends.json";
