//! Bundles whose index has many entries, or one entry many times: each is rejected before it costs memory.

use super::*;
use crate::attached::BLOB_BYTES;

/// A valid bundle with these manifests in its index too.
fn listing(manifests: &[Vec<u8>]) -> Vec<u8> {
    let mut files = good();
    for bytes in manifests {
        let name = format!("blobs/sha256/{}", Digest::of(bytes).hex());
        if !files.iter().any(|(it, _)| *it == name) {
            files.push((name, bytes.clone()));
        }
        let mut list = files.iter_mut().filter(|(name, _)| name == "index.json");
        let (_, index) = list.next().unwrap();
        let mut value: Value = serde_json::from_slice(index).unwrap();
        let entry = Descriptor::of("application/vnd.oci.image.manifest.v1+json", bytes);
        value["manifests"]
            .as_array_mut()
            .unwrap()
            .push(json!(entry));
        *index = value.to_string().into_bytes();
    }
    archive(&files, |_| {})
}

/// A manifest of something else, of this many bytes.
fn other(number: usize, bytes: usize) -> Vec<u8> {
    let config = Descriptor::of("application/vnd.oci.empty.v1+json", b"{}");
    let annotations = Annotations::from([("number".to_owned(), number.to_string())]);
    let mut manifest = Manifest::new(config, Vec::new(), annotations).to_bytes();
    manifest.resize(bytes.max(manifest.len()), b' ');
    manifest
}

fn others(count: usize, bytes: usize) -> Vec<u8> {
    listing(
        &(0..count)
            .map(|number| other(number, bytes))
            .collect::<Vec<_>>(),
    )
}

#[test]
fn a_list_names_only_so_many_manifests_and_each_once() {
    assert!(Bundle::read(others(63, 0).as_slice()).is_ok());
    assert!(refused(&others(64, 0)).contains("it has more than 64 manifests"));
    let error = refused(&listing(&[other(1, 0), other(1, 0)]));
    assert!(error.contains("is listed twice"), "{error}");
}

#[test]
fn manifests_are_only_so_large_each_and_together() {
    const MEBIBYTE: usize = 1 << 20;
    assert!(Bundle::read(others(1, MEBIBYTE).as_slice()).is_ok());
    let error = refused(&others(1, MEBIBYTE + 1));
    assert!(
        error.contains("such a thing has 1048576 at most"),
        "{error}"
    );
    let error = refused(&others(4, MEBIBYTE));
    assert!(
        error.contains("more than 4194304 bytes of manifests"),
        "{error}"
    );
}

#[test]
fn no_signature_is_as_large_as_a_component() {
    let mut bundle = Bundle::of_component(COMPONENT.to_vec(), &facts());
    let large = |bytes: u64| vec![b'x'; usize::try_from(bytes).unwrap()];
    for (bytes, is_read) in [(BLOB_BYTES, true), (BLOB_BYTES + 1, false)] {
        let layer = large(bytes);
        let mut beside = attachment(Some(&bundle), false);
        let mut manifest = beside.raw.document;
        manifest.layers = vec![Descriptor::of(COSIGN_SIGNATURE, &layer)];
        beside.raw = manifest.into();
        beside.layers = vec![layer];
        bundle.attached = vec![beside];
        let read = Bundle::read(written(&bundle).as_slice());
        assert_eq!(read.is_ok(), is_read, "{bytes}");
    }
}

#[test]
fn foreign_text_is_shortened_in_an_error() {
    let kind = "x".repeat(100_000);
    let manifest = json!({ "schemaVersion": 2, "mediaType": kind });
    let error = refused(&listing(&[manifest.to_string().into_bytes()]));
    assert!(error.len() < 500, "{}", error.len());
}
