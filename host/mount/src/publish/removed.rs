//! An image that was removed under a volume that is staged: no pod may begin to write into it.
//!
//! It is apart because it asks sysfs alone, so it costs some microseconds and waits for no storage. Targets that are there stay: what runs
//! must be able to copy its data away.

use super::Publish;
use crate::block::loop_device;
use crate::node::{Node, volume_words};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::Source;

impl Node {
    /// Refuses a new target of a stage whose image is gone.
    pub(super) fn refuse_removed(&self, publish: &Publish<'_>) -> Result<(), MountError> {
        let key = &publish.request.key;
        let Some(stage) = self.journal.entry(key).stage else {
            return Ok(());
        };
        let (Source::Image { path, .. }, Some(block)) = (&stage.plan.source, stage.block) else {
            return Ok(());
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        if !loop_device::is_backing_removed(block.number, name) {
            return Ok(());
        }
        Err(MountError::Unusable {
            what: volume_words(key),
            reason: "its image was removed from the pool, so that whatever is written now is lost when it is unstaged; copy its data away from pods that still run, then delete them".to_owned(),
        })
    }
}
