//! Landlock: files and network that a child does not reach, as whichever user it runs.

use crate::Bounds;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

/// The newest form of the rules that the hosts we test on have (Linux 6.15). An older kernel enforces as much as it knows.
const RULES: ABI = ABI::V7;

/// Whether this kernel has any of it.
pub(crate) fn are_here() -> bool {
    let files = AccessFs::from_all(ABI::V1);
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let rules = rules.handle_access(files).and_then(Ruleset::create);
    rules.is_ok()
}

/// Leaves files below `readable`, to be read and not to be run, and TCP where there is a network; signals and abstract sockets of others
/// are out of reach. How much of that this kernel has is told.
pub(crate) fn raise(bounds: &Bounds) -> Result<LandlockStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(RULES))?
        .scope(Scope::from_all(RULES))?;
    if !bounds.network {
        rules = rules.handle_access(AccessNet::from_all(RULES))?;
    }
    let readable = path_beneath_rules(&bounds.readable, AccessFs::ReadFile | AccessFs::ReadDir);
    let raised = rules.create()?.add_rules(readable)?.restrict_self()?;
    Ok(raised.landlock)
}

#[cfg(test)]
mod tests;
