//! Container images as files, made without a daemon: `cargo xtask image`, and the images that a cluster on this machine imports instead of pulling.
//!
//! `deploy/Containerfile` defines the content of Wasmount's own image, of the same packages; this is the other way to build it.

pub mod archive;
pub mod root_filesystem;

use self::archive::{Content, Image, write_layer};
use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::packages;
use crate::platform::Architecture;
use crate::plugins;
use crate::say;
use crate::tools::{self, Tool};
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Registry name of images that are in no registry: a node that lacks one must not look for it elsewhere.
pub const REGISTRY: &str = "wasmount.local";

/// Path of the host's program in its image.
const PROGRAM: &str = "usr/local/bin/wasmount";

/// Path of the plugins in it.
const PLUGINS: &str = "opt/wasmount/plugins";

/// Options of `cargo xtask image`.
#[derive(Debug, clap::Args)]
pub struct ImageOptions {
    /// The file, an OCI image layout as a tar archive [default: target/images/wasmount.tar]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What a node knows the image by
    #[arg(long, default_value_t = wasmount_name())]
    name: String,
    /// Optimised, for the node of a user: takes minutes to build
    #[arg(long)]
    release: bool,
    /// Fetches the packages again, though they were fetched before
    #[arg(long)]
    fresh: bool,
}

/// Builds the host and its image.
pub fn run(workspace: &Workspace, options: &ImageOptions) -> Result<(), Failure> {
    packages::install(packages::IMAGE)?;
    let program = if options.release {
        let arguments = ["--release", "--package", "wasmount"];
        command::run(workspace.cargo("build").args(arguments))?;
        workspace.release_program()
    } else {
        plugins::build_host(workspace)?;
        workspace.host_program()
    };
    if options.fresh {
        root_filesystem::forget(workspace)?;
    }
    let architecture = Architecture::of_this_machine()?;
    let built = wasmount(workspace, architecture, &program, &options.name)?;
    let path = match &options.output {
        None => built,
        Some(output) => files::copy(&built, output).map(|()| output.clone())?,
    };
    say::line(&format!("{} is in {}", options.name, path.display()));
    Ok(())
}

/// The name of Wasmount's own image.
pub fn wasmount_name() -> String {
    format!("{REGISTRY}/wasmount:{}", env!("CARGO_PKG_VERSION"))
}

/// Writes the image of a host that was built for a processor into a file.
pub fn wasmount(
    workspace: &Workspace,
    architecture: Architecture,
    program: &Path,
    name: &str,
) -> Result<PathBuf, Failure> {
    let root = root_filesystem::build(workspace, architecture)?;
    let directory = workspace.images();
    let stripped = directory.join("wasmount.stripped");
    // Debug information is most of a program's size.
    let mut strip = Command::new(architecture.strip());
    command::read(strip.arg("-o").arg(&stripped).arg(program))?;
    let layer = directory.join("wasmount.layer");
    let mut contents = vec![(PROGRAM.to_owned(), Content::File(stripped))];
    contents.extend(backends(workspace)?);
    write_layer(&layer, &contents)?;
    let path = directory.join("wasmount.tar");
    let image = Image {
        name,
        entrypoint: &[&format!("/{PROGRAM}")],
        arguments: &[],
        architecture,
        layers: &[root, layer],
    };
    image.write(&path).map(|()| path)
}

/// The images of the sidecars, each with only its program, as files.
pub fn sidecars(workspace: &Workspace) -> Result<Vec<PathBuf>, Failure> {
    tools::SIDECARS
        .iter()
        .map(|tool| sidecar(workspace, tool))
        .collect()
}

fn sidecar(workspace: &Workspace, tool: &Tool) -> Result<PathBuf, Failure> {
    let directory = workspace.images();
    let layer = directory.join(format!("{}.layer", tool.name));
    let program = tool.build(workspace)?;
    write_layer(&layer, &[(tool.name.to_owned(), Content::File(program))])?;
    let path = directory.join(format!("{}.tar", tool.name));
    let image = Image {
        name: &format!("{REGISTRY}/{}:v{}", tool.name, tool.version),
        entrypoint: &[&format!("/{}", tool.name)],
        arguments: &[],
        architecture: Architecture::of_this_machine()?,
        layers: &[layer],
    };
    image.write(&path).map(|()| path)
}

/// The plugins of this repository that are backends, as built: for manifests that name a component by its path in the image.
fn backends(workspace: &Workspace) -> Result<Vec<(String, Content)>, Failure> {
    let plugins = files::entries(&workspace.plugins())?;
    Ok(plugins
        .into_iter()
        .filter(|it| it.join("backend.yaml").is_file())
        .filter_map(|it| Some(workspace.component(it.file_name()?.to_str()?)))
        // Plugins in other languages than Rust are built elsewhere, and are examples.
        .filter(|component| component.is_file())
        .filter_map(|component| {
            let name = format!("{PLUGINS}/{}", component.file_name()?.to_str()?);
            Some((name, Content::File(component)))
        })
        .collect())
}
