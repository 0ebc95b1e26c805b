//! The errors of a document after the first: what is wrong is removed or replaced, and the rest is checked again.
//!
//! It knows the parts of a document that are independent of each other: an error that may follow from another one is not reported.

use serde_json::{Value, json};
use wasmount_core::document::KeyPath;
use wasmount_core::document::raw::{API_VERSION, KIND};

/// Most errors of one document that are reported. 20: a person corrects these first, and each costs a parse of the document.
const ERRORS_MAX: usize = 20;

/// Sections of a specification on which no grant depends.
const WITHOUT_SECRETS: [&str; 8] = [
    "csi",
    "csiDriver",
    "driverName",
    "grants",
    "limits",
    "plugin",
    "settings",
    "versions",
];

/// An error: its key, and its reason.
pub(super) type Invalid = (KeyPath, String);

/// A document without what was found to be wrong.
struct Remaining {
    document: Value,
    /// Parts that were removed or replaced.
    gone: Vec<Vec<String>>,
}

/// The errors after the one at `first`. `judge` returns the first error of a text; none also for an error without a key, after which nothing can
/// be checked.
pub(super) fn others(
    text: &str,
    first: &KeyPath,
    judge: impl Fn(&str) -> Option<Invalid>,
) -> Vec<Invalid> {
    let mut others = Vec::new();
    let Ok(document) = serde_saphyr::from_str(text) else {
        return others;
    };
    let mut remaining = Remaining {
        document,
        gone: Vec::new(),
    };
    let mut key = first.clone();
    for _ in 1..ERRORS_MAX {
        let Some(text) = remaining.without(&key) else {
            break;
        };
        let Some((next, reason)) = judge(&text) else {
            break;
        };
        key.clone_from(&next);
        if !remaining.may_follow(&next) {
            others.push((next, reason));
        }
    }
    others
}

impl Remaining {
    /// The text without the part that the key belongs to. None if that is gone already, or is the whole document.
    fn without(&mut self, key: &KeyPath) -> Option<String> {
        let part = part_of(&key.keys())?;
        if self.gone.contains(&part) {
            return None;
        }
        self.remove(&part)?;
        // Grants name secrets: without those, or a misspelt key of those, their errors may follow.
        if let [spec, section] = part.as_slice()
            && spec == "spec"
            && !WITHOUT_SECRETS.contains(&section.as_str())
        {
            let _ = self.remove(&["spec", "grants"].map(str::to_owned));
        }
        self.gone.push(part);
        serde_saphyr::to_string(&self.document).ok()
    }

    fn remove(&mut self, part: &[String]) -> Option<()> {
        let (last, above) = part.split_last()?;
        let group = above
            .iter()
            .try_fold(&mut self.document, |group, key| group.get_mut(key))?;
        let group = group.as_object_mut()?;
        match replacement(part) {
            Some(value) => group.insert(last.clone(), value),
            None => group.remove(last),
        };
        Some(())
    }

    /// Whether a missing key may be one that was removed because it was misspelt.
    fn may_follow(&self, key: &KeyPath) -> bool {
        let keys = key.keys();
        let Some((_, above)) = keys.split_last() else {
            return false;
        };
        let is_missing = keys
            .iter()
            .try_fold(&self.document, |group, key| group.get(key))
            .is_none();
        let removed = self.gone.iter().filter(|part| replacement(part).is_none());
        is_missing
            && removed
                .filter_map(|part| part.split_last())
                .any(|(_, it)| it == above)
    }
}

/// The smallest part around a key that is independent of the parts beside it.
fn part_of(keys: &[String]) -> Option<Vec<String>> {
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let depth = match names.as_slice() {
        [] | ["spec"] => return None,
        ["spec", "grants", "pools" | "network", ..] => 4,
        [
            "spec",
            "settings" | "secrets" | "limits" | "versions" | "grants",
            ..,
        ] => 3,
        _ => 2,
    };
    Some(keys.iter().take(depth).cloned().collect())
}

/// A valid value for a part that others need; none: the part is removed.
fn replacement(part: &[String]) -> Option<Value> {
    let names: Vec<&str> = part.iter().map(String::as_str).collect();
    match names.as_slice() {
        ["apiVersion"] => Some(json!(API_VERSION)),
        ["kind"] => Some(json!(KIND)),
        ["metadata"] => Some(json!({ "name": "a" })),
        ["metadata", "name"] | ["spec", "driverName"] => Some(json!("a")),
        ["spec", "plugin"] => Some(json!({ "path": "a" })),
        ["spec", "secrets", _] => Some(json!({ "file": "a" })),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
