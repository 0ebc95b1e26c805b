//! The plugin's bytes in a file: found and bounded; and whether bytes are the ones that were meant, and a component.
//!
//! These are steps, each by itself: whose signatures a document wants is looked at between the digest and the kind.

use crate::refusal::Refusal;
use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use wasmount_core::document::{PluginPlace, PluginSource};

/// Largest component: three times the largest that was measured, a Python one.
pub const PLUGIN_BYTES: u64 = 64 << 20;
/// What every WebAssembly binary begins with (component model, `Binary.md`): the magic word, then version and layer.
const MAGIC: &[u8] = b"\0asm";
const COMPONENT: &[u8] = &[0x0d, 0x00, 0x01, 0x00];
const CORE_MODULE: &[u8] = &[0x01, 0x00, 0x00, 0x00];
const DIGEST_PREFIX: &str = "sha256:";
const DIGEST_DIGITS: usize = 64;

/// Bytes that a plugin may be, with their digest, which is counted once.
#[derive(Debug, Clone)]
pub struct Component {
    wasm: Vec<u8>,
    digest: String,
}

impl Component {
    /// Counts the digest. Of large bytes that takes a while, which other calls need not wait for.
    pub async fn of(wasm: Vec<u8>) -> Result<Self, Refusal> {
        let counted = tokio::task::spawn_blocking(move || Self {
            digest: digest_of(&wasm),
            wasm,
        });
        // It ends early only with the runtime.
        counted.await.map_err(|_| Refusal::Stopped)
    }

    /// Its bytes.
    pub fn wasm(&self) -> &[u8] {
        &self.wasm
    }

    /// Whether it is the one that a document means; one that names no digest means any.
    pub fn check_digest(&self, wanted: Option<&str>) -> Result<(), Refusal> {
        let Some(wanted) = wanted else {
            return Ok(());
        };
        let digits = wanted
            .strip_prefix(DIGEST_PREFIX)
            .filter(|digits| digits.len() == DIGEST_DIGITS)
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .ok_or(Refusal::BadDigest)?;
        if !self.digest.ends_with(&digits.to_ascii_lowercase()) {
            return Err(Refusal::OtherDigest {
                wanted: wanted.to_owned(),
                found: self.digest.clone(),
            });
        }
        Ok(())
    }

    /// Its bytes alone.
    pub fn into_wasm(self) -> Vec<u8> {
        self.wasm
    }

    /// Its digest, `sha256:..`, and its bytes.
    pub(crate) fn into_parts(self) -> (String, Vec<u8>) {
        (self.digest, self.wasm)
    }
}

/// Reads what a file holds, if it is not too large; relative paths start at `base`, the folder of the document.
pub async fn read(source: &PluginSource, base: &Path) -> Result<Vec<u8>, Refusal> {
    let PluginPlace::File(path) = &source.place else {
        return Err(Refusal::NotAFile {
            path: base.to_owned(),
        });
    };
    let path = base.join(path);
    let named = path.clone();
    let reading = tokio::task::spawn_blocking(move || read_blocking(&path));
    reading.await.unwrap_or_else(|error| {
        Err(Refusal::Unreadable {
            path: named,
            source: io::Error::other(error),
        })
    })
}

fn read_blocking(path: &Path) -> Result<Vec<u8>, Refusal> {
    let unreadable = |source: io::Error| Refusal::Unreadable {
        path: PathBuf::from(path),
        source,
    };
    // Without O_NONBLOCK the opening of a pipe would wait for a writer for ever.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| unreadable(errno.into()))?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Refusal::NotAFile {
            path: path.to_owned(),
        });
    }
    // A hint: room that grows is copied again and again.
    let room = metadata.len().min(PLUGIN_BYTES) + 1;
    let mut wasm = Vec::with_capacity(usize::try_from(room).unwrap_or_default());
    // One byte more than allowed, to see that there is more; the file may grow while it is read.
    let read = file.take(PLUGIN_BYTES + 1).read_to_end(&mut wasm);
    if read.map_err(unreadable)? as u64 > PLUGIN_BYTES {
        return Err(Refusal::TooLarge {
            limit: PLUGIN_BYTES,
        });
    }
    Ok(wasm)
}

