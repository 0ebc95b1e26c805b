//! `cargo xtask release`: the files of a release in one directory, with their digests.
//!
//! The same commit gives the same texts, charts and list of crates: times are that of the commit, and no path of this machine is in them or in the
//! program.

use crate::cargo_tool::CargoTool;
use crate::command;
use crate::deploy;
use crate::failure::Failure;
use crate::files;
use crate::helm::{self, Chart};
use crate::image::{self, archive};
use crate::packages;
use crate::platform::Architecture;
use crate::plugins;
use crate::say;
use crate::workspace::Workspace;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// The time of all files, in seconds since 1970 (reproducible-builds.org, "SOURCE_DATE_EPOCH").
const TIME: &str = "SOURCE_DATE_EPOCH";

/// Lists the crates of the program.
pub const CYCLONEDX: CargoTool = CargoTool {
    name: "cargo-cyclonedx",
    version: "0.5.9",
};

/// The name of its file beside each manifest.
const CRATES: &str = "crates";

/// The file of digests, as `sha256sum --check` reads it.
const DIGESTS: &str = "SHA256SUMS";

/// The file of the contract's package.
pub const CONTRACT: &str = "wasmount-csi.wasm";

/// Shells, and the files in which each looks for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "wasmount.bash"),
    ("zsh", "_wasmount"),
    ("fish", "wasmount.fish"),
];

/// Options of `cargo xtask release`.
#[derive(Debug, clap::Args)]
pub struct ReleaseOptions {
    /// A directory that is empty or does not exist
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Name of the image in its layout. The default is what a node looks for by the name in the printed manifests
    #[arg(long, default_value_t = image_name())]
    name: String,
    /// Only for this processor; may be repeated [default: all]
    #[arg(long, value_enum)]
    architecture: Vec<Architecture>,
}

