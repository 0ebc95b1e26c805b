//! Names of a component's imports and exports, bounded where they enter the host, and read without compiling it.

use crate::error::{EngineError, describe};
use wasmparser::{Chunk, Parser, Payload};

/// Most imports, and most exports. The contract and WASI together have some sixty.
const NAMES: usize = 512;
/// Longest name, in bytes. The longest of the contract and of WASI has 41.
const NAME_BYTES: usize = 256;
/// Most sections of a component, without those nested in it. A component in Python has some 200.
const SECTIONS: usize = 1 << 16;

/// The imports and exports of a component, such as `wasmount:csi/state@0.1.0`, as its bytes declare them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Of its imports.
    pub imports: Vec<String>,
    /// Of its exports.
    pub exports: Vec<String>,
}

impl Names {
    /// Reads them from the outermost component, and skips what is nested in it: it takes less than a millisecond, while compiling takes seconds.
    /// Only compiling checks whether the rest is well-formed.
    pub fn read(wasm: &[u8]) -> Result<Self, EngineError> {
        let (mut imports, mut exports) = (Vec::new(), Vec::new());
        let mut parser = Parser::new(0);
        let mut rest = wasm;
        for _ in 0..SECTIONS {
            let Chunk::Parsed { consumed, payload } =
                parser.parse(rest, true).map_err(|it| malformed(&it))?
            else {
                break;
            };
            let mut read = consumed;
            match payload {
                Payload::ModuleSection {
                    unchecked_range, ..
                }
                | Payload::ComponentSection {
                    unchecked_range, ..
                } => read = read.saturating_add(unchecked_range.len()),
                Payload::ComponentImportSection(section) => {
                    for import in section {
                        let name = import.map_err(|it| malformed(&it))?.name.name;
                        add(&mut imports, name)?;
                    }
                }
                Payload::ComponentExportSection(section) => {
                    for export in section {
                        let name = export.map_err(|it| malformed(&it))?.name.name;
                        add(&mut exports, name)?;
                    }
                }
                Payload::End(_) => return Ok(Self { imports, exports }),
                _ => {}
            }
            rest = rest.get(read..).ok_or_else(|| {
                EngineError::Compile("its last section is longer than the file".to_owned())
            })?;
        }
        Err(EngineError::Compile(format!(
            "it has more than {SECTIONS} sections, which no toolchain creates; build it again"
        )))
    }
}

fn malformed(error: &wasmparser::BinaryReaderError) -> EngineError {
    EngineError::Compile(describe(error))
}

/// The names, or the error that there are too many or too long ones.
pub(crate) fn bounded<'a>(
    names: impl Iterator<Item = &'a str>,
) -> Result<Vec<String>, EngineError> {
    let mut bounded = Vec::new();
    for name in names {
        add(&mut bounded, name)?;
    }
    Ok(bounded)
}

fn add(names: &mut Vec<String>, name: &str) -> Result<(), EngineError> {
    if name.len() > NAME_BYTES || names.len() == NAMES {
        return Err(EngineError::Compile(format!(
            "it has more than {NAMES} imports or exports, or one whose name is longer than {NAME_BYTES} bytes; build it with the SDK of this host"
        )));
    }
    names.push(name.to_owned());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_within_their_bounds_are_taken_and_others_refused() {
        let long = "n".repeat(NAME_BYTES);
        let taken = bounded([long.as_str(), "b"].into_iter());
        assert_eq!(taken.unwrap(), [long.as_str(), "b"]);
        let too_long = "n".repeat(NAME_BYTES + 1);
        assert!(bounded([too_long.as_str()].into_iter()).is_err());
        assert_eq!(
            bounded(std::iter::repeat_n("n", NAMES)).unwrap().len(),
            NAMES
        );
        let refused = bounded(std::iter::repeat_n("n", NAMES + 1)).unwrap_err();
        assert!(
            refused.to_string().contains("more than 512 imports"),
            "{refused}"
        );
    }

    /// `(component (import "a" (func)) (component (import "hidden" (func))) (export "b" (func 0)))`
    const NESTED: &[u8] = b"\0asm\x0d\0\x01\0\
        \x07\x05\x01\x40\0\x01\0\
        \x0a\x06\x01\0\x01a\x01\0\
        \x04\x1c\0asm\x0d\0\x01\0\x07\x05\x01\x40\0\x01\0\x0a\x0b\x01\0\x06hidden\x01\0\
        \x0b\x07\x01\0\x01b\x01\0\0";

    #[test]
    fn names_of_the_outermost_component_are_read() {
        let names = Names::read(NESTED).unwrap();
        assert_eq!(names.imports, ["a"]);
        assert_eq!(names.exports, ["b"]);
    }

    #[test]
    fn a_component_that_is_cut_off_has_no_names() {
        for end in 0..NESTED.len() {
            // At the end of a section the component may end, too.
            let Err(refused) = Names::read(&NESTED[..end]) else {
                assert!([8, 15, 23, 53].contains(&end), "{end}");
                continue;
            };
            assert!(matches!(refused, EngineError::Compile(_)), "{refused}");
        }
    }

    #[test]
    fn a_component_of_too_many_sections_is_refused() {
        let sections = |count: usize| {
            // A custom section with an empty name.
            let empty = [0, 1, 0].repeat(count);
            [b"\0asm\x0d\0\x01\0", &empty[..]].concat()
        };
        // One for the header, and one for the end.
        assert!(Names::read(&sections(SECTIONS - 2)).is_ok());
        let refused = Names::read(&sections(SECTIONS - 1)).unwrap_err();
        assert!(refused.to_string().contains("65536 sections"), "{refused}");
    }
}
