//! The pinned Helm, and the charts of `deploy/`.

use crate::failure::Failure;
use crate::tools;
use crate::workspace::Workspace;
use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Directories that Helm would otherwise have in the home of the user.
const HOMES: [&str; 3] = ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"];

/// A chart of `deploy/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chart {
    /// What all backends share; its folder is also that of the kustomization.
    Shared,
    /// One backend.
    Backend,
}

impl Chart {
    /// Both, in the order in which they are installed.
    pub const ALL: [Self; 2] = [Self::Shared, Self::Backend];

    /// Its folder.
    pub fn folder(self, workspace: &Workspace) -> PathBuf {
        let name = match self {
            Self::Shared => "deploy/shared",
            Self::Backend => "deploy/chart",
        };
        workspace.root().join(name)
    }
}

/// Helm without settings of the user; builds it first if necessary.
pub fn command(workspace: &Workspace) -> Result<Command, Failure> {
    let mut helm = Command::new(tools::HELM.build(workspace)?);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("HELM_") {
            helm.env_remove(name);
        }
    }
    let home = workspace.tools().join("helm-home");
    helm.envs(HOMES.map(|name| (name, &home)));
    Ok(helm)
}
