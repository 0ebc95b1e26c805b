//! How far a pull is: drawn for who sits at a terminal, and for nobody else.

use crate::registry::server::{Server, good, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a component begins with (component model, `Binary.md`).
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
/// A custom section of 2 MiB: its number, its length as LEB128, and its name `x`.
const SECTION: &[u8] = &[0, 0x80, 0x80, 0x80, 0x01, 1, b'x'];
const SECTION_BYTES: usize = 2 << 20;
/// Of which the name takes two.
const NAME_BYTES: usize = 2;
/// Of a bar: how much there is to move, and how fast it moves.
const OF_ALL: &str = "/2.00 MiB ";
const SPEED: &str = "B/s";
/// Takes a line away (ECMA-48, "EL").
const CLEARS: &str = "\u{1b}[2K";

/// A component that takes long enough to be looked at, or not.
fn pushed(server: &Server, name: &str, is_large: bool) -> String {
    let mut wasm = COMPONENT.to_vec();
    if is_large {
        wasm.extend(SECTION);
        wasm.resize(wasm.len() + SECTION_BYTES - NAME_BYTES, 0);
    }
    let file = server.path().join(name);
    fs::write(&file, wasm).unwrap();
    let reference = server.reference(&format!("storage/{name}:1"));
    good(&mut server.wasmount(&["push", text(&file), &reference]));
    reference
}

/// All that `wasmount pull` shows on a terminal of its own.
fn pull_on_a_terminal(server: &Server, reference: &str, output: &Path) -> String {
    let pull = server.wasmount(&["pull", reference, "-o", text(output)]);
    let words: Vec<_> = std::iter::once(pull.get_program())
        .chain(pull.get_args())
        .map(|word| word.to_str().unwrap())
        .collect();
    let shown = Command::new("script")
        .args(["--quiet", "--flush", "--return", "--command"])
        .arg(words.join(" "))
        .arg("/dev/null")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.success(), "{said}");
    said
}

fn output(server: &Server) -> PathBuf {
    server.path().join("out.wasm")
}

#[test]
fn a_pull_on_a_terminal_draws_how_far_it_is() {
    let server = Server::start();
    let reference = pushed(&server, "large", true);
    let output = output(&server);
    let shown = pull_on_a_terminal(&server, &reference, &output);
    assert!(shown.contains(OF_ALL) && shown.contains(SPEED), "{shown}");
    // What is said in the end stands where the bar was.
    let (_, said) = shown.rsplit_once(CLEARS).unwrap();
    let lines: Vec<_> = said.lines().collect();
    let [name, digest] = lines.as_slice() else {
        panic!("{shown:?}");
    };
    assert!(name.trim_start().starts_with("oci://"), "{shown:?}");
    assert!(digest.starts_with("sha256:"), "{shown:?}");
    let whole = COMPONENT.len() + SECTION.len() + SECTION_BYTES - NAME_BYTES;
    assert_eq!(fs::read(&output).unwrap().len(), whole);
}

#[test]
fn no_progress_bar_without_terminal_or_for_quick_work() {
    let server = Server::start();
    let large = pushed(&server, "large", true);
    let output = output(&server);
    // That standard error is empty is looked at too.
    let said = good(&mut server.wasmount(&["pull", &large, "-o", text(&output)]));
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(!said.contains(SPEED), "{said}");
    let small = pushed(&server, "small", false);
    let shown = pull_on_a_terminal(&server, &small, &output);
    assert!(
        shown.contains("@sha256:") && !shown.contains(SPEED),
        "{shown}"
    );
}
