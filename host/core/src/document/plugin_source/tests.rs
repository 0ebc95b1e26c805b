//! Names of artifacts and locations of components, as written in documents.

use super::*;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn the_name_of_an_artifact_is_read_and_written_alike() {
    for (text, registry, repository, tag, digest) in [
        (
            "oci://ghcr.io/acme/csi:1.2",
            "ghcr.io",
            "acme/csi",
            Some("1.2"),
            None,
        ),
        ("oci://localhost/a:b", "localhost", "a", Some("b"), None),
        (
            "oci://nas:5000/a/b_c/d.e-f:v1",
            "nas:5000",
            "a/b_c/d.e-f",
            Some("v1"),
            None,
        ),
        ("oci://[::1]:5000/a:b", "[::1]:5000", "a", Some("b"), None),
        (
            &format!("oci://a.b/c@{DIGEST}"),
            "a.b",
            "c",
            None,
            Some(DIGEST),
        ),
        (
            &format!("oci://a.b/c:d@{DIGEST}"),
            "a.b",
            "c",
            Some("d"),
            Some(DIGEST),
        ),
    ] {
        let reference = Reference::parse(text).unwrap();
        assert_eq!(reference.to_string(), text);
        assert_eq!(
            (
                reference.registry(),
                reference.repository(),
                reference.tag(),
                reference.digest()
            ),
            (registry, repository, tag, digest)
        );
        let short = text.strip_prefix(REFERENCE_SCHEME).unwrap();
        assert_eq!(Reference::parse(short).unwrap(), reference);
    }
}

#[test]
fn what_is_no_name_is_refused_with_the_reason() {
    for (text, reason) in [
        ("oci://plugin", "must be `oci://registry/repository:tag`"),
        ("oci://acme/csi:1", "has no registry"),
        ("oci://a.b:x/c:1", "has no registry"),
        ("oci://a.b/C:1", "has a repository"),
        ("oci://a.b/c//d:1", "has a repository"),
        ("oci://a.b/../d:1", "has a repository"),
        ("oci://a.b/c:-1", "has a tag"),
        ("oci://a.b/c", "names neither a tag nor a digest"),
        ("oci://a.b/c@sha256:12", "has a digest"),
        ("oci://a.b/c d:1", "has a repository"),
        ("", "must be"),
    ] {
        let refused = Reference::parse(text).unwrap_err().to_string();
        assert!(refused.starts_with(reason), "{text}: {refused}");
    }
}

#[test]
fn credentials_in_a_name_are_refused_and_not_repeated() {
    let pinned = format!("oci://ann:hunter2@a.b/c@{DIGEST}");
    for (text, shown) in [
        ("oci://ann:hunter2@a.b:5000/c:1", "oci://..@a.b:5000/c:1"),
        ("ann:hunter2@a.b/c:1", "..@a.b/c:1"),
        ("oci://ann:hun/ter2@a.b/c:1", "oci://..@a.b/c:1"),
        ("oci://ann:hunt@er2@a.b/c:1", "oci://..@a.b/c:1"),
        ("oci://ann@a.b/c", "oci://..@a.b/c"),
        (pinned.as_str(), &format!("oci://..@a.b/c@{DIGEST}")),
    ] {
        let refused = Reference::parse(text).unwrap_err().to_string();
        assert!(refused.starts_with("has a user or a password"), "{refused}");
        assert!(refused.contains("registry.credentials"), "{refused}");
        assert_eq!(without_credentials(text), shown);
    }
    let good = format!("oci://a.b/c:d@{DIGEST}");
    for text in [good.as_str(), "oci://a.b/c@sha256:12", "plugin.wasm"] {
        assert_eq!(without_credentials(text), text);
    }
}

#[test]
fn a_pinned_name_asks_for_its_digest() {
    let reference = Reference::parse("oci://a.b/c:d").unwrap();
    assert_eq!(reference.digest_or_tag(), "d");
    let pinned = reference.pinned(DIGEST.to_owned());
    assert_eq!(pinned.digest_or_tag(), DIGEST);
    assert_eq!(pinned.to_string(), format!("oci://a.b/c@{DIGEST}"));
    assert_eq!(pinned.tagged("e".to_owned()).to_string(), "oci://a.b/c:e");
}
