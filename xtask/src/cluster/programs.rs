//! The programs of a cluster: builds them, and finds each by its name.

use super::supervisor::Service;
use crate::failure::Failure;
use crate::files;
use crate::tools::{self, Tool};
use crate::workspace::Workspace;
use sha2::{Digest, Sha256};
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The names under which Kubernetes' file is run.
const KUBERNETES: [&str; 6] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubelet",
];

/// A directory with all programs.
#[derive(Debug, Clone)]
pub struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// Builds the missing programs: about ten minutes of CPU from cold, half a minute with a warm Go cache.
    pub fn build(workspace: &Workspace) -> Result<Self, Failure> {
        let mut built = Vec::new();
        // Named by the targets of its links, so that no two states of the module share a directory.
        let mut digest = Sha256::new();
        for tool in tools::CLUSTER {
            let file = tool.build(workspace)?;
            digest.update(file.as_os_str().as_encoded_bytes());
            built.push((tool, file));
        }
        let digest = tools::hexadecimal(&digest.finalize());
        let directory = workspace.tools().join(format!("cluster-{digest}"));
        files::create_directory(&directory)?;
        for (tool, file) in &built {
            for name in names(tool) {
                link(file, &directory.join(name))?;
            }
        }
        Ok(Self { directory })
    }

    /// The directory of the programs.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A process of one program, without arguments; it has the program's name.
    pub(super) fn service(&self, name: &str) -> Service {
        Service::new(name, self.path(name))
    }

    /// The path of one program.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// The names under which a tool's file is run.
fn names(tool: &Tool) -> Vec<&'static str> {
    if *tool == tools::KUBERNETES {
        KUBERNETES.to_vec()
    } else {
        vec![tool.name]
    }
}

/// Another test program may create the same link at the same time.
fn link(file: &Path, link: &Path) -> Result<(), Failure> {
    match symlink(file, link) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(Failure::cannot(format!("create {}", link.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_programs_of_a_cluster_have_one_name() {
        let all: Vec<_> = tools::CLUSTER.iter().flat_map(names).collect();
        let each: BTreeSet<_> = all.iter().collect();
        assert_eq!(each.len(), all.len());
        assert!(each.contains(&"kubelet") && each.contains(&"csi-resizer"));
    }
}
