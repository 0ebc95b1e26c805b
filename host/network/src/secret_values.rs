//! Values of the secrets that a grant names, as headers carry them. An error says what is wrong, without the value.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::HeaderValue;
use wasmount_core::document::network::Basic;
use wasmount_core::secrets::Secrets;
use zeroize::Zeroizing;

/// The value of a secret that a grant names.
pub(crate) fn secret<'s>(name: &str, secrets: &'s Secrets) -> Result<&'s str, String> {
    let value = secrets.get(name);
    value.ok_or_else(|| format!("the secret `{name}` has no value"))
}

/// A header value that is never shown, made of the secret `name`.
pub(crate) fn header(name: &str, value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        format!("the secret `{name}` cannot be sent in a header: it holds a line break or another control character")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The credentials of HTTP Basic, without the word before them.
pub(crate) fn basic(pair: &Basic, secrets: &Secrets) -> Result<Zeroizing<String>, String> {
    let user = secret(&pair.username, secrets)?;
    let password = secret(&pair.password, secrets)?;
    let pair = Zeroizing::new(format!("{user}:{password}"));
    Ok(Zeroizing::new(STANDARD.encode(pair.as_bytes())))
}
