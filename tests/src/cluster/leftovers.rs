//! What is left of a deleted volume on the node: mounts, kubelet's directories, loop devices, content of the pool.

use crate::cluster::drivers::{self, KUBELET};
use crate::loop_devices;
use xtask::cluster::Cluster;
use xtask::command;
use xtask::failure::Failure;

/// Volumes and pods that were deleted from the API server.
#[derive(Debug, Clone, Default)]
pub struct Gone {
    /// The `volumeHandle` of each volume.
    pub handles: Vec<String>,
    /// Each pod's UID.
    pub pods: Vec<String>,
}

/// Messages about everything that is left of them. No other string on the node contains a volume's id or a pod's UID, so a line that contains one
/// belongs to it.
pub fn left_of(cluster: &Cluster, gone: &Gone) -> Result<Vec<String>, Failure> {
    let pods = format!("{KUBELET}/pods");
    // kubelet stores the volume's id beside its staging path.
    let staged = format!("{KUBELET}/plugins/kubernetes.io/csi");
    let pools = drivers::pools();
    let mut mounts = cluster.enter("cat");
    mounts.arg("/proc/self/mountinfo");
    let mut directories = cluster.enter("find");
    directories.args([&pods, "-maxdepth", "1"]);
    let mut notes = cluster.enter("find");
    // A file that is removed during the search is not left.
    notes.args([&staged, "-name", "vol_data.json", "-exec", "cat", "{}", ";"]);
    let mut content = cluster.enter("find");
    content.arg(&pools);
    let mut found = Vec::new();
    for (what, mut look) in [
        ("mounted", mounts),
        ("directory of a pod", directories),
        ("staged", notes),
        ("in the pool", content),
    ] {
        let seen = command::try_read(&mut look)?.stdout;
        found.extend(named(what, &String::from_utf8_lossy(&seen), gone));
    }
    found.extend(named(
        "loop device on",
        &loop_devices::backing_files()?.join("\n"),
        gone,
    ));
    Ok(found)
}

/// The lines that contain the id of a deleted volume or pod.
fn named(what: &str, lines: &str, gone: &Gone) -> Vec<String> {
    let ids = || gone.handles.iter().chain(&gone.pods);
    let is_left = |line: &&str| ids().any(|id| line.contains(id.as_str()));
    let left = lines.lines().filter(is_left);
    left.map(|line| format!("{what}: {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone() -> Gone {
        Gone {
            handles: vec!["hostpath-1".to_owned()],
            pods: vec!["uid-1".to_owned()],
        }
    }

    #[test]
    fn what_names_a_volume_or_a_pod_that_is_gone_is_left() {
        let lines = "/pods/uid-1/volumes\n/pools/hostpath-1\n";
        let left = ["there: /pods/uid-1/volumes", "there: /pools/hostpath-1"];
        assert_eq!(named("there", lines, &gone()), left);
    }

    #[test]
    fn what_names_others_is_theirs() {
        assert!(named("there", "/pods/uid-2\n/pools/hostpath-2\n", &gone()).is_empty());
    }
}
