//! Recognises the paths that kubelet makes for CSI volumes (kubernetes pkg/volume/csi: csi_attacher.go, csi_mounter.go, csi_block.go).
//!
//! Below kubelet's root directory the mounter accepts no other paths. The same directory contains other drivers' volumes, pods' secrets and kubelet's
//! own keys, and a compromised serving process would mount over them.

use std::path::Path;
use wasmount_core::names::DriverName;

/// Length of the hash in a staging path: SHA-256 in hexadecimal.
const HASH_CHARS: usize = 64;

/// What a call does at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Stage,
    Unstage,
    Publish,
    Unpublish,
}

/// Whether kubelet uses a path, relative to its root directory, in such a call of this driver.
pub(crate) fn is_used(below: &Path, purpose: Purpose, driver: &DriverName) -> bool {
    let is_of_stage = matches!(purpose, Purpose::Stage | Purpose::Unstage);
    let parts: Option<Vec<_>> = below.iter().map(|part| part.to_str()).collect();
    match parts.as_deref() {
        Some(["pods", _, "volumes", "kubernetes.io~csi", _, "mount"]) => !is_of_stage,
        Some(["plugins", "kubernetes.io", "csi", rest @ ..]) => match rest {
            [name, hash, "globalmount"] if is_hash(hash) => is_of_stage && *name == driver.as_str(),
            // Used before Kubernetes 1.24.
            ["pv", _, "globalmount"] => purpose == Purpose::Unstage,
            ["volumeDevices", "staging", _] => is_of_stage,
            ["volumeDevices", "publish", _, _] => !is_of_stage,
            _ => false,
        },
        _ => false,
    }
}

fn is_hash(part: &str) -> bool {
    let mut chars = part.bytes();
    part.len() == HASH_CHARS && chars.all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Purpose::{Publish, Stage, Unpublish, Unstage};

    const HASH: &str = "4f8a2c7d9e1b3a5f6c8d0e2f4a6b8c1d3e5f7a9b0c2d4e6f8a1b3c5d7e9f0a2b";

    fn purposes(path: &str, driver: &str) -> Vec<Purpose> {
        let driver = DriverName::parse(driver).unwrap();
        let all = [Stage, Unstage, Publish, Unpublish].into_iter();
        all.filter(|it| is_used(Path::new(path), *it, &driver))
            .collect()
    }

    #[test]
    fn paths_of_kubelet_are_taken_by_the_calls_that_name_them() {
        let csi = "plugins/kubernetes.io/csi";
        for (path, taken) in [
            (
                format!("{csi}/a.test/{HASH}/globalmount"),
                vec![Stage, Unstage],
            ),
            (
                format!("{csi}/volumeDevices/staging/pv"),
                vec![Stage, Unstage],
            ),
            (
                format!("{csi}/volumeDevices/publish/pv/pod"),
                vec![Publish, Unpublish],
            ),
            (
                "pods/1/volumes/kubernetes.io~csi/pv/mount".to_owned(),
                vec![Publish, Unpublish],
            ),
            // A kubelet before 1.24 staged it. Nothing is staged there any more.
            (format!("{csi}/pv/pvc-1/globalmount"), vec![Unstage]),
        ] {
            assert_eq!(purposes(&path, "a.test"), taken, "{path}");
        }
    }

    #[test]
    fn other_paths_below_kubelet_are_taken_by_no_call() {
        let csi = "plugins/kubernetes.io/csi";
        for path in [
            "pki".to_owned(),
            "pods".to_owned(),
            "pods/1/volumes/kubernetes.io~configmap/c".to_owned(),
            "pods/1/volumes/kubernetes.io~configmap/c/mount".to_owned(),
            "pods/1/volumes/kubernetes.io~csi/pv".to_owned(),
            "pods/1/volumes/kubernetes.io~csi/pv/vol_data.json".to_owned(),
            "pods/1/volumes/kubernetes.io~csi/pv/mount/below".to_owned(),
            "pods/1/volumeDevices/kubernetes.io~csi/pv".to_owned(),
            "plugins/a.test/csi.sock".to_owned(),
            // It belongs to another driver.
            format!("{csi}/b.test/{HASH}/globalmount"),
            format!("{csi}/a.test/{}/globalmount", HASH.to_uppercase()),
            format!("{csi}/a.test/volume/globalmount"),
            format!("{csi}/a.test/{HASH}"),
            format!("{csi}/volumeDevices/pv/dev/pod"),
            format!("{csi}/volumeDevices/pv/data/vol_data.json"),
            format!("{csi}/volumeDevices/staging"),
        ] {
            assert_eq!(purposes(&path, "a.test"), [], "{path}");
        }
    }
}
