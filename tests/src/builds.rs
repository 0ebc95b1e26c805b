//! Builds of one plugin that differ in their bytes alone, for swaps by an administrator. A custom section is added, which every engine ignores
//! (component model, `Binary.md`).

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use xtask::failure::Failure;
use xtask::workspace::Workspace;

/// Name of the section, and the number of a custom section.
const SECTION: &[u8] = b"build";
const CUSTOM: u8 = 0;

/// Bits of a byte that count in a LEB128 number.
const SEVEN_BITS: usize = 0x7f;

/// The bytes of a plugin as built, marked as another build.
pub fn build_of(plugin: &str, mark: &str) -> Result<Vec<u8>, Failure> {
    let component = Workspace::locate()?.component(plugin);
    let mut wasm =
        fs::read(&component).map_err(Failure::cannot(format!("read {}", component.display())))?;
    mark_as(&mut wasm, mark);
    Ok(wasm)
}

/// Writes such a build to the file that a document names, as a careful administrator does: to a new file, then renamed.
pub fn put(build: &[u8], to: &Path) -> Result<(), Failure> {
    let mut aside = to.as_os_str().to_owned();
    aside.push(".coming");
    let aside = PathBuf::from(aside);
    fs::write(&aside, build)
        .and_then(|()| fs::rename(&aside, to))
        .map_err(Failure::cannot(format!("replace {}", to.display())))
}

/// Writes it in pieces over the existing file, as `cp` does: for a moment the file is incomplete.
pub fn put_in_pieces(build: &[u8], to: &Path, pieces: usize) -> Result<(), Failure> {
    let failed = || Failure::cannot(format!("write {}", to.display()));
    let mut file = fs::File::create(to).map_err(failed())?;
    for piece in build.chunks(build.len().div_ceil(pieces.max(1))) {
        file.write_all(piece).map_err(failed())?;
    }
    Ok(())
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
    fn a_mark_is_a_custom_section_at_the_end() {
        let mut wasm = b"\0asm".to_vec();
        mark_as(&mut wasm, "two");
        assert_eq!(wasm, b"\0asm\x00\x09\x05buildtwo");
    }
}
