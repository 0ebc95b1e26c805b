//! Compiled code of the plugins as built, shared by test hosts: a new host finds what an earlier one compiled, as a host that restarts does.
//! Tests of compilation serve components of their own, which are never shared.

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
/// The kind of the files that hold machine code; the others name one of them, and are copied last.
const CODE: &str = "cwasm";

/// Puts into a new data directory what earlier hosts compiled of the plugins that these documents name.
pub(crate) fn seed(data: &Path, documents: &[PathBuf]) -> io::Result<()> {
    let texts: Vec<String> = documents
        .iter()
        .filter_map(|document| fs::read_to_string(document).ok())
        .collect();
    let named = |plugin: &&Plugin| texts.iter().any(|text| text.contains(&plugin.file));
    copy(&shared(), &data.join(CACHE), plugins().iter().filter(named))
}

/// Keeps for later hosts what this one compiled of the plugins as built.
pub(crate) fn keep(data: &Path) -> io::Result<()> {
    copy(&data.join(CACHE), &shared(), plugins().iter())
}

/// A plugin as built.
struct Plugin {
    file: String,
    /// How the names of its entries begin.
    prefix: String,
}

/// Read once: tests never change what was built.
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

/// Beside what is built, so that `cargo clean` takes it away.
fn shared() -> PathBuf {
    let program = Workspace::locate().map(|workspace| workspace.host_program());
    program.unwrap_or_default().with_file_name("test-compiled")
}

/// Copies the entries of some plugins that are not there yet, whole: several tests do so at once.
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

/// Whole files alone: while one is written, its name ends otherwise.
fn is_entry_of(name: &OsStr, plugin: &Plugin) -> bool {
    let name = name.to_string_lossy();
    let rest = name.strip_prefix(&plugin.prefix);
    rest.is_some_and(|rest| !rest.contains('.') || rest.ends_with(CODE))
}