fn image_name() -> String {
    format!("docker.io/library/wasmount:{}", version())
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Builds everything and writes the files.
pub fn run(workspace: &Workspace, options: &ReleaseOptions) -> Result<(), Failure> {
    let output = &options.output;
    files::create_directory(output)?;
    if !files::entries(output)?.is_empty() {
        return Err(Failure::Unexpected(format!(
            "{} is not empty: name another directory, so that it holds one release alone",
            output.display()
        )));
    }
    packages::install(packages::IMAGE)?;
    let time = time(workspace)?;
    plugins::build(workspace)?;
    let architectures = match options.architecture.is_empty() {
        true => &Architecture::ALL[..],
        false => &options.architecture,
    };
    for architecture in architectures {
        say::heading(&format!("── program and image for {}", architecture.name()));
        add_program(workspace, *architecture, options, output)?;
    }
    say::heading("── other files");
    plugins::build_host(workspace)?;
    add_texts(workspace, &workspace.host_program(), output)?;
    plugins::write_package(workspace, &output.join(CONTRACT))?;
    add_charts(workspace, output, time)?;
    add_crates(workspace, output, time)?;
    let count = add_digests(output)?;
    say::line(&format!("{count} files are in {}", output.display()));
    Ok(())
}

/// The program for a processor, which must start, and its image.
fn add_program(
    workspace: &Workspace,
    architecture: Architecture,
    options: &ReleaseOptions,
    output: &Path,
) -> Result<(), Failure> {
    let is_foreign = architecture != Architecture::of_this_machine()?;
    if is_foreign {
        packages::install(architecture.needs())?;
    }
    let program = plugins::build_host_without_paths(workspace, architecture)?;
    let mut start = match is_foreign {
        false => Command::new(&program),
        true => {
            let mut emulator = Command::new(architecture.emulator());
            emulator
                .arg("-L")
                .arg(format!("/usr/{}", architecture.prefix()));
            emulator.arg(&program);
            emulator
        }
    };
    say::line(command::read(start.arg("--version"))?.trim());
    let name = format!("wasmount-{}-linux-{}", version(), architecture.name());
    let image = image::wasmount(workspace, architecture, &program, &options.name)?;
    files::copy(&image, &output.join(format!("{name}.oci.tar")))?;
    let mut strip = Command::new(architecture.strip());
    command::read(strip.arg("-o").arg(output.join(name)).arg(&program)).map(drop)
}

/// The manifests, the completions and the manual pages, by a built host.
pub fn add_texts(workspace: &Workspace, program: &Path, output: &Path) -> Result<(), Failure> {
    let deploy = workspace.root().join("deploy");
    let manifests = output.join("manifests");
    files::create_directory(&manifests)?;
    files::copy(
        &deploy.join("shared/wasmount.yaml"),
        &manifests.join("shared.yaml"),
    )?;
    for (backend, _) in deploy::IN_CHART {
        let name = format!("{backend}.yaml");
        files::copy(
            &deploy.join("chart/backends").join(&name),
            &manifests.join(&name),
        )?;
    }
    for (shell, name) in COMPLETIONS {
        let script = command::read(Command::new(program).args(["completions", shell]))?;
        files::write(&output.join("completions").join(name), script)?;
    }
    let pages = output.join("man");
    files::create_directory(&pages)?;
    command::read(Command::new(program).args(["man", "--output"]).arg(&pages)).map(drop)
}

/// The charts as packages.
pub fn add_charts(workspace: &Workspace, output: &Path, time: SystemTime) -> Result<(), Failure> {
    let copies = tempfile::tempdir().map_err(Failure::cannot("create a temporary directory"))?;
    for chart in Chart::ALL {
        // Helm takes times from the files.
        let folder = copies.path().join("chart");
        copy_folder(&chart.folder(workspace), &folder, time)?;
        let mut package = helm::command(workspace)?;
        package.arg("package").arg(&folder);
        command::read(package.arg("--destination").arg(output))?;
        fs::remove_dir_all(&folder)
            .map_err(Failure::cannot(format!("remove {}", folder.display())))?;
    }
    Ok(())
}

/// The crates of the program, as a bill of materials (CycloneDX).
pub fn add_crates(workspace: &Workspace, output: &Path, time: SystemTime) -> Result<(), Failure> {
    let program = CYCLONEDX.install(workspace)?;
    // It writes a file beside the manifest of each crate of the workspace.
    let copy = tempfile::tempdir().map_err(Failure::cannot("create a temporary directory"))?;
    let copy = copy.path();
    copy_crates(workspace, copy, time)?;
    let mut list = Command::new(program);
    list.args(["cyclonedx", "--format", "json", "--no-build-deps"])
        .args(["--override-filename", CRATES, "--manifest-path"])
        .arg(copy.join("Cargo.toml"))
        .env(TIME, seconds(time).to_string());
    command::read(&mut list)?;
    let of_program = copy.join("host/wasmount").join(format!("{CRATES}.json"));
    let text = files::read_text(&of_program)?.replace(&copy.display().to_string(), ".");
    files::write(
        &output.join(format!("wasmount-{}.cdx.json", version())),
        text,
    )
}

/// Copies the workspace of the host.
fn copy_crates(workspace: &Workspace, to: &Path, time: SystemTime) -> Result<(), Failure> {
    let root = workspace.root();
    for name in ["Cargo.toml", "Cargo.lock"] {
        files::copy(&root.join(name), &to.join(name))?;
    }
    let members = workspace.members()?;
    let below_root = members.iter().filter_map(|it| it.strip_prefix(root).ok());
    let folders: BTreeSet<_> = below_root.filter_map(|it| it.iter().next()).collect();
    let mut folders = folders.into_iter();
    folders.try_for_each(|name| copy_folder(&root.join(name), &to.join(name), time))
}

/// The digests of all files, with their paths below the directory.
pub fn add_digests(output: &Path) -> Result<usize, Failure> {
    let mut text = String::new();
    let mut count = 0;
    let paths = files::below(output)?;
    for path in paths.into_iter().filter(|it| !it.is_dir()) {
        let name = path.strip_prefix(output).unwrap_or(&path).display();
        let failed = Failure::cannot(format!("read {}", path.display()));
        let digest = archive::digest_of(&path).map_err(failed)?;
        text.push_str(&format!("{digest}  {name}\n"));
        count += 1;
    }
    files::write(&output.join(DIGESTS), text)?;
    Ok(count)
}

/// The time that the environment gives, else that of the commit.
fn time(workspace: &Workspace) -> Result<SystemTime, Failure> {
    let text = match std::env::var(TIME) {
        Ok(text) => text,
        Err(_) => {
            let mut log = Command::new("git");
            log.args(["log", "-1", "--format=%ct"]);
            command::read(log.current_dir(workspace.root()))?
        }
    };
    let seconds = text.trim().parse();
    let seconds = seconds.map_err(Failure::cannot(format!("read the time `{}`", text.trim())))?;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

fn copy_folder(from: &Path, to: &Path, time: SystemTime) -> Result<(), Failure> {
    files::create_directory(to)?;
    for entry in files::entries(from)? {
        let name = to.join(entry.file_name().unwrap_or_default());
        if entry.is_dir() {
            copy_folder(&entry, &name, time)?;
            continue;
        }
        files::copy(&entry, &name)?;
        let set = File::options().write(true).open(&name);
        set.and_then(|file| file.set_modified(time))
            .map_err(Failure::cannot(format!(
                "set the time of {}",
                name.display()
            )))?;
    }
    Ok(())
}
