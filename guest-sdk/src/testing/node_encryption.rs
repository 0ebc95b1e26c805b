//! The interface `node-encryption` in memory.

use super::node_plan::add_with_secrets;
use crate::error::Error;
use crate::secrets::Scope;

/// Encryption by LUKS2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Luks {
    /// Whose secret it is.
    pub scope: Scope,
    /// The name of the secret that is the passphrase.
    pub key: String,
}

pub(crate) fn luks(scope: Scope, key: &str) -> Result<(), Error> {
    let first = "a step that is a block device";
    add_with_secrets(["luks", first], scope, &[key], |plan| {
        if !plan.source.as_ref()?.is_block_device() {
            return None;
        }
        plan.luks = Some(Luks {
            scope,
            key: key.to_owned(),
        });
        Some(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::pool::Pool;
    use crate::testing::{self, RecordedPlan};

    const POOL: Pool = Pool::named("volumes");

    #[test]
    fn an_image_is_encrypted_by_a_secret_of_this_name() {
        testing::reset();
        testing::set_secret(Scope::Request, "luksKey", "correct horse");
        let plan = testing::record(|plan| {
            plan.image(&POOL, "a.img")?;
            plan.luks(Scope::Request, "luksKey")
        });
        let key = "luksKey".to_owned();
        let scope = Scope::Request;
        assert_eq!(plan.map(|plan| plan.luks), Ok(Some(Luks { scope, key })));
    }

    #[test]
    fn encryption_without_a_secret_or_a_device_is_refused() {
        testing::reset();
        testing::set_secret(Scope::Request, "luksKey", "correct horse");
        let code = |answer: Result<RecordedPlan, Error>| answer.map_err(|error| error.code);
        let missing = testing::record(|plan| {
            plan.image(&POOL, "a.img")?;
            plan.luks(Scope::Request, "none")
        });
        assert_eq!(code(missing), Err(Code::InvalidArgument));
        let of_tree = testing::record(|plan| {
            plan.directory(&POOL, "a")?;
            plan.luks(Scope::Request, "luksKey")
        });
        assert_eq!(code(of_tree), Err(Code::InvalidArgument));
        let early = testing::record(|plan| plan.luks(Scope::Request, "luksKey"));
        assert_eq!(code(early), Err(Code::InvalidArgument));
    }
}
