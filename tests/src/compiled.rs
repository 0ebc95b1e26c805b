//! Compiled code of components, shared by test hosts and commands: a new host finds the code that an earlier one compiled, as a host after a restart
//! does. What a host is given after its start it compiles itself, and so does each host whose component no other test serves.

use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use xtask::workspace::Workspace;

/// The cache of a host, below its data directory.
const CACHE: &str = "compiled";
/// Only the host's user may read its cache; otherwise the host rejects it.
const CACHE_MODE: u32 = 0o700;
/// The extension of the files that hold machine code; the other files refer to one of them, and are copied last.
const CODE: &str = "cwasm";
/// The extension of components.
const COMPONENT: &str = "wasm";

/// The cache of a command that compiles components (`WASMOUNT_CACHE`). On drop, its code is kept for later ones.
#[derive(Debug)]
pub struct CommandCache {
    directory: TempDir,
    components: Components,
}

impl CommandCache {
    /// With the code that was compiled before for these components, or for those that these documents name.
    pub fn of(files: &[&Path]) -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .permissions(Permissions::from_mode(CACHE_MODE))
            .tempdir()?;
        let components = Components::of(files);
        components.copy(&shared(), directory.path())?;
        Ok(Self {
            directory,
            components,
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for CommandCache {
    fn drop(&mut self) {
        // If it cannot be kept, a later one compiles again: slower, but with the same result.
        let _ = self.components.copy(self.path(), &shared());
    }
}

/// Some components, each as the prefix of the names of its entries in a cache.
#[derive(Debug, Default)]
pub struct Components(Vec<String>);

impl Components {
    /// Those among some files, and those that the others name, as documents do.
    fn of(files: &[impl AsRef<Path>]) -> Self {
        let components = files.iter().flat_map(|file| named(file.as_ref()));
        let contents = components.filter_map(|component| fs::read(component).ok());
        let digest = |content: Vec<u8>| format!("{}-", hex::encode(Sha256::digest(content)));
        Self(contents.map(digest).collect())
    }

    /// Copies to a new data directory the code that was compiled before for the components that these documents name; returns those.
    pub fn seed(data: &Path, documents: &[PathBuf]) -> io::Result<Self> {
        let components = Self::of(documents);
        components.copy(&shared(), &data.join(CACHE))?;
        Ok(components)
    }

    /// Keeps the code that a host compiled for them.
    pub fn keep(&self, data: &Path) -> io::Result<()> {
        self.copy(&data.join(CACHE), &shared())
    }

    /// Copies the missing entries atomically: several tests do so at once.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let names: Vec<OsString> = match fs::read_dir(from) {
            Ok(entries) => entries
                .map(|entry| Ok(entry?.file_name()))
                .collect::<io::Result<_>>()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut wanted: Vec<OsString> = names
            .into_iter()
            .filter(|name| self.0.iter().any(|prefix| is_entry_of(name, prefix)))
            .filter(|name| !to.join(name).exists())
            .collect();
        wanted.sort_by_key(|name| Path::new(name).extension() != Some(OsStr::new(CODE)));
        if !wanted.is_empty() {
            DirBuilder::new()
                .recursive(true)
                .mode(CACHE_MODE)
                .create(to)?;
        }
        for name in wanted {
            let aside = tempfile::NamedTempFile::new_in(to)?;
            fs::copy(from.join(&name), aside.path())?;
            aside.persist(to.join(&name)).map_err(|error| error.error)?;
        }
        Ok(())
    }
}

/// The file itself, or the paths of components that a document names.
fn named(file: &Path) -> Vec<PathBuf> {
    let is_component = |path: &Path| path.extension() == Some(OsStr::new(COMPONENT));
    if is_component(file) {
        return vec![file.to_owned()];
    }
    let text = fs::read_to_string(file).unwrap_or_default();
    let words = text.split(|c: char| c.is_whitespace() || "\"'{},".contains(c));
    let folder = file.parent().unwrap_or(Path::new(""));
    let paths = words.map(|word| folder.join(word));
    paths.filter(|path| is_component(path)).collect()
}

/// In the build directory, so that `cargo clean` removes it.
fn shared() -> PathBuf {
    let workspace = Workspace::locate();
    workspace.map(|it| it.compiled()).unwrap_or_default()
}

/// Only complete files: while one is written, its name has another ending.
fn is_entry_of(name: &OsStr, prefix: &str) -> bool {
    let name = name.to_string_lossy();
    let rest = name.strip_prefix(prefix);
    rest.is_some_and(|rest| !rest.contains('.') || rest.ends_with(CODE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_found_in_documents_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let document = folder.path().join("a.yaml");
        let text =
            "driverName: wasm\nplugin: { path: ../b.wasm }\n---\nplugin: {path: \"/c.wasm\"}\n";
        fs::write(&document, text).unwrap();
        let expected = [folder.path().join("../b.wasm"), "/c.wasm".into()];
        assert_eq!(named(&document), expected);
        let itself = folder.path().join("f.wasm");
        assert_eq!(named(&itself), [itself]);
    }

    #[test]
    fn the_cache_of_a_command_is_its_users_alone() {
        let cache = CommandCache::of(&[]).unwrap();
        let mode = fs::metadata(cache.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, CACHE_MODE);
    }
}
