//! Reads facts of the node that it may not read, or that there are not.

use super::{Deed, Table};
use wasmount_guest::node_facts;

pub const DEEDS: Table<Deed> = &[
    ("fact-of-controller", || node_facts::zone().map(drop)),
    ("fact-not-granted", || node_facts::zone().map(drop)),
    ("fact-unknown", || node_facts::get("iqn\u{1b}").map(drop)),
];
