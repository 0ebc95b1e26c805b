//! Builds of one plugin that differ in their bytes alone, for swaps by an administrator. A custom section is added, which every engine ignores
//! (component model, `Binary.md`); or one function traps.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use wasmparser::{BinaryReaderError, ExternalKind, Parser, Payload, TypeRef};
use xtask::failure::Failure;
use xtask::files;
use xtask::workspace::Workspace;

/// Name of the section, and the number of a custom section.
const SECTION: &[u8] = b"build";
const CUSTOM: u8 = 0;

/// Instructions without operands (WebAssembly specification, "Instructions").
const UNREACHABLE: u8 = 0x00;
const NOP: u8 = 0x01;
const END: u8 = 0x0b;

/// Bits of a byte that count in a LEB128 number.
const SEVEN_BITS: usize = 0x7f;

/// The bytes of a plugin as built, marked as another build.
pub fn build_of(plugin: &str, mark: &str) -> Result<Vec<u8>, Failure> {
    let mut wasm = built(plugin)?;
    mark_as(&mut wasm, mark);
    Ok(wasm)
}

/// The same plugin, except that an exported function traps in each call: `wasmount:csi/controller@0.1.0#create-volume`.
pub fn build_that_traps(plugin: &str, function: &str) -> Result<Vec<u8>, Failure> {
    let mut wasm = built(plugin)?;
    let failed = format!("find {function} in {plugin}");
    let bodies = bodies_of(&wasm, function).map_err(Failure::cannot(&failed))?;
    let [body] = &bodies[..] else {
        return Err(Failure::Unexpected(format!(
            "cannot {failed}: {} modules export it",
            bodies.len()
        )));
    };
    // As long as before, so that nothing else moves. What follows `unreachable` is valid whatever the function returns.
    if let Some([first, middle @ .., last]) = wasm.get_mut(body.clone()) {
        *first = UNREACHABLE;
        middle.fill(NOP);
        *last = END;
    }
    Ok(wasm)
}

fn built(plugin: &str) -> Result<Vec<u8>, Failure> {
    files::read(&Workspace::locate()?.component(plugin))
}

/// Writes such a build to the file that a document names, as a careful administrator does: to a new file, then renamed.
pub fn put(build: &[u8], to: &Path) -> Result<(), Failure> {
    files::complete(to, |aside| files::write(aside, build))
}

/// Writes it in pieces over the existing file, as `cp` does: for a moment the file is incomplete.
pub fn put_in_pieces(build: &[u8], to: &Path, pieces: usize) -> Result<(), Failure> {
    let failed = || Failure::cannot(format!("write {}", to.display()));
    let mut file = File::create(to).map_err(failed())?;
    for piece in build.chunks(build.len().div_ceil(pieces.max(1))) {
        file.write_all(piece).map_err(failed())?;
    }
    Ok(())
}

/// Where the instructions are of functions that modules of a component export under this name.
fn bodies_of(wasm: &[u8], name: &str) -> Result<Vec<Range<usize>>, BinaryReaderError> {
    let mut found = Vec::new();
    // Functions of a module: imported ones first, then those with a body.
    let (mut functions, mut wanted) = (0, None);
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::Version { .. } => (functions, wanted) = (0, None),
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let is_function = matches!(import?.ty, TypeRef::Func(_));
                    functions += u32::from(is_function);
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    let export = export?;
                    if export.kind == ExternalKind::Func && export.name == name {
                        wanted = Some(export.index);
                    }
                }
            }
            Payload::CodeSectionEntry(body) => {
                if wanted == Some(functions) {
                    let instructions = body.get_operators_reader()?;
                    found.push(instructions.original_position()..body.range().end);
                }
                functions += 1;
            }
            _ => {}
        }
    }
    Ok(found)
}

fn mark_as(wasm: &mut Vec<u8>, mark: &str) {
    let mut section = Vec::new();
    number(&mut section, SECTION.len());
    section.extend_from_slice(SECTION);
    section.extend_from_slice(mark.as_bytes());
    wasm.push(CUSTOM);
    number(wasm, section.len());
    wasm.extend(section);
}

/// Unsigned LEB128 (WebAssembly specification, "Integers").
pub fn number(to: &mut Vec<u8>, mut value: usize) {
    loop {
        let low = u8::try_from(value & SEVEN_BITS).unwrap_or_default();
        value >>= 7;
        if value == 0 {
            to.push(low);
            return;
        }
        to.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_as_webassembly_writes_it() {
        for (value, bytes) in [
            (0, vec![0x00]),
            (127, vec![0x7f]),
            (128, vec![0x80, 0x01]),
            (624_485, vec![0xe5, 0x8e, 0x26]),
        ] {
            let mut written = Vec::new();
            number(&mut written, value);
            assert_eq!(written, bytes);
        }
    }

    #[test]
    fn only_the_body_of_the_exported_function_is_found() {
        // Two functions of type `() -> ()`: one is exported as `f`, and has a local.
        let wasm = [
            &b"\0asm\x01\0\0\0"[..],
            b"\x01\x04\x01\x60\0\0",
            b"\x03\x03\x02\0\0",
            b"\x07\x05\x01\x01f\0\x01",
            b"\x0a\x0a\x02\x02\0\x0b\x05\x01\x01\x7f\x01\x0b",
        ];
        let wasm = wasm.concat();
        let end = wasm.len();
        let found = bodies_of(&wasm, "f").unwrap();
        assert_eq!(found, std::slice::from_ref(&(end - 2..end)));
        assert!(bodies_of(&wasm, "g").unwrap().is_empty());
    }

    #[test]
    fn a_mark_is_a_custom_section_at_the_end() {
        let mut wasm = b"\0asm".to_vec();
        mark_as(&mut wasm, "two");
        assert_eq!(wasm, b"\0asm\x00\x09\x05buildtwo");
    }
}
