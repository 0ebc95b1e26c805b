//! Parses the paths that kubelet makes for CSI volumes (kubernetes pkg/volume/csi: csi_attacher.go, csi_mounter.go, csi_block.go).
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

/// A path below kubelet's root directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KubeletPath<'p> {
    /// `plugins/kubernetes.io/csi/<driver>/<hash of the volume handle>/globalmount`
    GlobalMount { driver: &'p str },
    /// `plugins/kubernetes.io/csi/pv/<volume>/globalmount`, used before Kubernetes 1.24.
    EarlierGlobalMount,
    /// `plugins/kubernetes.io/csi/volumeDevices/staging/<volume>`
    DeviceStaging,
    /// `pods/<pod>/volumes/kubernetes.io~csi/<volume>/mount`
    PodMount,
    /// `plugins/kubernetes.io/csi/volumeDevices/publish/<volume>/<pod>`
    DevicePublish,
}

impl<'p> KubeletPath<'p> {
    /// Parses a path relative to kubelet's root directory. `None`: kubelet makes no such path for CSI.
    pub(crate) fn parse(below: &'p Path) -> Option<Self> {
        let parts: Option<Vec<_>> = below.iter().map(|part| part.to_str()).collect();
        match parts?.as_slice() {
            ["pods", _, "volumes", "kubernetes.io~csi", _, "mount"] => Some(Self::PodMount),
            ["plugins", "kubernetes.io", "csi", rest @ ..] => match rest {
                [driver, hash, "globalmount"] if is_hash(hash) => {
                    Some(Self::GlobalMount { driver })
                }
                ["pv", _, "globalmount"] => Some(Self::EarlierGlobalMount),
                ["volumeDevices", "staging", _] => Some(Self::DeviceStaging),
                ["volumeDevices", "publish", _, _] => Some(Self::DevicePublish),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether kubelet uses this path in such a call of this driver.
    pub(crate) fn is_for(&self, purpose: Purpose, driver: &DriverName) -> bool {
        match self {
            Self::GlobalMount { driver: named } => {
                matches!(purpose, Purpose::Stage | Purpose::Unstage) && *named == driver.as_str()
            }
            Self::EarlierGlobalMount => purpose == Purpose::Unstage,
            Self::DeviceStaging => matches!(purpose, Purpose::Stage | Purpose::Unstage),
            Self::PodMount | Self::DevicePublish => {
                matches!(purpose, Purpose::Publish | Purpose::Unpublish)
            }
        }
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
        let parsed = KubeletPath::parse(Path::new(path));
        let all = [Stage, Unstage, Publish, Unpublish].into_iter();
        all.filter(|it| parsed.as_ref().is_some_and(|at| at.is_for(*it, &driver)))
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
