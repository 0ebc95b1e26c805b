//! What a component says of itself: its imports and exports, and what its author wrote into it. Apart because it goes into artifacts for people
//! and catalogues; whether the component may serve is decided from its code, elsewhere.

use std::fmt::Display;
use wasm_metadata::Metadata;
use wasmount_artifact::{Annotations, ComponentFacts};
use wasmparser::{Encoding, Parser, Payload};

/// The keys of OCI's annotations (image specification 1.1, "Pre-Defined Annotation Keys").
const TITLE: &str = "org.opencontainers.image.title";
const VERSION: &str = "org.opencontainers.image.version";
const DESCRIPTION: &str = "org.opencontainers.image.description";
const LICENSES: &str = "org.opencontainers.image.licenses";
const SOURCE: &str = "org.opencontainers.image.source";
const URL: &str = "org.opencontainers.image.url";
const REVISION: &str = "org.opencontainers.image.revision";
const AUTHORS: &str = "org.opencontainers.image.authors";

/// What all WebAssembly begins with (core specification, "Modules").
const MAGIC: &[u8] = b"\0asm";

/// Deepest nesting that is read. A component of components of modules has three; the library that reads what authors wrote makes a tree of
/// what it finds, and takes it apart level by level on the stack.
const NESTING: usize = 64;

/// Why bytes are no component.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAComponent {
    /// Another kind of file.
    #[error(
        "it is not WebAssembly, which begins with the bytes `\\0asm`; name the file that the toolchain made"
    )]
    NotWasm,
    /// Not whole, or of no form that is known.
    #[error("it is not WebAssembly, or not whole: {0}")]
    Malformed(String),
    /// A module.
    #[error(
        "it is a core module, not a component; make one of it with `wasm-tools component new`, or build it for the target wasm32-wasip2"
    )]
    Module,
    /// Made to break whoever reads it.
    #[error(
        "it has components or modules more than {NESTING} deep in one another, which no toolchain makes and no host compiles; build it anew"
    )]
    TooDeep,
}

/// Whether it lies no deeper in itself than anybody reads: for whoever hands it to a library that goes down level by level. That it is well-formed is
/// not said.
pub(crate) fn is_flat_enough(wasm: &[u8]) -> Result<(), NotAComponent> {
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload {
            Ok(Payload::ModuleSection { .. } | Payload::ComponentSection { .. }) => {
                depth += 1;
                if depth > NESTING {
                    return Err(NotAComponent::TooDeep);
                }
            }
            Ok(Payload::End(_)) => depth = depth.saturating_sub(1),
            Ok(_) => {}
            // Whoever reads on says what is wrong there.
            Err(_) => break,
        }
    }
    Ok(())
}

/// Reads them. They are the component's alone, so that its bytes are one artifact, whatever the file is called that they lie in.
pub(crate) fn facts(wasm: &[u8]) -> Result<ComponentFacts, NotAComponent> {
    let malformed = |error: &dyn Display| NotAComponent::Malformed(error.to_string());
    if !wasm.starts_with(MAGIC) {
        return Err(NotAComponent::NotWasm);
    }
    is_flat_enough(wasm)?;
    let mut facts = ComponentFacts::default();
    // How deep we are: only what the outermost says is the component's own word.
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.map_err(|error| malformed(&error))? {
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } if depth == 0 => {
                return Err(NotAComponent::Module);
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let import = import.map_err(|error| malformed(&error))?;
                    facts.imports.push(import.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    let export = export.map_err(|error| malformed(&error))?;
                    facts.exports.push(export.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    let read = wasm_metadata::Payload::from_binary(wasm).map_err(|error| malformed(&error))?;
    let metadata = read.metadata();
    facts.author = metadata.authors.as_ref().map(ToString::to_string);
    facts.annotations = annotations(metadata);
    Ok(facts)
}

fn annotations(metadata: &Metadata) -> Annotations {
    let Metadata {
        name,
        producers: _,
        authors,
        description,
        licenses,
        source,
        homepage,
        revision,
        version,
        range: _,
        dependencies: _,
    } = metadata;
    [
        (TITLE, name.clone()),
        (VERSION, text(version)),
        (DESCRIPTION, text(description)),
        (LICENSES, text(licenses)),
        (SOURCE, text(source)),
        (URL, text(homepage)),
        (REVISION, text(revision)),
        (AUTHORS, text(authors)),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key.to_owned(), value?)))
    .collect()
}

fn text(value: &Option<impl Display>) -> Option<String> {
    value.as_ref().map(ToString::to_string)
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
    fn only_what_the_outermost_component_says_is_its_word() {
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
        let wanted = [(TITLE, "a title"), (VERSION, "1.2.3"), (AUTHORS, "Ann")];
        let wanted = wanted.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(facts.annotations, Annotations::from(wanted));
    }

    #[test]
    fn what_lies_too_deep_in_one_another_is_refused_before_anything_is_made_of_it() {
        assert!(facts(&nested(NESTING)).is_ok());
        for depth in [NESTING + 1, 10_000] {
            let refused = facts(&nested(depth)).unwrap_err();
            assert!(matches!(refused, NotAComponent::TooDeep), "{refused}");
        }
    }

    /// Components in one another, the innermost empty.
    fn nested(depth: usize) -> Vec<u8> {
        const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";
        let mut component = EMPTY.to_vec();
        for _ in 0..depth {
            let mut outer = EMPTY.to_vec();
            // A section that holds a component (component model, `Binary.md`), and its length, in LEB128.
            outer.push(4);
            let mut length = component.len();
            while length >= 0x80 {
                outer.push((length & 0x7f) as u8 | 0x80);
                length >>= 7;
            }
            outer.push(length as u8);
            outer.extend(component);
            component = outer;
        }
        component
    }

    #[test]
    fn what_is_no_component_is_refused() {
        let said = |wasm: &[u8]| facts(wasm).unwrap_err().to_string();
        assert!(said(b"\0asm\x01\0\0\0").starts_with("it is a core module"));
        // Not the list of bytes that the library would have liked better.
        for other in [&b""[..], b"\0as", b"#!/bin/sh"] {
            let expected = "it is not WebAssembly, which begins with the bytes `\\0asm`; name the file that the toolchain made";
            assert_eq!(said(other), expected);
        }
        assert!(said(&NESTED[..20]).starts_with("it is not WebAssembly, or not whole"));
    }
}
