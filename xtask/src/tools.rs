//! The pinned tools that tests use. Each is built from a Go module of its own under `tests/go`, with a go.sum that covers all of its sources, into a
//! file that is named by a digest of that module: an existing file is the right one, and needs neither Go nor a network.

use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::workspace::Workspace;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of the modules in the checkout.
const MODULES: &str = "tests/go";

/// Bytes of a digest in a file name: enough that two states of a module never share one.
const DIGEST_BYTES: usize = 8;

/// Options of the compiler, for all packages: tables for debuggers, which the linker drops anyway, take a tenth of its time.
const COMPILE: &str = "all=-dwarf=false";

/// Linker flags of each tool: no tables for debuggers, and no symbols.
const LINK: &str = "-s -w";

/// How far the heap of the compiler grows between two collections, in percent: 100 by default. It ends before it needs much.
const COMPILER_GOGC: &str = "400";

/// The module of csi-sanity.
const CSI_TEST: &str = "github.com/kubernetes-csi/csi-test/v5";

/// The module from which the wire format is read.
const CSI_SPECIFICATION: &str = "github.com/container-storage-interface/spec";

/// The module of both snapshot programs.
const SNAPSHOTTER: &str = "github.com/kubernetes-csi/external-snapshotter/v8";

/// The folder of the programs of a cluster. They share one build list, so that common packages are compiled once.
const CLUSTER_FOLDER: &str = "cluster";

/// A program of a Go module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// The name of its file, before the version.
    pub name: &'static str,
    /// The version of the software that it provides.
    pub version: &'static str,
    /// The Go module that has this version.
    pub pin: &'static str,
    /// The folder of our module, which depends on that one.
    folder: &'static str,
    /// The manifest in that folder, which pins that version.
    manifest: &'static str,
    /// Whether to build that module's own command of this name, not the program in our folder.
    is_command: bool,
    /// More linker flags: versions that a program prints, as `{version}`.
    link: &'static str,
}

/// csi-sanity of the last version for CSI 1.12 alone.
pub const CSI_SANITY_5_4: Tool = Tool {
    is_command: true,
    ..own("csi-sanity", "5.4.0", CSI_TEST, "csi-sanity-v5.4")
};

/// csi-sanity of the first version that supports CSI 1.13.
pub const CSI_SANITY_5_6: Tool = Tool {
    is_command: true,
    ..own("csi-sanity", "5.6.0", CSI_TEST, "csi-sanity-v5.6")
};

/// The wire format in the specification's own Go module.
pub const WIRE_1_12: Tool = own("wire", "1.12.0", CSI_SPECIFICATION, "wire");

/// The same for CSI 1.13.
pub const WIRE_1_13: Tool = Tool {
    manifest: "go-1.13.mod",
    ..own("wire", "1.13.0", CSI_SPECIFICATION, "wire")
};

/// Prometheus' own parsers and rule evaluation: promtool would take several minutes of CPU, most of them for service discovery.
pub const PROMETHEUS: Tool = own(
    "prometheus",
    "0.311.3",
    "github.com/prometheus/prometheus",
    "prometheus",
);

/// Makes and verifies signatures, without cosign's command line.
pub const COSIGN: Tool = own("cosign", "3.1.3", "github.com/sigstore/cosign/v3", "cosign");

/// Kubernetes with etcd, in one file that is run under its programs' names: about ten minutes of CPU from cold.
pub const KUBERNETES: Tool = Tool {
    link: "-X k8s.io/component-base/version.gitVersion=v{version} -X k8s.io/component-base/version.gitMajor=1 \
        -X k8s.io/component-base/version.gitMinor=36 -X k8s.io/client-go/pkg/version.gitVersion=v{version}",
    ..own("kubernetes", "1.36.3", "k8s.io/kubernetes", CLUSTER_FOLDER)
};

/// external-provisioner: creates volumes for claims.
pub const CSI_PROVISIONER: Tool = kubernetes_csi(
    "csi-provisioner",
    "6.3.0",
    "github.com/kubernetes-csi/external-provisioner/v6",
);

