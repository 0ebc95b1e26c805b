//! Flags of several subcommands: backends, directories, log level.
//!
//! It opens nothing but the documents.

use crate::config::{self, Configured};
use crate::fault::Fault;
use crate::host::MountPlaces;
use crate::telemetry::{self, LogFormat, LogLevels, Spans};
use clap::Args;
use std::fmt::Display;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use wasmount_mount::PathRoot;
use wasmount_socket::SOCKET_PATH_BYTES;

/// Of every process of a node.
#[derive(Debug, Args)]
pub(super) struct CommonFlags {
    /// A StorageBackend document; once for each backend
    #[arg(long, required = true, value_name = "FILE", env, value_delimiter = ',')]
    backend: Vec<PathBuf>,

    /// Log format on standard error
    #[arg(long, env, default_value = "text")]
    log_format: LogFormat,

    /// Log level: off, error, warn, info, debug or trace. It applies to the host and its plugins; other crates log at `warn`, unless they are
    /// named: `info,wasmount_mount=debug,h2=debug`
    #[arg(long, value_name = "LEVEL", env, default_value = "info")]
    log: LogLevels,

    /// Seconds that running calls may take after SIGTERM
    // 20: ten less than the 30 that Kubernetes gives a pod by default.
    #[arg(long, value_name = "SECONDS", env, default_value_t = 20)]
    grace: u64,
}

/// Of a process that mounts.
#[derive(Debug, Args)]
pub(super) struct MountFlags {
    /// Directory of the mount journal; it should not outlive a reboot
    #[arg(long, value_name = "DIR", env, default_value = "/run/wasmount")]
    pub(super) run_dir: PathBuf,

    /// kubelet's root directory
    #[arg(long, value_name = "DIR", env, default_value = "/var/lib/kubelet")]
    pub(super) kubelet_dir: PathBuf,

    /// Allow any staging and target path below this directory, for an orchestrator other than kubelet; may be repeated [default: --kubelet-dir,
    /// at the paths of kubelet only]
    #[arg(long, value_name = "DIR", env, value_delimiter = ',')]
    path_root: Vec<PathBuf>,

    /// The node's root directory, for a host in a container: programs of the node, such as `iscsiadm`, run there, and facts of the node are read there [default: this file system]
    #[arg(long, value_name = "DIR", env)]
    node_root: Option<PathBuf>,
}

impl CommonFlags {
    /// Starts the log and the spans, reads the documents; returns them and the grace period.
    pub(super) fn begin(self, spans: Spans<'_>) -> Result<(Vec<Configured>, Duration), Fault> {
        telemetry::start(self.log_format, self.log, spans);
        Ok((
            config::load(&self.backend)?,
            Duration::from_secs(self.grace),
        ))
    }
}

impl MountFlags {
    /// The directories, which exist but for the run directory. `mounts_volumes`: not only pools.
    pub(super) fn places(&self, mounts_volumes: bool) -> Result<MountPlaces, Fault> {
        let path_roots = match mounts_volumes {
            true => self.path_roots()?,
            false => Vec::new(),
        };
        if let Some(root) = &self.node_root {
            existing("--node-root", root)?;
        }
        Ok(MountPlaces {
            run_dir: self.run_dir.clone(),
            path_roots,
            node_root: self.node_root.clone(),
        })
    }

    fn path_roots(&self) -> Result<Vec<PathRoot>, Fault> {
        if self.path_root.is_empty() {
            existing("--kubelet-dir", &self.kubelet_dir)?;
            return Ok(vec![PathRoot::Kubelet(self.kubelet_dir.clone())]);
        }
        self.path_root
            .iter()
            .map(|root| self.path_root(root))
            .collect()
    }

    /// The allowed paths below one directory: no name of kubelet's directory, nor of one around or in it, bypasses the rule for kubelet's paths.
    fn path_root(&self, root: &Path) -> Result<PathRoot, Fault> {
        existing("--path-root", root)?;
        let kubelet = &self.kubelet_dir;
        let (Ok(real), Ok(real_kubelet)) = (root.canonicalize(), kubelet.canonicalize()) else {
            return Ok(PathRoot::Any(root.to_owned()));
        };
        if real == real_kubelet {
            return Ok(PathRoot::Kubelet(root.to_owned()));
        }
        if real.starts_with(&real_kubelet) || real_kubelet.starts_with(&real) {
            let reason = format!(
                "must not overlap with --kubelet-dir {}, below which only kubelet's own paths are taken; name a directory apart from it",
                kubelet.display()
            );
            return Err(wrong("--path-root", root, reason));
        }
        Ok(PathRoot::Any(root.to_owned()))
    }
}

/// A directory that the host creates if it is missing. Its parent must exist: a typing error in a long path must not become a new tree.
pub(super) fn makeable(flag: &'static str, path: &Path) -> Result<(), Fault> {
    plain(flag, path)?;
    if path.is_dir() {
        return Ok(());
    }
    if path.exists() {
        return Err(wrong(flag, path, "is not a directory"));
    }
    if path.parent().is_some_and(Path::is_dir) {
        return Ok(());
    }
    let reason = "neither it nor its parent directory exists; make the parent first";
    Err(wrong(flag, path, reason))
}

/// A directory that is there.
pub(super) fn existing(flag: &'static str, path: &Path) -> Result<(), Fault> {
    plain(flag, path)?;
    if path.is_dir() {
        return Ok(());
    }
    let reason = "is not an existing directory; make it first, or name another";
    Err(wrong(flag, path, reason))
}

/// Clients receive these paths and resolve them from other directories.
pub(super) fn plain(flag: &'static str, path: &Path) -> Result<(), Fault> {
    if path.is_relative() {
        return Err(wrong(flag, path, "must be an absolute path"));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(wrong(flag, path, "must not contain `..`"));
    }
    Ok(())
}

/// Checked before binding, since the kernel's own error would not say what to do.
pub(super) fn socket_fits(flag: &'static str, value: &Path, socket: &Path) -> Result<(), Fault> {
    let length = socket.as_os_str().len();
    if length <= SOCKET_PATH_BYTES {
        return Ok(());
    }
    let reason = format!(
        "the socket {} has a path of {length} bytes, and the kernel takes {SOCKET_PATH_BYTES}; choose a shorter directory",
        socket.display()
    );
    Err(wrong(flag, value, reason))
}

pub(super) fn wrong(flag: &'static str, path: &Path, reason: impl Display) -> Fault {
    Fault::flag(flag, path.display(), reason)
}