/// Whether bytes are a component at all.
pub fn check_kind(wasm: &[u8]) -> Result<(), Refusal> {
    match wasm.strip_prefix(MAGIC) {
        Some(rest) if rest.starts_with(COMPONENT) => Ok(()),
        Some(rest) if rest.starts_with(CORE_MODULE) => Err(Refusal::CoreModule),
        _ => Err(Refusal::NotWasm),
    }
}

/// `sha256:` and 64 hexadecimal digits.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    let digits = Sha256::digest(bytes);
    let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{DIGEST_PREFIX}{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FileType;

    const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    #[tokio::test]
    async fn a_file_is_read_whatever_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let source = PluginSource::file("plugin.wasm");
        for bytes in [EMPTY_COMPONENT, b"\0asm\x01\0\0\0", b""] {
            std::fs::write(folder.path().join("plugin.wasm"), bytes).unwrap();
            assert_eq!(read(&source, folder.path()).await.unwrap(), bytes);
        }
    }

    async fn empty_component() -> Component {
        Component::of(EMPTY_COMPONENT.to_vec()).await.unwrap()
    }

    #[tokio::test]
    async fn a_component_must_have_the_digest_of_the_document() {
        let component = empty_component().await;
        assert_eq!(component.wasm(), EMPTY_COMPONENT);
        check_kind(component.wasm()).unwrap();
        component.check_digest(None).unwrap();
        let digest: String = Sha256::digest(EMPTY_COMPONENT)
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        let wanted = format!("sha256:{digest}");
        component.check_digest(Some(&wanted)).unwrap();
    }

    #[test]
    fn what_is_no_component_is_refused() {
        for (bytes, expected) in [
            (&b"\0asm\x01\0\0\0"[..], "core module"),
            (b"\x7fELF\x02\x01\x01\0", "not WebAssembly"),
            (b"\0asm", "not WebAssembly"),
            (b"", "not WebAssembly"),
        ] {
            let refusal = check_kind(bytes).unwrap_err().to_string();
            assert!(refusal.contains(expected), "{refusal}");
        }
    }

    #[tokio::test]
    async fn another_digest_or_none_at_all_is_refused() {
        let component = empty_component().await;
        let other = format!("sha256:{}", "0".repeat(64));
        let refusal = component.check_digest(Some(&other)).unwrap_err();
        assert!(matches!(refusal, Refusal::OtherDigest { wanted, .. } if wanted == other));
        for digest in ["", "sha256:", "md5:00", &"0".repeat(64)] {
            let refusal = component.check_digest(Some(digest)).unwrap_err();
            assert!(matches!(refusal, Refusal::BadDigest), "{digest}");
        }
    }

    #[tokio::test]
    async fn a_file_above_the_limit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("plugin.wasm")).unwrap();
        file.set_len(PLUGIN_BYTES + 1).unwrap();
        let source = PluginSource::file("plugin.wasm");
        let refusal = read(&source, folder.path()).await.unwrap_err();
        assert!(matches!(refusal, Refusal::TooLarge { limit } if limit == 64 << 20));
    }

    #[tokio::test]
    async fn a_missing_file_a_folder_and_a_pipe_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let source = |path: &str| PluginSource::file(path);
        let refusal = read(&source("missing.wasm"), folder.path()).await;
        assert!(matches!(refusal, Err(Refusal::Unreadable { .. })));
        let pipe = folder.path().join("pipe.wasm");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        for name in [".", "pipe.wasm"] {
            let refusal = read(&source(name), folder.path()).await;
            assert!(matches!(refusal, Err(Refusal::NotAFile { .. })), "{name}");
        }
    }
}
