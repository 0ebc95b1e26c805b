//! A plugin that violates every rule on purpose, one at a time. A name selects the misbehaviour: in the parameters, the context or the id of a call
//! (`trap.pvc-1`), or in a setting where a call has no such field. Without a name it is a valid driver over a pool. The tests of the host check that
//! the host keeps working and reports the violation.
#![forbid(unsafe_code)]
#![allow(clippy::panic, reason = "a panic is one of the bad things to do")]

mod behaviour;
mod controller;
mod identity;
mod migration;
mod node;
mod snapshots;

use wasmount_guest::*;

/// The pool of the volumes, if it is granted.
const POOL: Pool = Pool::named("volumes");
/// The key of the behaviour in settings, parameters and contexts.
const BEHAVIOUR: &str = "behaviour";

struct Misbehave;
export! {
    identity: Misbehave, controller: Misbehave, controller_publish: Misbehave, controller_expand: Misbehave,
    controller_modify: Misbehave, volume_listing: Misbehave, volume_lookup: Misbehave, capacity: Misbehave, snapshots: Misbehave,
    snapshot_listing: Misbehave, group_snapshots: Misbehave, snapshot_metadata: Misbehave, volume_health: Misbehave,
    node_info: Misbehave, node_stage: Misbehave, node_publish: Misbehave, node_hooks: Misbehave,
    node_register: Misbehave, state_migration: Misbehave
}

/// The behaviour of a call with attributes.
fn asked(attributes: &Attributes) -> String {
    value(attributes, BEHAVIOUR)
}

/// The behaviour of a call with an id: the part before the first dot.
fn asked_by(id: &str) -> &str {
    id.split_once('.').map_or(id, |(word, _)| word)
}

/// Only volumes with a behaviour and a name are in the pool: other ids are a behaviour alone.
fn is_in_pool(id: &str) -> bool {
    id.contains('.')
}

fn setting(name: &str) -> String {
    value(&call::settings(), name)
}

fn value(attributes: &Attributes, name: &str) -> String {
    let found = attributes.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

fn pairs(pairs: &[(&str, &str)]) -> Attributes {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}