/// external-attacher: attaches volumes to nodes.
pub const CSI_ATTACHER: Tool = kubernetes_csi(
    "csi-attacher",
    "4.12.0",
    "github.com/kubernetes-csi/external-attacher/v4",
);

/// external-resizer: expands volumes.
pub const CSI_RESIZER: Tool = kubernetes_csi(
    "csi-resizer",
    "2.2.0",
    "github.com/kubernetes-csi/external-resizer/v2",
);

/// external-snapshotter: takes snapshots, on behalf of the snapshot controller.
pub const CSI_SNAPSHOTTER: Tool = kubernetes_csi("csi-snapshotter", "8.6.0", SNAPSHOTTER);

/// The snapshot controller: one for each cluster, whatever drivers it has.
pub const SNAPSHOT_CONTROLLER: Tool = kubernetes_csi("snapshot-controller", "8.6.0", SNAPSHOTTER);

/// Installs and packages the charts. It shares most of its packages with Kubernetes.
pub const HELM: Tool = Tool {
    is_command: true,
    link: "-X helm.sh/helm/v4/internal/version.version=v{version}",
    ..own("helm", "4.2.4", "helm.sh/helm/v4", "helm")
};

/// The tools of a cluster.
pub const CLUSTER: [Tool; 7] = [
    KUBERNETES,
    CSI_PROVISIONER,
    CSI_ATTACHER,
    CSI_RESIZER,
    CSI_SNAPSHOTTER,
    SNAPSHOT_CONTROLLER,
    HELM,
];

/// The sidecars that run in pods beside a driver.
pub const SIDECARS: [Tool; 4] = [CSI_PROVISIONER, CSI_ATTACHER, CSI_RESIZER, CSI_SNAPSHOTTER];

/// All other tools; the first is the one that users run by hand.
pub const ALL: [Tool; 6] = [
    CSI_SANITY_5_4,
    CSI_SANITY_5_6,
    WIRE_1_12,
    WIRE_1_13,
    COSIGN,
    PROMETHEUS,
];

/// The program in one of our folders.
const fn own(
    name: &'static str,
    version: &'static str,
    pin: &'static str,
    folder: &'static str,
) -> Tool {
    Tool {
        name,
        version,
        pin,
        folder,
        manifest: "go.mod",
        is_command: false,
        link: "",
    }
}

/// A program of the Kubernetes CSI project in a cluster.
const fn kubernetes_csi(name: &'static str, version: &'static str, pin: &'static str) -> Tool {
    Tool {
        is_command: true,
        link: "-X main.version=v{version}",
        ..own(name, version, pin, CLUSTER_FOLDER)
    }
}

impl Tool {
    /// The path of its program; builds it first if necessary (csi-sanity takes about a minute of CPU from cold).
    pub fn build(&self, workspace: &Workspace) -> Result<PathBuf, Failure> {
        let module = self.module(workspace);
        let link = self.link();
        let digest = digest(&module, &format!("{COMPILE} {link}"))?;
        let tool = workspace
            .tools()
            .join(format!("{}-{}-{digest}", self.name, self.version));
        if tool.is_file() {
            return Ok(tool);
        }
        self.check_go(workspace, "csi-sanity and its like are built with it")?;
        let package = match self.is_command {
            true => format!("{}/cmd/{}", self.pin, self.name),
            false => ".".to_owned(),
        };
        files::complete(&tool, |unfinished| {
            command::run(
                Command::new("go")
                    .current_dir(&module)
                    .env("CGO_ENABLED", "0")
                    .env("GOGC", COMPILER_GOGC)
                    .args(["build", "-trimpath", "-modfile", self.manifest])
                    .args(["-gcflags", COMPILE, "-ldflags", &link, "-o"])
                    .arg(unfinished)
                    .arg(package),
            )
        })?;
        Ok(tool)
    }

    /// The directory in which Go keeps the sources of a module that this one depends on.
    pub fn sources_of(&self, workspace: &Workspace, module: &str) -> Result<PathBuf, Failure> {
        self.check_go(workspace, "it knows where the sources lie")?;
        // Downloads it if no build did: a module without Go code is in no build.
        let answer = command::read(
            Command::new("go")
                .current_dir(self.module(workspace))
                .args(["mod", "download", "-json", module]),
        )?;
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let directory = answer.get("Dir").and_then(Value::as_str);
        directory.map(PathBuf::from).ok_or_else(|| {
            Failure::Unexpected(format!(
                "`go mod download` does not tell where {module} lies"
            ))
        })
    }

