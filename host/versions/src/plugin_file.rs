//! Checks that bytes are those that a document means, and a component. Signatures are checked between the two.

use crate::refusal::Refusal;
use sha2::{Digest, Sha256};
use wasmount_core::document::DIGEST_PREFIX;

/// Largest component: three times the largest that was measured, a Python one.
pub const PLUGIN_BYTES: u64 = 64 << 20;
/// The first bytes of every WebAssembly binary (component model, `Binary.md`): the magic number, then version and layer.
const MAGIC: &[u8] = b"\0asm";
const COMPONENT: &[u8] = &[0x0d, 0x00, 0x01, 0x00];
const CORE_MODULE: &[u8] = &[0x01, 0x00, 0x00, 0x00];

/// The bytes of a plugin with their digest, which is computed once.
#[derive(Debug, Clone)]
pub struct Component {
    wasm: Vec<u8>,
    digest: String,
}

impl Component {
    /// Computes the digest. For large files that takes a while, so it runs on another thread and delays no other call.
    pub async fn of(wasm: Vec<u8>) -> Result<Self, Refusal> {
        let counted = tokio::task::spawn_blocking(move || Self {
            digest: digest_of(&wasm),
            wasm,
        });
        // It fails only when the runtime shuts down.
        counted.await.map_err(|_| Refusal::Stopped)
    }

    /// Its bytes.
    pub fn wasm(&self) -> &[u8] {
        &self.wasm
    }

    /// Checks the digest against the document's; a document without a digest accepts any.
    pub fn check_digest(&self, expected: Option<&str>) -> Result<(), Refusal> {
        match expected {
            Some(expected) if expected != self.digest => Err(Refusal::OtherDigest {
                expected: expected.to_owned(),
                found: self.digest.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Its bytes, without the digest.
    pub fn into_wasm(self) -> Vec<u8> {
        self.wasm
    }

    /// Its digest, `sha256:..`, and its bytes.
    pub(crate) fn into_parts(self) -> (String, Vec<u8>) {
        (self.digest, self.wasm)
    }
}

/// Checks that bytes are a component at all.
pub fn check_kind(wasm: &[u8]) -> Result<(), Refusal> {
    match wasm.strip_prefix(MAGIC) {
        Some(rest) if rest.starts_with(COMPONENT) => Ok(()),
        Some(rest) if rest.starts_with(CORE_MODULE) => Err(Refusal::CoreModule),
        None if wasm.is_empty() => Err(Refusal::Empty),
        _ => Err(Refusal::NotWasm),
    }
}

/// `sha256:` and 64 hexadecimal digits.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    format!("{DIGEST_PREFIX}{}", hex::encode(Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    async fn empty_component() -> Component {
        Component::of(EMPTY_COMPONENT.to_vec()).await.unwrap()
    }

    #[tokio::test]
    async fn a_component_must_have_the_digest_of_the_document() {
        let component = empty_component().await;
        assert_eq!(component.wasm(), EMPTY_COMPONENT);
        check_kind(component.wasm()).unwrap();
        component.check_digest(None).unwrap();
        let expected = digest_of(EMPTY_COMPONENT);
        component.check_digest(Some(&expected)).unwrap();
    }

    #[test]
    fn what_is_no_component_is_refused() {
        for (bytes, expected) in [
            (&b"\0asm\x01\0\0\0"[..], "core module"),
            (b"\x7fELF\x02\x01\x01\0", "not WebAssembly"),
            (b"\0asm", "not WebAssembly"),
            (b"", "an empty file"),
        ] {
            let refusal = check_kind(bytes).unwrap_err().to_string();
            assert!(refusal.contains(expected), "{refusal}");
        }
    }

    #[tokio::test]
    async fn another_digest_is_refused() {
        let component = empty_component().await;
        let other = format!("sha256:{}", "0".repeat(64));
        let refusal = component.check_digest(Some(&other)).unwrap_err();
        assert!(matches!(refusal, Refusal::OtherDigest { expected, .. } if expected == other));
    }
}
