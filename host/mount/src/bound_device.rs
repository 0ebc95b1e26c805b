//! Raw block volumes at paths that the client made itself: kubelet binds what was published once more (`volumeDevices/<volume>/dev/<pod>`,
//! kubernetes pkg/volume/csi/csi_block.go) and asks for statistics there.
//!
//! Such a path is told by the device that it shows, and answered as the target of that device. It must not know what is asked.

use crate::block::DeviceNumber;
use crate::journal::entry::Entry;
use crate::node::Node;
use rustix::fs::{FileType, fstat};
use std::sync::Arc;
use wasmount_core::mounter::{MountError, VolumeKey};

impl Node {
    /// The path by which the journal knows what is at a path: itself, or the target of the device that is shown there. It may ask storage.
    pub(crate) fn recorded_path(&self, key: &VolumeKey, path: &str) -> String {
        let entry = self.journal.entry(key);
        let known = match may_be_bound(&entry, path) {
            true => self.shown_device(path).and_then(|it| target_of(&entry, it)),
            false => None,
        };
        known.unwrap_or(path).to_owned()
    }

    /// The block device whose node is at a path below a root.
    fn shown_device(&self, path: &str) -> Option<DeviceNumber> {
        let location = self.roots.check_text(path).ok()?.locate().ok()??;
        let status = fstat(location.open().ok()?).ok()?;
        let is_block = FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
        is_block.then(|| DeviceNumber::of_raw(status.st_rdev))
    }
}

/// The same for a caller that must not wait: on a thread for statistics, with their deadline.
pub(crate) async fn recorded_path(
    node: &Arc<Node>,
    key: &VolumeKey,
    path: &str,
) -> Result<String, MountError> {
    if !may_be_bound(&node.journal.entry(key), path) {
        return Ok(path.to_owned());
    }
    let question = {
        let (node, key, path) = (node.clone(), key.clone(), path.to_owned());
        move || Ok(node.recorded_path(&key, &path))
    };
    let answer = node.ask_storage(&key.driver, path, question).await?;
    Ok(answer.unwrap_or_else(|| path.to_owned()))
}

fn may_be_bound(entry: &Entry, path: &str) -> bool {
    !entry.is_at(path) && entry.targets.values().any(|it| it.capability.is_raw())
}

fn target_of(entry: &Entry, device: DeviceNumber) -> Option<&str> {
    let staged = entry.stage.as_ref().and_then(|stage| stage.block);
    let shows = |block: Option<_>| block.or(staged).is_some_and(|it| it.number == device);
    let mut targets = entry.targets.iter();
    let target = targets.find(|(_, target)| target.capability.is_raw() && shows(target.block));
    target.map(|(path, _)| path.as_str())
}