    fn module(&self, workspace: &Workspace) -> PathBuf {
        workspace.root().join(MODULES).join(self.folder)
    }

    fn link(&self) -> String {
        format!("{LINK} {}", self.link.replace("{version}", self.version))
    }

    /// An older Go than the `go` line of the manifest rejects it, or downloads another Go.
    fn check_go(&self, workspace: &Workspace, why: &str) -> Result<(), Failure> {
        let manifest = files::read_text(&self.module(workspace).join(self.manifest))?;
        let line = manifest.lines().find(|line| line.starts_with("go "));
        check_go(line.and_then(version).unwrap_or_default(), why)
    }
}

/// The digest of the names and contents of a module's files, and of the flags to build it with.
pub fn digest(module: &Path, flags: &str) -> Result<String, Failure> {
    let mut digest = Sha256::new();
    for file in files::entries(module)? {
        let name = file.file_name().unwrap_or_default();
        // Lengths first, so that no name or content can be confused with the end of another.
        for part in [name.as_encoded_bytes(), &files::read(&file)?] {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
    }
    digest.update(flags);
    Ok(hexadecimal(&digest.finalize()))
}

/// The part of a digest that is used in a file name.
pub(crate) fn hexadecimal(digest: &[u8]) -> String {
    hex::encode(digest.get(..DIGEST_BYTES).unwrap_or(digest))
}

/// Fails if Go is missing or older than this; `why` says what needs it.
pub fn check_go(required: (u32, u32), why: &str) -> Result<(), Failure> {
    let (major, minor) = required;
    let printed = command::read(Command::new("go").args(["env", "GOVERSION"])).ok();
    match printed.as_deref().and_then(version) {
        Some(version) if version >= required => Ok(()),
        _ => Err(Failure::missing(
            format!("Go {major}.{minor} or later"),
            format!(
                "{why}; install it from https://go.dev/dl, or leave it out with `cargo xtask test --fast`"
            ),
        )),
    }
}

/// Parses a version: `go1.26.8` and `go 1.26.0` are (1, 26).
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("go")?.trim().split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor: String = numbers
        .next()?
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    Some((major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_versions_that_go_prints_are_read() {
        let table = [
            ("go1.26.8\n", Some((1, 26))),
            ("go1.24", Some((1, 24))),
            ("go1.25rc1", Some((1, 25))),
            ("go 1.24.0", Some((1, 24))),
            ("devel", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(version(text), expected, "{text:?}");
        }
    }

    #[test]
    fn every_module_pins_the_version_that_its_tool_is_called_by() {
        let workspace = Workspace::locate().unwrap();
        for tool in ALL.into_iter().chain(CLUSTER) {
            let manifest = tool.module(&workspace).join(tool.manifest);
            let manifest = fs::read_to_string(manifest).unwrap();
            let pinned = format!("\t{} v{}", tool.pin, tool.version);
            assert!(manifest.contains(&pinned), "{tool:?}: {manifest}");
            let line = manifest.lines().find(|line| line.starts_with("go "));
            assert!(line.and_then(version).is_some(), "{tool:?}: {manifest}");
            if !tool.link.is_empty() {
                assert!(tool.link().contains(&format!("ersion=v{}", tool.version)));
            }
        }
    }

    #[test]
    fn a_module_has_another_digest_once_anything_in_it_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            fs::write(folder.path().join(name), content).unwrap();
            digest(folder.path(), "").unwrap()
        };
        let first = write("go.mod", "a");
        assert_eq!(digest(folder.path(), "").unwrap(), first);
        assert_ne!(digest(folder.path(), "-s").unwrap(), first);
        assert_eq!(first.len(), 2 * DIGEST_BYTES);
        assert_ne!(write("go.mod", "b"), first);
        assert_eq!(write("go.mod", "a"), first);
        assert_ne!(write("main.go", ""), first);
    }
}
