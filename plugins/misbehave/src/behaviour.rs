//! The misbehaviours, by name: a table for each kind. The plugin also reports the tables, so that a test can check that it covers all of them.

pub mod answers;
pub mod deletions;
pub mod effects;
pub mod facts;
pub mod plans;
pub mod resources;
pub mod secrets;
pub mod state;

use crate::{identity, migration, setting};
use std::hash::{BuildHasher, RandomState};
use wasmount_guest::{Attributes, Error};

/// Names, and their functions.
pub type Table<F> = &'static [(&'static str, F)];

/// A misbehaviour that is possible in any call.
pub type Deed = fn() -> Result<(), Error>;

/// Runs the named misbehaviour, if it is possible in any call. The name is that of the call, or that of the setting `every-call`: a version that is
/// admitted and then fails in every call.
pub fn begin(name: &str) -> Result<(), Error> {
    let every = setting("every-call");
    let name = if every.is_empty() { name } else { &every };
    let tables = [
        resources::DEEDS,
        state::DEEDS,
        effects::DEEDS,
        secrets::DEEDS,
        facts::DEEDS,
        answers::ERRORS,
        plans::OUTSIDE,
    ];
    match tables.into_iter().find_map(|table| find(table, name)) {
        Some(deed) => deed(),
        None => Ok(()),
    }
}

/// Changes an answer by the named function.
pub fn spoil<T>(table: Table<fn(&mut T)>, name: &str, mut answer: T) -> T {
    if let Some(spoil) = find(table, name) {
        spoil(&mut answer);
    }
    answer
}

/// The function of a name.
pub fn find<F: Copy>(table: Table<F>, name: &str) -> Option<F> {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map(|(_, what)| *what)
}

/// All names, by kind.
pub fn known() -> Attributes {
    [
        ("identity", identity::all_names()),
        ("resources", names(resources::DEEDS)),
        ("state", names(state::DEEDS)),
        ("effects", names(effects::DEEDS)),
        (
            "secrets",
            names(secrets::DEEDS) + " " + &names(secrets::VOLUMES),
        ),
        ("facts", names(facts::DEEDS)),
        ("errors", names(answers::ERRORS)),
        ("volumes", names(answers::VOLUMES)),
        ("contexts", names(answers::CONTEXTS)),
        ("capacities", names(answers::CAPACITIES)),
        ("healths", names(answers::HEALTHS)),
        ("snapshots", names(answers::SNAPSHOTS)),
        ("groups", names(answers::GROUPS)),
        ("metadata", names(answers::METADATA)),
        ("pages", names(answers::PAGES)),
        ("nodes", names(answers::NODES)),
        ("outside", names(plans::OUTSIDE)),
        ("plans", names(plans::PLANS)),
        ("deletions", names(deletions::DELETIONS)),
        ("migrations", migration::all_names()),
    ]
    .map(|(kind, names)| (kind.to_owned(), names))
    .into()
}

/// The names in one line.
pub fn names<F>(table: Table<F>) -> String {
    let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
    names.join(" ")
}

/// A different number in each call.
pub fn random() -> u64 {
    RandomState::new().hash_one(())
}
