//! The step `luks`: which volumes are encrypted.

use super::*;
use wasmount_core::plan::Luks;
use wasmount_core::plan::attached::SecretScope;

pub(super) fn tmpfs(size_bytes: Option<u64>) -> Plan {
    plan(Source::Tmpfs { size_bytes })
}

fn encrypted(plan: Plan) -> Plan {
    Plan {
        luks: Some(Luks::of(SecretScope::Request, "key")),
        ..plan
    }
}

#[test]
fn a_block_device_is_encrypted_without_a_grant_of_its_own() {
    let image = plan(Source::Image {
        pool: "main".to_owned(),
        path: "a".to_owned(),
    });
    for (plan, is_encrypted) in [(image.clone(), false), (encrypted(image), true)] {
        let checked = check(&plan, &plain(), false, &grants()).unwrap();
        assert_eq!(checked.is_encrypted, is_encrypted);
    }
}

#[test]
fn what_is_no_block_device_is_not_encrypted() {
    for plan in [tree("main", "a"), tmpfs(Some(1))] {
        let refused = check(&encrypted(plan), &plain(), false, &grants()).unwrap_err();
        assert!(
            refused.to_string().contains("not a block device"),
            "{refused}"
        );
    }
}
