//! Compiled code of the built plugins, shared by test hosts: a new host finds the code that an earlier one compiled, as a host after a restart does.
//! Tests of compilation use their own components, which are never shared.

use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use xtask::workspace::Workspace;

/// The cache of a host, below its data directory.
const CACHE: &str = "compiled";
/// Only the host's user may read its cache; otherwise the host rejects it.
const CACHE_MODE: u32 = 0o700;
/// The extension of the files that hold machine code; the other files refer to one of them, and are copied last.
const CODE: &str = "cwasm";

/// Copies to a new data directory the code that earlier hosts compiled for the plugins that these documents name.
pub fn seed(data: &Path, documents: &[PathBuf]) -> io::Result<()> {
    let texts: Vec<String> = documents
        .iter()
        .filter_map(|document| fs::read_to_string(document).ok())
        .collect();
    let named = |plugin: &&Plugin| texts.iter().any(|text| text.contains(&plugin.file));
    copy(&shared(), &data.join(CACHE), plugins().iter().filter(named))
}

/// Keeps the code that this host compiled for the built plugins, for later hosts.
pub fn keep(data: &Path) -> io::Result<()> {
    copy(&data.join(CACHE), &shared(), plugins().iter())
}

/// A built plugin.
struct Plugin {
    file: String,
    /// The prefix of the names of its entries.
    prefix: String,
}

/// Read once: tests never change the build output.
fn plugins() -> &'static [Plugin] {
    static PLUGINS: OnceLock<Vec<Plugin>> = OnceLock::new();
    PLUGINS.get_or_init(|| built().unwrap_or_default())
}

fn built() -> io::Result<Vec<Plugin>> {
    let workspace = Workspace::locate().map_err(io::Error::other)?;
    let directory = workspace.component("any").with_file_name("");
    let mut plugins = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("wasm"))
            && let Some(file) = path.file_name()
        {
            let digits = hex::encode(Sha256::digest(fs::read(&path)?));
            plugins.push(Plugin {
                file: file.to_string_lossy().into_owned(),
                prefix: format!("{digits}-"),
            });
        }
    }
    Ok(plugins)
}

/// In the build directory, so that `cargo clean` removes it.
fn shared() -> PathBuf {
    let workspace = Workspace::locate();
    workspace.map(|it| it.compiled()).unwrap_or_default()
}

/// Copies the missing entries of some plugins atomically: several tests do so at once.
fn copy<'a>(from: &Path, to: &Path, plugins: impl Iterator<Item = &'a Plugin>) -> io::Result<()> {
    let names: Vec<OsString> = match fs::read_dir(from) {
        Ok(entries) => entries
            .map(|entry| Ok(entry?.file_name()))
            .collect::<io::Result<_>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut wanted: Vec<OsString> = plugins
        .flat_map(|plugin| names.iter().filter(|name| is_entry_of(name, plugin)))
        .filter(|name| !to.join(name).exists())
        .cloned()
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

/// Only complete files: while one is written, its name has another ending.
fn is_entry_of(name: &OsStr, plugin: &Plugin) -> bool {
    let name = name.to_string_lossy();
    let rest = name.strip_prefix(&plugin.prefix);
    rest.is_some_and(|rest| !rest.contains('.') || rest.ends_with(CODE))
}
