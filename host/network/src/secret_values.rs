//! Values of the secrets that a grant names, as headers carry them.

use crate::error::NetworkError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::HeaderValue;
use wasmount_core::document::network::Basic;
use wasmount_core::secrets::Secrets;
use zeroize::Zeroizing;

/// The value of a secret that a grant names.
pub(crate) fn secret<'s>(
    grant: &str,
    name: &str,
    secrets: &'s Secrets,
) -> Result<&'s str, NetworkError> {
    secrets.get(name).ok_or_else(|| NetworkError::NoSecret {
        grant: grant.to_owned(),
        name: name.to_owned(),
    })
}

/// A header value that is never shown.
pub(crate) fn header(grant: &str, name: &str, value: &str) -> Result<HeaderValue, NetworkError> {
    let mut value = HeaderValue::from_str(value).map_err(|_| NetworkError::InvalidSecret {
        grant: grant.to_owned(),
        name: name.to_owned(),
        reason: "cannot be sent in a header: it holds a line break or another control character"
            .to_owned(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The value of `Authorization` for HTTP Basic.
pub(crate) fn basic(
    grant: &str,
    basic: &Basic,
    secrets: &Secrets,
) -> Result<Zeroizing<String>, NetworkError> {
    let user = secret(grant, &basic.username, secrets)?;
    let password = secret(grant, &basic.password, secrets)?;
    let pair = Zeroizing::new(format!("{user}:{password}"));
    Ok(Zeroizing::new(format!(
        "Basic {}",
        STANDARD.encode(pair.as_bytes())
    )))
}
