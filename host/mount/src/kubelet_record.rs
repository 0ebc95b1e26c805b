//! Reads kubelet's own record of a path: the driver and the volume to which it belongs (`vol_data.json`, kubernetes pkg/volume/csi/csi_util.go).
//!
//! With it, volumes that an earlier driver of the same name staged can be torn down without any other record, and nothing is mounted at a path where
//! kubelet expects another volume. The record is only read.

use crate::confine::open_confined;
use crate::failure::shown;
use crate::roots::Roots;
use rustix::fs::OFlags;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use wasmount_core::mounter::{MountError, VolumeKey};

/// The file's name.
const FILE_NAME: &str = "vol_data.json";
/// Maximum number of bytes that are read; kubelet writes some hundred.
const FILE_BYTES: u64 = 64 << 10;
/// The last component of a target of a mounted volume. The record lies in the same directory.
const MOUNT: &str = "mount";
/// The same for a staging path.
const GLOBAL_MOUNT: &str = "globalmount";
/// The directory above kubelet's paths of raw block volumes.
const DEVICES_NAME: &str = "volumeDevices";

/// The fields that are used.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeData {
    driver_name: String,
    volume_handle: String,
}

/// Whether kubelet's record confirms that a path belongs to this volume. A missing or unreadable record does not.
pub(crate) fn confirms(roots: &Roots, path: &str, key: &VolumeKey) -> bool {
    recorded(roots, path).is_some_and(|data| data.is_of(key))
}

/// Refuses a path that kubelet's record assigns to another volume.
pub(crate) fn refuse_other(roots: &Roots, path: &str, key: &VolumeKey) -> Result<(), MountError> {
    match recorded(roots, path) {
        Some(other) if !other.is_of(key) => Err(MountError::in_use(
            path,
            format!(
                "kubelet keeps it for volume {} of {} ({FILE_NAME})",
                shown(&other.volume_handle),
                shown(&other.driver_name)
            ),
        )),
        _ => Ok(()),
    }
}

impl VolumeData {
    fn is_of(&self, key: &VolumeKey) -> bool {
        self.driver_name == key.driver.as_str() && self.volume_handle == key.volume.as_str()
    }
}

fn recorded(roots: &Roots, path: &str) -> Option<VolumeData> {
    record_of(Path::new(path)).and_then(|record| read(roots, &record))
}

/// The path of kubelet's record for a path in one of its forms.
fn record_of(path: &Path) -> Option<PathBuf> {
    let parts: Option<Vec<_>> = path.iter().map(|part| part.to_str()).collect();
    match parts?.as_slice() {
        [.., MOUNT | GLOBAL_MOUNT] => Some(path.with_file_name(FILE_NAME)),
        [devices @ .., "staging", volume] | [devices @ .., "publish", volume, _]
            if devices.ends_with(&[DEVICES_NAME]) =>
        {
            let devices: PathBuf = devices.iter().collect();
            Some(devices.join(volume).join("data").join(FILE_NAME))
        }
        _ => None,
    }
}

fn read(roots: &Roots, record: &Path) -> Option<VolumeData> {
    let location = roots.check_text(record.to_str()?).ok()?.locate().ok()??;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = open_confined(&location.parent, &*location.name, flags).ok()?;
    let record = BufReader::new(File::from(file).take(FILE_BYTES));
    serde_json::from_reader(record).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roots::PathRoot;
    use wasmount_core::names::{DriverName, VolumeId};

    #[test]
    fn the_record_of_each_of_kubelets_paths_is_found() {
        let csi = "/k/plugins/kubernetes.io/csi";
        for (path, record) in [
            (
                "/k/pods/1/volumes/kubernetes.io~csi/pv/mount",
                "/k/pods/1/volumes/kubernetes.io~csi/pv/vol_data.json".to_owned(),
            ),
            (
                &format!("{csi}/d/0a/globalmount"),
                format!("{csi}/d/0a/vol_data.json"),
            ),
            (
                &format!("{csi}/volumeDevices/staging/pv"),
                format!("{csi}/volumeDevices/pv/data/vol_data.json"),
            ),
            (
                &format!("{csi}/volumeDevices/publish/pv/pod"),
                format!("{csi}/volumeDevices/pv/data/vol_data.json"),
            ),
        ] {
            assert_eq!(record_of(Path::new(path)), Some(record.into()), "{path}");
        }
    }

    #[test]
    fn another_path_has_none() {
        for path in [
            "/",
            "/k",
            "/k/staging/pv",
            "/k/publish/pv/pod",
            "/k/other/volumeDevices/pv",
        ] {
            assert_eq!(record_of(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_kubelet_record_counts_for_its_own_volume_only() {
        let kubelet = tempfile::tempdir().unwrap();
        let roots = Roots::new(vec![PathRoot::Kubelet(kubelet.path().to_owned())]);
        let target = kubelet.path().join("pv/mount");
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        let target = target.to_str().unwrap();
        let key = |driver: &str, volume: &str| VolumeKey {
            driver: DriverName::parse(driver).unwrap(),
            volume: VolumeId::parse("volume_id", volume).unwrap(),
        };
        let is_refused = |key: &VolumeKey| refuse_other(&roots, target, key).is_err();
        assert!(!confirms(&roots, target, &key("a.test", "v")));
        assert!(!is_refused(&key("a.test", "v")));
        let record = kubelet.path().join("pv/vol_data.json");
        let data = r#"{"driverName":"a.test","volumeHandle":"v","specVolID":"pv","nodeName":"n"}"#;
        std::fs::write(&record, data).unwrap();
        assert!(confirms(&roots, target, &key("a.test", "v")));
        assert!(!confirms(&roots, target, &key("a.test", "w")));
        assert!(!confirms(&roots, target, &key("b.test", "v")));
        assert!(!is_refused(&key("a.test", "v")));
        assert!(is_refused(&key("a.test", "w")));
        assert!(is_refused(&key("b.test", "v")));
        std::fs::write(&record, &data[..20]).unwrap();
        assert!(!confirms(&roots, target, &key("a.test", "v")));
        assert!(!is_refused(&key("b.test", "v")));
    }
}
