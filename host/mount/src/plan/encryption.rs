//! The step `luks`: only block devices are encrypted. It needs no grant, since the device that is encrypted was granted.

use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::Plan;

/// Whether the volume of a plan is encrypted.
pub(super) fn check(plan: &Plan) -> Result<bool, MountError> {
    if plan.luks.is_none() || plan.source.is_block_device() {
        return Ok(plan.luks.is_some());
    }
    let step = plan.source.step();
    let reason =
        format!("a volume of step `{step}` is not a block device, and only those are encrypted");
    let blame = Blame::Of(Owner::Plugin);
    Err(MountError::invalid("step `luks`", reason, blame))
}
