//! Paths in the checkout and in its target directory.
//!
//! The target directory is the one that the running program was built into: cargo's setting (`--target-dir`, `CARGO_TARGET_DIR`) then holds for
//! everything that is built from here, and shared parts are built once.

use crate::command;
use crate::failure::Failure;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A checkout and its target directory.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
    profile: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// Finds them from the path of this program.
    pub fn locate() -> Result<Self, Failure> {
        let program =
            std::env::current_exe().map_err(Failure::cannot("find the running program"))?;
        Self::of(&program).ok_or_else(|| {
            Failure::Unexpected(format!(
                "{} does not lie in a cargo target directory: start it by `cargo xtask`",
                program.display()
            ))
        })
    }

    /// From `<target>/<profile>/<program>`, or `<target>/<profile>/deps/<test program>`.
    fn of(program: &Path) -> Option<Self> {
        let directory = program.parent()?;
        let profile = if directory.ends_with("deps") {
            directory.parent()?
        } else {
            directory
        };
        Some(Self {
            root: Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.to_owned(),
            profile: profile.to_owned(),
            target: profile.parent()?.to_owned(),
        })
    }

    /// The top of the checkout.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The host's program, beside this one.
    pub fn host_program(&self) -> PathBuf {
        self.profile.join("wasmount")
    }

    /// The project's commands, in the same directory.
    pub fn own_program(&self) -> PathBuf {
        self.profile.join("xtask")
    }

    /// The host's program as built by `cargo build --release`.
    pub fn release_program(&self) -> PathBuf {
        self.target.join("release/wasmount")
    }

    /// The directory in which images are built.
    pub fn images(&self) -> PathBuf {
        self.target.join("images")
    }

    /// The directory in which test hosts share the code that they compiled.
    pub fn compiled(&self) -> PathBuf {
        self.profile.join("test-compiled")
    }

    /// The directory of the root file systems of `cargo xtask vm`.
    pub fn vm(&self) -> PathBuf {
        self.target.join("vm")
    }

    /// The directories that hold all that is built: the checkout, and the target directory, which may be below it.
    pub fn directories(&self) -> [&Path; 2] {
        [&self.root, &self.target]
    }

    /// The directory of the cluster of `cargo xtask cluster up`.
    pub fn cluster(&self) -> PathBuf {
        self.target.join("cluster")
    }

    /// The program that is a storage array, in the same directory.
    pub fn block_array_program(&self) -> PathBuf {
        self.profile.join("block-array")
    }

    /// plugins/hostpath as a native driver, in the same directory.
    pub fn native_twin_program(&self) -> PathBuf {
        self.profile.join("native-twin")
    }

    /// The directory of the volumes of `cargo xtask array`.
    pub fn block_array(&self) -> PathBuf {
        self.target.join("block-array")
    }

    /// The manifest of the guests' workspace.
    pub fn plugins_manifest(&self) -> PathBuf {
        self.root.join("plugins/Cargo.toml")
    }

    /// The manifests of both workspaces.
    pub fn manifests(&self) -> [PathBuf; 2] {
        [self.root.join("Cargo.toml"), self.plugins_manifest()]
    }

    /// The folder of the contract.
    pub fn contract(&self) -> PathBuf {
        self.root.join("guest-sdk/wit")
    }

    /// The contract.
    pub fn contract_file(&self) -> PathBuf {
        self.contract().join("wasmount.wit")
    }

    /// Golden guests, a folder for each line of the contract.
    pub fn golden(&self) -> PathBuf {
        self.root.join("tests/golden")
    }

    /// The directory in which cargo keeps the sources of a crate that this workspace depends on.
    pub fn sources_of(&self, package: &str) -> Result<PathBuf, Failure> {
        let packages = self.packages(&[])?;
        let mut packages = packages.into_iter();
        packages
            .find_map(|(name, folder)| (name == package).then_some(folder))
            .ok_or_else(|| Failure::Unexpected(format!("`cargo metadata` does not know {package}")))
    }

    /// The folders of the crates of this workspace.
    pub fn members(&self) -> Result<Vec<PathBuf>, Failure> {
        let members = self.packages(&["--no-deps"])?;
        Ok(members.into_iter().map(|(_, folder)| folder).collect())
    }

    /// Names and folders of crates.
    fn packages(&self, more: &[&str]) -> Result<Vec<(String, PathBuf)>, Failure> {
        let arguments = ["metadata", "--locked", "--format-version", "1"];
        let metadata = command::read(self.plain_cargo().args(arguments).args(more))?;
        let metadata: Value = serde_json::from_str(&metadata).unwrap_or_default();
        let packages = metadata.get("packages").and_then(Value::as_array);
        let named = |it: &Value| {
            let folder = Path::new(it.get("manifest_path")?.as_str()?).parent()?;
            Some((it.get("name")?.as_str()?.to_owned(), folder.to_owned()))
        };
        Ok(packages.into_iter().flatten().filter_map(named).collect())
    }

    /// The directory of the guests, a folder for each.
    pub fn plugins(&self) -> PathBuf {
        self.root.join("plugins")
    }

    /// The directory in which guests are built; the `backend.yaml` of each refers to it.
    pub fn plugins_target(&self) -> PathBuf {
        self.root.join("plugins/target")
    }

    /// The document that serves a built plugin.
    pub fn backend_document(&self, plugin: &str) -> PathBuf {
        self.plugins().join(plugin).join("backend.yaml")
    }

    /// A built guest.
    pub fn component(&self, plugin: &str) -> PathBuf {
        self.plugins_target()
            .join("wasm32-wasip2/release")
            .join(format!("{}.wasm", plugin.replace('-', "_")))
    }

    /// The directory with the output of each test program.
    pub fn test_logs(&self) -> PathBuf {
        self.target.join("test-logs")
    }

    /// The target directory of programs that contain no path of this machine.
    pub fn without_paths(&self) -> PathBuf {
        self.target.join("without-paths")
    }

    /// The directory in which the tools of tests are built.
    pub fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// The cargo that started us, at the top of the checkout, with our target directory.
    pub fn cargo(&self, subcommand: &str) -> Command {
        let mut cargo = self.plain_cargo();
        cargo.args([subcommand, "--target-dir"]).arg(&self.target);
        cargo
    }

    /// The cargo that started us, on the guests' workspace.
    pub fn plugins_cargo(&self, subcommand: &str) -> Command {
        let mut cargo = self.plain_cargo();
        cargo
            .args([subcommand, "--manifest-path"])
            .arg(self.plugins_manifest())
            .arg("--target-dir")
            .arg(self.plugins_target());
        cargo
    }

    /// The cargo that started us, at the top of the checkout.
    pub fn plain_cargo(&self) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        // Set for test programs (`test/schedule.rs`), and the second one by `cargo run` too. Whoever sees the first one compiles everything again, and
        // ring's build script does so for each other value of the second one, with all crates above it.
        for name in ["RUSTC_BOOTSTRAP", "CARGO_MANIFEST_DIR"] {
            command.env_remove(name);
        }
        command.current_dir(&self.root);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_and_a_test_program_find_the_same_host() {
        for program in ["/t/debug/xtask", "/t/debug/deps/rules-0123"] {
            let workspace = Workspace::of(Path::new(program)).unwrap();
            assert_eq!(workspace.host_program(), Path::new("/t/debug/wasmount"));
            assert_eq!(workspace.tools(), Path::new("/t/tools"));
        }
    }

    #[test]
    fn a_program_outside_a_target_directory_is_refused() {
        assert!(Workspace::of(Path::new("xtask")).is_none());
    }
}
