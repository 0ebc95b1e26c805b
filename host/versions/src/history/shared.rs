//! Entries that several histories share, as they are written: each as a whole.

use super::Entry;
use serde::{Deserialize, Deserializer, Serializer};
use std::sync::Arc;

pub(super) fn serialize<S: Serializer>(
    entries: &[Arc<Entry>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(entries.iter().map(Arc::as_ref))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Arc<Entry>>, D::Error> {
    let entries = Vec::<Entry>::deserialize(deserializer)?;
    Ok(entries.into_iter().map(Arc::new).collect())
}
