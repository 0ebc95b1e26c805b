//! What a component declares: its imports and exports, and its author's metadata.

use std::fmt::Display;
use wasm_metadata::Metadata;
use wasmount_artifact::{Annotations, ComponentFacts, TITLE};
use wasmount_core::text::shortened;
use wasmount_engine::{EngineError, Names};
use wasmparser::{Encoding, Parser, Payload};

/// The keys of OCI's annotations (image specification 1.1, "Pre-Defined Annotation Keys").
const VERSION: &str = "org.opencontainers.image.version";
const DESCRIPTION: &str = "org.opencontainers.image.description";
const LICENSES: &str = "org.opencontainers.image.licenses";
const SOURCE: &str = "org.opencontainers.image.source";
const URL: &str = "org.opencontainers.image.url";
const REVISION: &str = "org.opencontainers.image.revision";
const AUTHORS: &str = "org.opencontainers.image.authors";

/// The magic bytes of all WebAssembly (core specification, "Modules").
const MAGIC: &[u8] = b"\0asm";

/// Deepest nesting that is read. A component of components of modules has three; the library that reads the author's metadata builds a tree of
/// it, and drops it recursively, level by level on the stack.
const NESTING: usize = 64;

/// Most bytes of types, imports and exports, of all modules and components in it together: they contain names, and a process that loads compiled
/// code holds each name several times. A plugin in Go has 40 kB of them.
const DECLARED_BYTES: usize = 4 << 20;
/// Longest text of the author's metadata, in bytes.
const TEXT_BYTES: usize = 2048;

/// Why bytes are not a component.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAComponent {
    /// Another kind of file.
    #[error(
        "it is not WebAssembly, which begins with the bytes `\\0asm`; name the file that the toolchain made"
    )]
    NotWasm,
    /// Truncated, or of an unknown form.
    #[error("it is not WebAssembly, or incomplete: {0}")]
    Malformed(String),
    /// A core module.
    #[error(
        "it is a core module, not a component; make one of it with `wasm-tools component new`, or build it for the target wasm32-wasip2"
    )]
    Module,
    /// Types, imports and exports exceed their limit.
    #[error(
        "its types, imports and exports take more than {DECLARED_BYTES} bytes, which no toolchain creates and no host compiles; build it again"
    )]
    DeclaresTooMuch,
    /// Too many names, or too long ones.
    #[error(transparent)]
    Names(#[from] EngineError),
    /// Nested too deeply; made to crash its readers.
    #[error(
        "it has components or modules more than {NESTING} deep in one another, which no toolchain creates and no host compiles; build it again"
    )]
    TooDeep,
}

/// Visits all parts of it, and of everything nested in it, within the bounds: `visit` receives each part with its depth.
pub(crate) fn walk<'w>(
    wasm: &'w [u8],
    mut visit: impl FnMut(usize, Payload<'w>) -> Result<(), NotAComponent>,
) -> Result<(), NotAComponent> {
    let (mut depth, mut declared) = (0_usize, 0_usize);
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(malformed)?;
        declared = declared.saturating_add(declared_bytes(&payload));
        if declared > DECLARED_BYTES {
            return Err(NotAComponent::DeclaresTooMuch);
        }
        let at = depth;
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NESTING {
            return Err(NotAComponent::TooDeep);
        }
        visit(at, payload)?;
    }
    Ok(())
}

/// Checks that it is nested no deeper, and declares no more, than libraries accept that recurse into each level, or keep each name. Those libraries
/// check whether it is well-formed.
pub(crate) fn check_bounds(wasm: &[u8]) -> Result<(), NotAComponent> {
    match walk(wasm, |_, _| Ok(())) {
        Err(NotAComponent::Malformed(_)) => Ok(()),
        walked => walked,
    }
}

fn malformed(error: impl Display) -> NotAComponent {
    NotAComponent::Malformed(error.to_string())
}

/// Bytes of a section that holds types or names of its own module or component.
fn declared_bytes(payload: &Payload<'_>) -> usize {
    let range = match payload {
        Payload::TypeSection(section) => section.range(),
        Payload::ImportSection(section) => section.range(),
        Payload::ExportSection(section) => section.range(),
        Payload::CoreTypeSection(section) => section.range(),
        Payload::InstanceSection(section) => section.range(),
        Payload::ComponentTypeSection(section) => section.range(),
        Payload::ComponentInstanceSection(section) => section.range(),
        Payload::ComponentAliasSection(section) => section.range(),
        Payload::ComponentImportSection(section) => section.range(),
        Payload::ComponentExportSection(section) => section.range(),
        _ => return 0,
    };
    range.end.saturating_sub(range.start)
}

/// Reads them. They depend on the component's bytes only, so that the same bytes are the same artifact whatever the file is called.
pub(crate) fn facts(wasm: &[u8]) -> Result<ComponentFacts, NotAComponent> {
    if !wasm.starts_with(MAGIC) {
        return Err(NotAComponent::NotWasm);
    }
    walk(wasm, |depth, payload| match payload {
        Payload::Version {
            encoding: Encoding::Module,
            ..
        } if depth == 0 => Err(NotAComponent::Module),
        _ => Ok(()),
    })?;
    let Names { imports, exports } = Names::read(wasm)?;
    let read = wasm_metadata::Payload::from_binary(wasm).map_err(malformed)?;
    let metadata = read.metadata();
    Ok(ComponentFacts {
        imports,
        exports,
        author: text(&metadata.authors),
        annotations: annotations(metadata),
    })
}

