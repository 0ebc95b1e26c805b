//! Values of the command line that become part of cluster objects. An invalid value is rejected here, where the user reads the reason, and not when
//! the object is applied.

use wasmount_core::document::{REFERENCE_SCHEME, Reference};

/// Longest name of a namespace, in bytes (RFC 1123, a label).
const LABEL_BYTES: usize = 63;

/// Parses a DNS label (RFC 1123), the form of a namespace's name in Kubernetes.
pub(super) fn namespace(value: &str) -> Result<String, String> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_label = (1..=LABEL_BYTES).contains(&value.len())
        && value.bytes().all(inner)
        && !value.starts_with('-')
        && !value.ends_with('-');
    match is_label {
        true => Ok(value.to_owned()),
        false => Err(format!(
            "a namespace is 1 to {LABEL_BYTES} lower-case letters, digits and, between them, `-`"
        )),
    }
}

/// Parses the name of an image, `[host/]repository[:tag][@sha256:..]`: that of an artifact, except that registry and tag have defaults.
pub(super) fn image(value: &str) -> Result<String, String> {
    if value.starts_with(REFERENCE_SCHEME) {
        return Err(format!("an image has no `{REFERENCE_SCHEME}` before it"));
    }
    let has_registry = value
        .split_once('/')
        .is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost");
    let mut whole = match has_registry {
        true => value.to_owned(),
        false => format!("docker.io/{value}"),
    };
    let last = whole.rsplit('/').next().unwrap_or_default();
    if !whole.contains('@') && !last.contains(':') {
        whole.push_str(":latest");
    }
    match Reference::parse(&whole) {
        Ok(_) => Ok(value.to_owned()),
        Err(invalid) => Err(format!("the image {invalid}")),
    }
}

/// Parses the common prefix of the names of images.
pub(super) fn image_prefix(value: &str) -> Result<String, String> {
    image(&format!("{value}/image:tag")).map(|_| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_a_label() {
        for value in ["a", "wasmount-system", "0", &"a".repeat(63)] {
            assert_eq!(namespace(value).as_deref(), Ok(value));
        }
        for value in ["", "A B", "a.b", "-a", "a-", "a\nb", &"a".repeat(64)] {
            assert!(namespace(value).is_err(), "{value:?}");
        }
    }

    #[test]
    fn an_image_is_named_as_container_runtimes_have_it() {
        let pinned = format!("a.b/c@sha256:{}", "0".repeat(64));
        for value in [
            "wasmount",
            "wasmount:0.1.0",
            "acme/wasmount:1",
            "localhost:5000/wasmount",
            "registry.example.com/storage/wasmount:1.4.0",
            &pinned,
        ] {
            assert_eq!(image(value).as_deref(), Ok(value));
        }
        for value in [
            "",
            "a\nb",
            "a b",
            "A/b:1",
            "a:",
            "a@b",
            "oci://a.b/c:1",
            "a.b/c@sha256:12",
            "/a",
        ] {
            assert!(image(value).is_err(), "{value:?}");
        }
        assert!(image_prefix("registry.k8s.io/sig-storage").is_ok());
        for value in ["", "a b", "a/", "a.b/c:1"] {
            assert!(image_prefix(value).is_err(), "{value:?}");
        }
    }
}
