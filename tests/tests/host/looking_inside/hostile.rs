//! Files that are no plugins, or hostile ones: each is answered with a message, by both commands, within bounds.

use crate::looking_inside::program::{Bench, Told, component, text};
use std::fs::{self, File};
use std::process::Command;

/// What the command may take of memory for a file that it refuses, in bytes: eight times the largest component that is read.
const MEMORY_BYTES: u64 = 512 << 20;
/// Of a truncated file, bytes from one length to the next.
const STEP: usize = 1024;
/// How deep components lie in one another.
const NESTING: usize = 20_000;
/// The same for a look at every command: one that is compiled if nothing is counted, and one that exhausts the stack of a recursive walk.
const DEEP: [usize; 2] = [10_000, 300_000];

/// What a component begins with.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
/// Section of a component that holds a component (component model, `Binary.md`).
const NESTED_COMPONENT: u8 = 4;

/// Refused with 1, in words, without a trace of a bug.
#[track_caller]
fn assert_refused(told: &Told, part: &str) {
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.err.contains(part), "{part}: {told:?}");
    assert!(!told.err.contains("panicked"), "{told:?}");
    assert_eq!(told.out, "", "{told:?}");
}

#[test]
fn each_command_rejects_what_is_no_component() {
    let bench = Bench::new();
    let zeros = bench.path("zeros");
    File::create(&zeros).unwrap().set_len(100 << 20).unwrap();
    let pipe = bench.path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let folder = bench.path("folder");
    fs::create_dir(&folder).unwrap();
    for (file, part) in [
        (bench.path("missing.wasm"), "No such file or directory"),
        (bench.file("empty", ""), "is an empty file"),
        (
            bench.file("core.wasm", b"\0asm\x01\0\0\0"),
            "is a core module, not a component",
        ),
        (
            bench.file("compiled.cwasm", b"\x7fELF\x02\x01\x01\0"),
            "compiled code (.cwasm) is not accepted",
        ),
        (bench.file("text", "(component)"), "is not WebAssembly"),
        (zeros, "is larger than 67108864 bytes"),
        (pipe, "is not a file"),
        (folder, "is not a file"),
    ] {
        let file = text(&file);
        assert_refused(&bench.run_within(MEMORY_BYTES, &["inspect", file]), part);
        assert_refused(
            &bench.run_within(MEMORY_BYTES, &["call", file, "Probe"]),
            part,
        );
    }
}

#[test]
fn a_component_that_ends_early_is_refused_wherever_it_ends() {
    let bench = Bench::new();
    let whole = fs::read(component("directory")).unwrap();
    let lengths: Vec<_> = (0..whole.len()).step_by(STEP).collect();
    // An empty walk must not pass for a refusal.
    assert!(lengths.len() > 50, "{} bytes", whole.len());
    for length in lengths {
        let file = bench.file("short.wasm", &whole[..length]);
        let told = bench.run(&["inspect", text(&file)]);
        match (length, told.code) {
            (0, _) => assert_refused(&told, "is an empty file"),
            // Cut between two sections it is whole, and no plugin.
            (_, Some(0)) => assert!(told.out.contains("this host would refuse it"), "{told:?}"),
            _ => assert_refused(&told, "the component does not compile"),
        }
    }
}

#[test]
fn components_deep_in_one_another_are_answered() {
    let bench = Bench::new();
    let file = bench.file("deep.wasm", nested(NESTING));
    for words in [
        &["inspect", text(&file)][..],
        &["inspect", text(&file), "--wit"],
        &["call", text(&file), "Probe"],
    ] {
        assert_refused(&bench.run_within(MEMORY_BYTES, words), "component");
    }
}

#[test]
fn deeply_nested_components_are_rejected_by_each_command() {
    for depth in DEEP {
        refused_by_each_command(depth);
    }
}

fn refused_by_each_command(depth: usize) {
    let bench = Bench::new();
    let file = bench.file("deep.wasm", nested(depth));
    let file = text(&file);
    let document = bench.document(file.as_ref(), "");
    let bundle = bench.path("deep.tar");
    // Nothing listens there, and nothing is called: what is refused is refused before.
    let registry = "oci://127.0.0.1:1/storage/nas:1";
    let too_deep = "it has components or modules more than 64 deep in one another";
    let uncompiled = format!("the component does not compile: {too_deep}");
    for (words, part) in [
        (&["push", file, registry, "--plain-http"][..], too_deep),
        (&["save", file, "-o", text(&bundle)], too_deep),
        (&["inspect", file], uncompiled.as_str()),
        (&["inspect", file, "--wit"], uncompiled.as_str()),
        (&["call", file, "Probe"], uncompiled.as_str()),
    ] {
        assert_refused(&bench.run_within(MEMORY_BYTES, words), part);
    }
    assert!(!bundle.exists());
    let words = ["check", file, "--backend", text(&document), "--json"];
    let told = bench.run_within(MEMORY_BYTES, &words);
    assert_eq!(told.code, Some(1), "{told:?}");
    let checked = told.json();
    assert_eq!(checked["kind"], "compile", "{checked:#}");
}

#[test]
fn a_component_of_another_world_is_described() {
    let bench = Bench::new();
    let file = bench.file("stranger.wasm", COMPONENT);
    let told = bench.run(&["inspect", text(&file)]).well();
    for part in [
        "contract   wasmount:csi/* none; this host speaks 0.1\n",
        "this host would refuse it\n",
        "does not export `wasmount:csi/identity`",
    ] {
        assert!(told.out.contains(part), "{part}: {}", told.out);
    }
    assert_refused(
        &bench.run(&["call", text(&file), "Probe"]),
        "does not export `wasmount:csi/identity`",
    );
}

/// Components in one another, the innermost empty.
fn nested(depth: usize) -> Vec<u8> {
    // Back to front: each is the end of the one around it.
    let mut reversed: Vec<u8> = COMPONENT.iter().rev().copied().collect();
    for _ in 0..depth {
        let mut size = leb128(reversed.len());
        size.reverse();
        reversed.extend(size);
        reversed.push(NESTED_COMPONENT);
        reversed.extend(COMPONENT.iter().rev());
    }
    reversed.reverse();
    reversed
}

fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}