fn annotations(metadata: &Metadata) -> Annotations {
    [
        (TITLE, text(&metadata.name)),
        (VERSION, text(&metadata.version)),
        (DESCRIPTION, text(&metadata.description)),
        (LICENSES, text(&metadata.licenses)),
        (SOURCE, text(&metadata.source)),
        (URL, text(&metadata.homepage)),
        (REVISION, text(&metadata.revision)),
        (AUTHORS, text(&metadata.authors)),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key.to_owned(), value?)))
    .collect()
}

fn text(value: &Option<impl Display>) -> Option<String> {
    let text = value.as_ref().map(ToString::to_string)?;
    Some(shortened(text, TEXT_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(component (import "a" (func)) (component (import "hidden" (func))) (export "b" (func 0)))`
    const NESTED: &[u8] = b"\0asm\x0d\0\x01\0\
        \x07\x05\x01\x40\0\x01\0\
        \x0a\x06\x01\0\x01a\x01\0\
        \x04\x1c\0asm\x0d\0\x01\0\x07\x05\x01\x40\0\x01\0\x0a\x0b\x01\0\x06hidden\x01\0\
        \x0b\x07\x01\0\x01b\x01\0\0";

    #[test]
    fn only_facts_of_the_outermost_component_count() {
        let facts = facts(NESTED).unwrap();
        assert_eq!(facts.imports, ["a"]);
        assert_eq!(facts.exports, ["b"]);
        assert_eq!(facts.author, None);
        // It has no name, so it has no title.
        assert_eq!(facts.annotations, Annotations::new());
    }

    #[test]
    fn what_its_author_wrote_is_found() {
        use wasm_metadata::AddMetadata;
        let mut add = AddMetadata::default();
        add.name = wasm_metadata::AddMetadataField::Set("a title".to_owned());
        add.version = wasm_metadata::AddMetadataField::Set(wasm_metadata::Version::new("1.2.3"));
        add.authors = wasm_metadata::AddMetadataField::Set(wasm_metadata::Authors::new("Ann"));
        let facts = facts(&add.to_wasm(NESTED).unwrap()).unwrap();
        assert_eq!(facts.author.as_deref(), Some("Ann"));
        let expected = [(TITLE, "a title"), (VERSION, "1.2.3"), (AUTHORS, "Ann")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(facts.annotations, Annotations::from(expected));
    }

    #[test]
    fn documents_nested_too_deep_are_rejected_before_parsing() {
        assert!(facts(&nested(NESTING)).is_ok());
        for depth in [NESTING + 1, 10_000] {
            let refused = facts(&nested(depth)).unwrap_err();
            assert!(matches!(refused, NotAComponent::TooDeep), "{refused}");
        }
    }

    #[test]
    fn what_declares_too_much_is_refused_and_long_texts_are_cut() {
        use wasm_metadata::{AddMetadata, AddMetadataField, Authors};
        for (names, name_bytes, expected) in [
            (1, 256, None),
            (1, 257, Some("longer than 256 bytes")),
            (513, 8, Some("more than 512 imports or exports")),
            (50, 90_000, Some("take more than 4194304 bytes")),
        ] {
            let refused = facts(&importing(names, name_bytes)).err();
            let refused = refused.map(|refused| refused.to_string());
            match (&refused, expected) {
                (Some(refused), Some(text)) => assert!(refused.contains(text), "{refused}"),
                (refused, expected) => assert_eq!(refused.as_deref(), expected),
            }
        }
        let mut add = AddMetadata::default();
        add.authors = AddMetadataField::Set(Authors::new("a".repeat(TEXT_BYTES + 1)));
        let facts = facts(&add.to_wasm(NESTED).unwrap()).unwrap();
        assert_eq!(facts.author.unwrap().len(), TEXT_BYTES + "…".len());
    }

    /// A component that imports `names` functions, with names of this length.
    fn importing(names: usize, name_bytes: usize) -> Vec<u8> {
        let mut section = Vec::new();
        length_to(&mut section, names);
        for number in 0..names {
            // The name, and that it is a function of the first type.
            section.push(0);
            length_to(&mut section, name_bytes);
            let name = format!("a{number}");
            section.extend(format!("{name}{}", "a".repeat(name_bytes - name.len())).bytes());
            section.extend([1, 0]);
        }
        let mut component = NESTED[..15].to_vec();
        component.push(10);
        length_to(&mut component, section.len());
        component.extend(section);
        component
    }

    /// Writes a length in LEB128.
    fn length_to(bytes: &mut Vec<u8>, mut length: usize) {
        while length >= 0x80 {
            bytes.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
    }

    /// Components nested in one another, the innermost empty.
    fn nested(depth: usize) -> Vec<u8> {
        const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";
        let mut component = EMPTY.to_vec();
        for _ in 0..depth {
            let mut outer = EMPTY.to_vec();
            // A section that holds a component (component model, `Binary.md`), and its length.
            outer.push(4);
            length_to(&mut outer, component.len());
            outer.extend(component);
            component = outer;
        }
        component
    }

    #[test]
    fn what_is_no_component_is_refused() {
        let message = |wasm: &[u8]| facts(wasm).unwrap_err().to_string();
        assert!(message(b"\0asm\x01\0\0\0").starts_with("it is a core module"));
        // Not the list of bytes that the library would print.
        for other in [&b""[..], b"\0as", b"#!/bin/sh"] {
            let expected = "it is not WebAssembly, which begins with the bytes `\\0asm`; name the file that the toolchain made";
            assert_eq!(message(other), expected);
        }
        assert!(message(&NESTED[..20]).starts_with("it is not WebAssembly, or incomplete"));
    }
}
