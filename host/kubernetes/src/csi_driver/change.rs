//! Compares a `CSIDriver` object with what the driver needs.
//!
//! A hundred hosts of one DaemonSet need the same object: if it is already right, nothing is written, whichever host or person wrote it.

use crate::FIELD_MANAGER;
use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Fields that the API server never allows to change (`ValidateCSIDriverUpdate`).
const IMMUTABLE: [&str; 2] = ["attachRequired", "volumeLifecycleModes"];

/// What must be written.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The object is right.
    Nothing,
    /// This object is applied.
    Apply(Box<CSIDriver>),
    /// A field differs that cannot be changed.
    Immutable {
        /// One entry for each: `field` is `live`, wanted `wanted`.
        fields: Vec<String>,
    },
}

/// The change from `live` to `wanted`.
pub fn change(live: Option<&CSIDriver>, wanted: &CSIDriver) -> Change {
    let Some(live) = live else {
        return Change::Apply(Box::new(wanted.clone()));
    };
    let mut wanted = wanted.clone();
    keep_order(&live.spec, &mut wanted.spec);
    let (has, wants) = (fields(&live.spec), fields(&wanted.spec));
    let differing: Vec<_> = wants
        .iter()
        .filter(|(name, value)| has.get(*name) != Some(*value))
        .collect();
    let fixed: Vec<_> = differing
        .iter()
        .filter(|(name, _)| IMMUTABLE.contains(&name.as_str()))
        .map(|(name, value)| {
            let live = has.get(*name).unwrap_or(&Value::Null);
            format!("`{name}` is {live}, wanted {value}")
        })
        .collect();
    if !fixed.is_empty() {
        return Change::Immutable { fields: fixed };
    }
    let no_longer_said = owned(live)
        .iter()
        .any(|name| !wants.contains_key(name.as_str()));
    if differing.is_empty() && !no_longer_said {
        return Change::Nothing;
    }
    Change::Apply(Box::new(wanted))
}

/// The modes are a set, but the API server's check of immutability compares them as a list.
fn keep_order(live: &CSIDriverSpec, wanted: &mut CSIDriverSpec) {
    let set = |spec: &CSIDriverSpec| {
        let modes = spec.volume_lifecycle_modes.iter().flatten();
        modes.cloned().collect::<BTreeSet<_>>()
    };
    if set(live) == set(wanted) {
        wanted.volume_lifecycle_modes = live.volume_lifecycle_modes.clone();
    }
}

fn fields(spec: &CSIDriverSpec) -> Map<String, Value> {
    match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Which fields of `spec` an earlier host applied (`FieldsV1`: a key for each field, after `f:`).
fn owned(live: &CSIDriver) -> BTreeSet<String> {
    let entries = live.metadata.managed_fields.iter().flatten();
    entries
        .filter(|entry| {
            entry.manager.as_deref() == Some(FIELD_MANAGER)
                && entry.operation.as_deref() == Some("Apply")
        })
        .filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:spec")?.as_object())
        .flat_map(|spec| spec.keys().filter_map(|key| key.strip_prefix("f:")))
        .map(str::to_owned)
        .collect()
}
