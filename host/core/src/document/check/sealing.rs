//! The secrets that a document names for sealing.

use super::{Checked, known_secret};
use crate::document::{KeyPath, SealingGrant, raw};
use std::collections::BTreeSet;

/// Each secret is one of the document; `secrets` are their names.
pub(super) fn checked(
    key: &KeyPath,
    sealing: raw::Sealing,
    secrets: &BTreeSet<String>,
) -> Checked<SealingGrant> {
    let raw::Sealing {
        secret,
        previous_secrets,
    } = sealing;
    known_secret(&key.key("secret"), &secret, secrets)?;
    let previous_key = key.key("previousSecrets");
    let reason = format!("has more than {} entries", SealingGrant::PREVIOUS_SECRETS);
    previous_key.ensure(
        previous_secrets.len() <= SealingGrant::PREVIOUS_SECRETS,
        &reason,
    )?;
    let previous_secrets = previous_key.each(previous_secrets, |key, name| {
        known_secret(key, &name, secrets)?;
        key.ensure(name != secret, "is the `secret` itself")?;
        Ok(name)
    })?;
    Ok(SealingGrant {
        secret,
        previous_secrets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(secret: &str, previous: &[&str]) -> Result<SealingGrant, String> {
        let secrets = ["new", "old"].map(str::to_owned).into();
        let sealing = raw::Sealing {
            secret: secret.to_owned(),
            previous_secrets: previous.iter().map(|it| (*it).to_owned()).collect(),
        };
        let granted = checked(&KeyPath::of("spec.grants.sealing"), sealing, &secrets);
        granted.map_err(|refused| refused.to_string())
    }

    #[test]
    fn secrets_of_the_document_are_granted_for_sealing() {
        let expected = SealingGrant {
            secret: "new".to_owned(),
            previous_secrets: vec!["old".to_owned()],
        };
        assert_eq!(granted("new", &["old"]), Ok(expected));
        assert!(granted("new", &[]).is_ok());
    }

    #[test]
    fn a_secret_for_sealing_that_cannot_serve_is_refused() {
        for (secret, previous, refused) in [
            (
                "none",
                &[][..],
                "secret: names the secret `none`, which is not in `spec.secrets`",
            ),
            (
                "new",
                &["old", "none"],
                "previousSecrets[1]: names the secret `none`, which is not in `spec.secrets`",
            ),
            (
                "new",
                &["new"],
                "previousSecrets[0]: is the `secret` itself",
            ),
            (
                "new",
                &["old"; 9],
                "previousSecrets: has more than 8 entries",
            ),
        ] {
            let refused = format!("spec.grants.sealing.{refused}");
            assert_eq!(granted(secret, previous), Err(refused));
        }
    }
}
