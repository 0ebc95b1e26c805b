//! What this plugin does wrong, by name: a table a kind. The tables are also what the plugin says of itself, so that a test can hold itself to all of
//! it.

pub mod answers;
pub mod deletions;
pub mod effects;
pub mod plans;
pub mod resources;
pub mod secrets;
pub mod state;

use crate::{identity, migration, setting};
use std::hash::{BuildHasher, RandomState};
use wasmount_guest::{Attributes, Error};

/// Names, and what each does.
pub type Table<F> = &'static [(&'static str, F)];

/// What can be done in any call.
pub type Deed = fn() -> Result<(), Error>;

/// Does what is named, if it can be done in any call: by the call, or by the setting `every-call` of a version that is admitted and then fails
/// at everything.
pub fn begin(name: &str) -> Result<(), Error> {
    let every = setting("every-call");
    let name = if every.is_empty() { name } else { &every };
    let tables = [
        resources::DEEDS,
        state::DEEDS,
        effects::DEEDS,
        secrets::DEEDS,
        answers::ERRORS,
        plans::OUTSIDE,
    ];
    match tables.into_iter().find_map(|table| find(table, name)) {
        Some(deed) => deed(),
        None => Ok(()),
    }
}

/// Spoils an answer as named.
pub fn spoil<T>(table: Table<fn(&mut T)>, name: &str, mut answer: T) -> T {
    if let Some(spoil) = find(table, name) {
        spoil(&mut answer);
    }
    answer
}

/// What a name means.
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

/// In one line.
pub fn names<F>(table: Table<F>) -> String {
    let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
    names.join(" ")
}

/// Another number in each call.
pub fn random() -> u64 {
    RandomState::new().hash_one(())
}
