//! The reference of the contract is what the contract says, function by function.

use std::fs;
use xtask::workspace::Workspace;
use xtask_guests::contract::{reference, reference_path};

/// The fewest functions that the contract has: fewer were misread.
const FUNCTIONS: usize = 60;
/// Before the RPCs that a function serves.
const RPCS: &str = "- **RPC:** ";

#[test]
fn the_reference_is_generated_from_the_contract() {
    let workspace = Workspace::locate().unwrap();
    let wit = fs::read_to_string(workspace.contract_file()).unwrap();
    let written = fs::read_to_string(reference_path(&workspace)).unwrap();
    assert!(
        written == reference(&wit).unwrap(),
        "docs/contract.md is not that of guest-sdk/wit/wasmount.wit: run `cargo xtask contract`"
    );
}

#[test]
fn every_function_of_the_contract_names_its_rpcs() {
    let workspace = Workspace::locate().unwrap();
    let page = fs::read_to_string(reference_path(&workspace)).unwrap();
    let rpcs = page.lines().filter_map(|line| line.strip_prefix(RPCS));
    let rpcs: Vec<_> = rpcs.collect();
    assert!(rpcs.len() >= FUNCTIONS, "{}", rpcs.len());
    let silent: Vec<_> = rpcs.iter().filter(|it| it.len() < 5).collect();
    assert!(silent.is_empty(), "{silent:?}");
}
