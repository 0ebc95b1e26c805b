//! Landlock: restricts the files and the network that a child can reach, whichever user runs it.

use crate::Bounds;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

/// The newest ABI of Landlock on the hosts that run our tests (Linux 6.15). An older kernel enforces what it supports.
const RULES: ABI = ABI::V7;

/// Whether this kernel has Landlock.
pub(crate) fn are_here() -> bool {
    let files = AccessFs::from_all(ABI::V1);
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let rules = rules.handle_access(files).and_then(Ruleset::create);
    rules.is_ok()
}

/// Permits reading files below `readable`, but not executing them, and TCP where the bounds include the network; signals and abstract sockets of
/// other processes are out of reach. Returns how much of that this kernel enforces.
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
