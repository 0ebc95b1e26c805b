//! Builds a guest in another language than Rust on demand. A build is cached by the digest of all its inputs, so that tests may request it each
//! time, and several at a time.

use crate::files::{self, Files};
use crate::world::{self, World};
use crate::{c, go, javascript, python};
use std::fs;
use std::path::{Path, PathBuf};
use xtask::failure::Failure;
use xtask::workspace::Workspace;

/// A language that guests are written in, besides Rust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// Freestanding C17, by clang.
    C,
    /// Stock Go.
    Go,
    /// JavaScript, by componentize-qjs.
    #[value(name = "javascript")]
    JavaScript,
    /// Python, by componentize-py.
    Python,
}

/// A built guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The component.
    pub component: PathBuf,
    /// The version text of its compiler.
    pub toolchain: String,
}

impl Language {
    /// Those that are compiled, and bring no interpreter along.
    pub const COMPILED: [Language; 2] = [Language::C, Language::Go];

    /// The name of the plugin that is written in this language.
    pub fn plugin(self) -> &'static str {
        match self {
            Language::C => "directory-c",
            Language::Go => "directory-go",
            Language::JavaScript => "directory-js",
            Language::Python => "directory-python",
        }
    }

    /// The version text of its compiler, as this machine has it or the plugin pins it.
    pub(crate) fn toolchain(self, plugin: &Path) -> Result<String, Failure> {
        match self {
            Language::C => c::toolchain(),
            Language::Go => go::toolchain(),
            Language::JavaScript => javascript::toolchain(plugin),
            Language::Python => python::toolchain(plugin),
        }
    }

    /// Its build folder below the guests' target directory; the `backend.yaml` of each plugin refers to it.
    fn folder(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Go => "go",
            Language::JavaScript => "javascript",
            Language::Python => "python",
        }
    }
}

/// Builds the plugin of a language, unless it was already built from the same sources by the same tools.
pub fn build(workspace: &Workspace, language: Language) -> Result<Built, Failure> {
    let plugin = workspace.plugins().join(language.plugin());
    let output = workspace.plugins_target().join(language.folder());
    let contract = workspace.contract_file();
    let world = World::of_plugin(&plugin, &contract)?;
    let toolchain = language.toolchain(&plugin)?;
    let mut tree = match language {
        // `plugin.c`, `plugin.h`, and an object file that carries the world.
        Language::C => world.bindings(&mut *wit_bindgen_c::Opts::default().build())?,
        // The module `wit_component`.
        Language::Go => world.bindings(&mut *wit_bindgen_go::Opts::default().build())?,
        Language::JavaScript | Language::Python => world::files(&plugin, &contract)?,
    };
    tree.extend(files::read(&plugin)?);
    let key = format!("{} {toolchain}\n", files::digest_of_all(&tree));

    let below = |name: &str| output.join(format!("{}{name}", language.plugin()));
    let (component, key_file) = (below(".wasm"), below(".key"));
    // Two test programs may request the same guest at the same time.
    let _turn = xtask::files::wait_for_turn(&output)?;
    if !(component.is_file() && fs::read_to_string(&key_file).is_ok_and(|it| it == key)) {
        let wasm = compile(workspace, language, &world, &below(""), &tree)?;
        xtask::files::write(&component, &wasm)?;
        // Last: an interrupted build does not count.
        xtask::files::write(&key_file, key.as_bytes())?;
    }
    Ok(Built {
        component,
        toolchain,
    })
}

fn compile(
    workspace: &Workspace,
    language: Language,
    world: &World,
    folder: &Path,
    tree: &Files,
) -> Result<Vec<u8>, Failure> {
    files::write_anew(folder, tree)?;
    match language {
        Language::C => world::component(&c::compile(folder, tree)?),
        Language::Go => {
            let mut core = go::compile(workspace, folder)?;
            world.embed(&mut core)?;
            world::component(&core)
        }
        Language::JavaScript => javascript::compile(workspace, folder),
        Language::Python => python::compile(workspace, folder),
    }
}
