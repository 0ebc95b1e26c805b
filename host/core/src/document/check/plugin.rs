//! `spec.plugin`: exactly one source, and the requirements for its content.

use super::{Checked, file_path, secret_source};
use crate::document::{
    KeyPath, PluginPlace, PluginSource, PublicKey, Reference, RegistryPlace, Signers, Wasi,
    is_digest, raw,
};

/// Start of a public key in PEM, whatever text precedes it (RFC 7468).
const PEM_BEGINS: &str = "-----BEGIN PUBLIC KEY-----";
/// Most keys of a list: every signature is compared with each of them.
const KEYS_MAX: usize = 16;

/// The source of the plugin.
pub(super) fn source(key: &KeyPath, plugin: raw::Plugin) -> Checked<PluginSource> {
    let raw::Plugin {
        path,
        reference,
        registry,
        digest,
        wasi,
        verify,
    } = plugin;
    let place = place(key, path, reference, registry)?;
    key.key("digest").ensure(
        digest.as_deref().is_none_or(is_digest),
        "must be `sha256:` and 64 lower-case hexadecimal digits",
    )?;
    let wasi = match wasi.as_deref() {
        None => Wasi::default(),
        Some("minimal") => Wasi::Minimal,
        Some("full") => Wasi::Full,
        Some(_) => {
            return Err(key.key("wasi").invalid(
                "must be `minimal`, or `full` for a plugin whose language runtime imports files and sockets, which then fail",
            ));
        }
    };
    let signers = match verify {
        None => Signers::default(),
        Some(verify) => signers(&key.key("verify"), verify)?,
    };
    Ok(PluginSource {
        place,
        digest,
        wasi,
        signers,
    })
}

fn place(
    key: &KeyPath,
    path: Option<String>,
    reference: Option<String>,
    registry: Option<raw::RegistryAccess>,
) -> Checked<PluginPlace> {
    match (path, reference) {
        (Some(path), None) => {
            key.key("registry").ensure(
                registry.is_none(),
                "is for a `reference`; a file needs no registry",
            )?;
            Ok(PluginPlace::File(file_path(&key.key("path"), path)?))
        }
        (None, Some(reference)) => {
            let key_of_reference = key.key("reference");
            let reference = Reference::parse(&reference)
                .map_err(|invalid| key_of_reference.invalid(invalid.to_string()))?;
            let key = key.key("registry");
            let raw::RegistryAccess {
                credentials,
                ca_file,
                plain_http,
            } = registry.unwrap_or_default();
            let credentials = credentials
                .map(|secret| secret_source(&key.key("credentials"), secret))
                .transpose()?;
            let ca_file = ca_file
                .map(|path| file_path(&key.key("caFile"), path))
                .transpose()?;
            Ok(PluginPlace::Registry(RegistryPlace {
                reference,
                credentials,
                ca_file,
                plain_http,
            }))
        }
        (None, None) => Err(key.invalid(
            "must have a `path`, the file of the component, or a `reference`, its name in a registry",
        )),
        (Some(_), Some(_)) => Err(key.invalid("has both `path` and `reference`; name one place")),
    }
}

fn signers(key: &KeyPath, verify: raw::Verify) -> Checked<Signers> {
    let raw::Verify { any_of, all_of } = verify;
    key.ensure(
        !any_of.is_empty() || !all_of.is_empty(),
        "names no key, so any component would pass; name one in `anyOf` or `allOf`, or leave the key out",
    )?;
    Ok(Signers {
        any_of: public_keys(&key.key("anyOf"), any_of)?,
        all_of: public_keys(&key.key("allOf"), all_of)?,
    })
}

fn public_keys(key: &KeyPath, keys: Vec<raw::VerifyKey>) -> Checked<Vec<PublicKey>> {
    key.ensure(
        keys.len() <= KEYS_MAX,
        &format!("has more than {KEYS_MAX} keys"),
    )?;
    key.each(keys, public_key)
}

fn public_key(key: &KeyPath, public: raw::VerifyKey) -> Checked<PublicKey> {
    let raw::VerifyKey { file, pem } = public;
    match (file, pem) {
        (Some(path), None) => Ok(PublicKey::File(file_path(&key.key("file"), path)?)),
        (None, Some(pem)) => {
            let begins = format!("must be a public key that begins with `{PEM_BEGINS}`");
            key.key("pem").ensure(pem.contains(PEM_BEGINS), &begins)?;
            Ok(PublicKey::Inline(pem))
        }
        _ => Err(key.invalid("must have one of `file` and `pem`")),
    }
}
