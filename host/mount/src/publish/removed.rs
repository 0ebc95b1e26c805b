//! An image or a directory that was removed under a volume that is staged: no pod may begin with it.
//!
//! It is apart because it asks sysfs and the mount's inode alone, so it costs some microseconds and waits for no storage. Targets that are
//! there stay: what runs must be able to copy its data away.

use super::{Publish, Published};
use crate::block::loop_device;
use crate::failure::kernel;
use crate::node::{Node, volume_words};
use crate::observe::is_removed;
use wasmount_core::mounter::MountError;
use wasmount_core::plan::Source;

const IMAGE_REMOVED: &str = "its image was removed from the pool, so that whatever is written now is lost when it is unstaged; copy its data away from pods that still run, then delete them";
const DIRECTORY_REMOVED: &str = "its directory was removed from the pool, so that nothing can be written there any more; delete the pods that use it, and restore the volume";

impl Node {
    /// Refuses a new target of a stage whose image or directory is gone.
    pub(super) fn refuse_removed(&self, publish: &Publish<'_>) -> Result<(), MountError> {
        let key = &publish.request.key;
        let Some(stage) = self.journal.entry(key).stage else {
            return Ok(());
        };
        let reason = match (&stage.plan.source, stage.block, &publish.what) {
            (Source::Image { path, .. }, Some(block), _) => {
                let name = path.rsplit('/').next().unwrap_or(path);
                loop_device::is_backing_removed(block.number, name).then_some(IMAGE_REMOVED)
            }
            (Source::Directory { .. }, _, Published::Stage(mount)) => is_removed(&mount.root)
                .map_err(|errno| kernel("statx", &stage.path, errno))?
                .then_some(DIRECTORY_REMOVED),
            _ => None,
        };
        match reason {
            Some(reason) => Err(MountError::Unusable {
                what: volume_words(key),
                reason: reason.to_owned(),
            }),
            None => Ok(()),
        }
    }
}
