//! The interface `sealed-secrets` in memory: a sealed text is a number, behind which is what it seals.

use super::node_plan::{Source, add_checked};
use super::{attempt, with};
use crate::error::Error;

/// The beginning of each sealed text, as on the real host.
const PREFIX: &str = "wasmount.sealed.v1:";

/// Volume and value of each text, by its number.
pub(super) type Sealed = Vec<(String, String)>;

/// Grants sealing.
pub fn grant_sealing() {
    with(|host| {
        host.sealing.get_or_insert_default();
    });
}

/// The volume and the value of a sealed text: what the host of a node would open.
pub fn unsealed(text: &str) -> Option<(String, String)> {
    let number: usize = text.strip_prefix(PREFIX)?.parse().ok()?;
    with(|host| host.sealing.as_ref()?.get(number).cloned())
}

pub(crate) fn seal(volume: &str, value: &str) -> Result<String, Error> {
    attempt(|host| {
        if host.recording.is_some() {
            let reason = "values are sealed in calls of the controller service only";
            return Err(Error::failed_precondition(reason));
        }
        let sealed = host.sealing.as_mut().ok_or_else(denied)?;
        if value.is_empty() {
            return Err(Error::invalid_argument("a value to seal is not empty"));
        }
        let pair = (volume.to_owned(), value.to_owned());
        let number = sealed.iter().position(|it| *it == pair);
        let number = number.unwrap_or_else(|| {
            sealed.push(pair);
            sealed.len() - 1
        });
        Ok(format!("{PREFIX}{number}"))
    })
}

pub(crate) fn secret_options(options: &[(String, String)]) -> Result<(), Error> {
    if with(|host| host.sealing.is_none()) {
        return Err(denied());
    }
    let mut texts = options.iter().map(|(_, text)| text);
    let refused = (!texts.all(|text| text.starts_with(PREFIX)))
        .then(|| Error::invalid_argument("it names what is no sealed text"));
    let steps = ["secret-options", "the step `filesystem`"];
    add_checked(steps, refused, |plan| match plan.source.as_mut()? {
        Source::Filesystem { sealed_options, .. } => {
            sealed_options.extend_from_slice(options);
            Some(())
        }
        _ => None,
    })
}

fn denied() -> Error {
    Error::permission_denied("sealing is not granted; name a secret in grants.sealing")
}

#[cfg(test)]
mod tests {
    use crate::error::{Code, Error};
    use crate::sealed_secrets::seal;
    use crate::secrets::Secret;
    use crate::testing::{self, Source};

    fn staged(text: &str) -> Result<Source, Error> {
        let staged = testing::record(|plan| {
            plan.filesystem("ceph", "a:/", &[], &[])?;
            plan.sealed_secret_options(&[("secret", text)])
        });
        staged.map(|plan| plan.source)
    }

    #[test]
    fn a_sealed_value_is_bound_to_its_volume() {
        testing::reset();
        testing::grant_sealing();
        let key = Secret::new("AQBk");
        let text = seal("a", &key).unwrap();
        assert_eq!(seal("a", &key).as_ref(), Ok(&text));
        assert_ne!(seal("b", &key).as_ref(), Ok(&text));
        let value = ("a".to_owned(), "AQBk".to_owned());
        assert_eq!(testing::unsealed(&text), Some(value));
        let Ok(Source::Filesystem { sealed_options, .. }) = staged(&text) else {
            panic!("no file system");
        };
        assert_eq!(sealed_options, [("secret".to_owned(), text)]);
    }

    #[test]
    fn sealing_without_grant_or_with_a_text_in_clear_is_refused() {
        testing::reset();
        let code = |error: Error| error.code;
        let sealed = seal("a", &Secret::new("AQBk")).map_err(code);
        assert_eq!(sealed, Err(Code::PermissionDenied));
        let denied = staged("wasmount.sealed.v1:0").map_err(code);
        assert_eq!(denied, Err(Code::PermissionDenied));
        testing::grant_sealing();
        assert_eq!(staged("AQBk").map_err(code), Err(Code::InvalidArgument));
    }
}
