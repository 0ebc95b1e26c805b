//! The table of `docs/security.md` against the tests that it names: a fault whose test is gone, or was never written, is not replayed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use xtask::workspace::Workspace;

/// The table.
const TABLE: &str = "docs/security.md";
/// Stands in the table where a test is still to be written.
const TO_DO: &str = "TODO-TEST";
/// The fewest tests that the table can name: as many as it has rows. Fewer were misread.
const ROWS: usize = 30;

/// The words between backquotes that name a test: `file::function`.
fn named(table: &str) -> BTreeSet<(&str, &str)> {
    table
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|word| word.split_once("::"))
        .filter(|(file, _)| file.ends_with(".rs"))
        .collect()
}

/// Whether a file has a test of this name: a function with the attribute that makes it one.
fn has_test(text: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let names = [format!("fn {function}("), format!("async fn {function}(")];
    lines.iter().enumerate().any(|(at, line)| {
        names.iter().any(|name| line.starts_with(name))
            && lines[..at]
                .iter()
                .rev()
                .take_while(|above| above.starts_with("#[") || above.starts_with("///"))
                .any(|above| above.starts_with("#[test]") || above.starts_with("#[tokio::test"))
    })
}

fn missing(root: &Path, table: &str) -> Vec<String> {
    named(table)
        .into_iter()
        .filter(|(file, function)| {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            !has_test(&text, function)
        })
        .map(|(file, function)| format!("{file}::{function}"))
        .collect()
}

#[test]
fn every_test_that_the_security_table_names_is_there() {
    let root = Workspace::locate().unwrap().root().to_owned();
    let table = fs::read_to_string(root.join(TABLE)).unwrap();
    assert!(named(&table).len() >= ROWS, "{:?}", named(&table));
    let missing = missing(&root, &table);
    assert!(missing.is_empty(), "{TABLE} names no tests: {missing:#?}");
}

#[test]
fn every_row_of_the_security_table_has_a_test() {
    let root = Workspace::locate().unwrap().root().to_owned();
    let table = fs::read_to_string(root.join(TABLE)).unwrap();
    let rows: Vec<_> = table
        .lines()
        .filter(|line| line.starts_with("| "))
        .collect();
    let heads = |row: &&&str| row.starts_with("| ---") || row.trim_end().ends_with("| test |");
    let bare: Vec<_> = rows
        .iter()
        .filter(|row| !heads(row) && (named(row).is_empty() || row.contains(TO_DO)))
        .collect();
    assert!(bare.is_empty(), "write tests for these: {bare:#?}");
}

#[test]
fn only_a_function_that_is_a_test_counts() {
    let text = "/// Words.\n#[test]\n#[ignore]\nfn a() {\n#[tokio::test(flavor = \"x\")]\n    async fn b() {\nfn c() {\n";
    assert!(has_test(text, "a") && has_test(text, "b"));
    assert!(!has_test(text, "c") && !has_test(text, "d"));
    let table = "| `x/y.rs::a`, `mount/plan` and `b::c` | `z.rs::d` |";
    assert_eq!(
        named(table).into_iter().collect::<Vec<_>>(),
        [("x/y.rs", "a"), ("z.rs", "d")]
    );
}
