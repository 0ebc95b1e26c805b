//! Tests of bundles: what is written is read, and what a stranger writes is refused.

use super::*;
use crate::attached::cosign_tag;
use crate::media_type::COSIGN_SIGNATURE;
use crate::wasm_config::Annotations;
use ::tar::{Builder, EntryType, Header};
use serde_json::{Value, json};

const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

fn facts() -> ComponentFacts {
    ComponentFacts {
        exports: vec!["wasmount:csi/identity@0.1.0".to_owned()],
        annotations: Annotations::from([("a".to_owned(), "b".to_owned())]),
        ..ComponentFacts::default()
    }
}

fn beside(subject: Option<&Bundle>, tag: Option<String>) -> AttachedManifest {
    let layer = b"{\"critical\":{}}".to_vec();
    let mut manifest = Manifest::new(
        Descriptor::of("application/vnd.oci.image.config.v1+json", b"{}"),
        vec![Descriptor::of(COSIGN_SIGNATURE, &layer)],
        Annotations::new(),
    );
    manifest.subject = subject.map(|it| Descriptor::of(&it.raw.media_type, &it.raw.bytes));
    let bytes = manifest.to_bytes();
    AttachedManifest {
        tag,
        raw: RawManifest {
            digest: Digest::of(&bytes),
            media_type: manifest.media_type().to_owned(),
            document: Document::Manifest(Box::new(manifest.clone())),
            bytes,
        },
        manifest,
        config: b"{}".to_vec(),
        layers: vec![layer],
    }
}

fn written(bundle: &Bundle) -> Vec<u8> {
    let mut bytes = Vec::new();
    bundle.write(Some("1.0"), &mut bytes).unwrap();
    bytes
}

/// The files of a good bundle, to be spoiled.
fn good() -> Vec<(String, Vec<u8>)> {
    let bytes = written(&Bundle::of_component(COMPONENT.to_vec(), &facts()));
    let mut archive = ::tar::Archive::new(bytes.as_slice());
    let files = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        (name, bytes)
    });
    files.collect()
}

fn archive(files: &[(String, Vec<u8>)], spoil: impl Fn(&mut Builder<Vec<u8>>)) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, bytes.as_slice())
            .unwrap();
    }
    spoil(&mut tar);
    tar.into_inner().unwrap()
}

/// An entry with a name that the library would not write.
fn raw_entry(tar: &mut Builder<Vec<u8>>, name: &[u8], kind: EntryType, size: u64) {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_cksum();
    tar.append(&header, io::empty()).unwrap();
}

fn refused(bytes: &[u8]) -> String {
    Bundle::read(bytes).unwrap_err().to_string()
}

#[test]
fn what_is_written_is_read_with_its_signatures() {
    let mut bundle = Bundle::of_component(COMPONENT.to_vec(), &facts());
    assert_eq!(Bundle::read(written(&bundle).as_slice()).unwrap(), bundle);
    let tag = cosign_tag(bundle.manifest_digest());
    let referrer = beside(Some(&bundle), None);
    bundle.attached = vec![beside(None, Some(tag)), referrer];
    let bytes = written(&bundle);
    assert_eq!(Bundle::read(bytes.as_slice()).unwrap(), bundle);
    assert_eq!(bytes, written(&bundle));
}

#[test]
fn a_signature_of_another_artifact_is_left_behind() {
    let mut bundle = Bundle::of_component(COMPONENT.to_vec(), &facts());
    let other = Bundle::of_component(b"other".to_vec(), &facts());
    let tag = cosign_tag(other.manifest_digest());
    bundle.attached = vec![beside(None, Some(tag)), beside(Some(&other), None)];
    let read = Bundle::read(written(&bundle).as_slice()).unwrap();
    assert_eq!(read.attached, []);
}

#[test]
fn files_of_other_tools_are_passed_over() {
    let mut files = good();
    for file in &mut files {
        file.0 = format!("./{}", file.0);
    }
    files.push(("manifest.json".to_owned(), b"[]".to_vec()));
    let bytes = archive(&files, |tar| {
        raw_entry(tar, b"blobs/", EntryType::Directory, 0)
    });
    assert_eq!(
        Bundle::read(bytes.as_slice()).unwrap().component(),
        COMPONENT
    );
}

#[test]
fn what_no_layout_has_is_refused_by_name() {
    let long = "x".repeat(90);
    for (name, kind, size, said) in [
        (
            "../../etc/passwd",
            EntryType::Regular,
            0,
            "is a file that no layout has",
        ),
        (
            "/etc/passwd",
            EntryType::Regular,
            0,
            "is a file that no layout has",
        ),
        (
            "blobs/sha256/../x",
            EntryType::Regular,
            0,
            "is a file that no layout has",
        ),
        (
            "blobs/sha512/00",
            EntryType::Regular,
            0,
            "is a file that no layout has",
        ),
        (
            long.as_str(),
            EntryType::Regular,
            0,
            "is a file that no layout has",
        ),
        (
            "index.json",
            EntryType::Symlink,
            0,
            "is neither a file nor a directory",
        ),
        (
            "index.json",
            EntryType::Link,
            0,
            "is neither a file nor a directory",
        ),
        (
            "oci-layout",
            EntryType::Fifo,
            0,
            "is neither a file nor a directory",
        ),
        ("oci-layout", EntryType::GNUSparse, 0, ""),
        (
            "etc/",
            EntryType::Directory,
            0,
            "is a directory that no layout has",
        ),
        ("index.json", EntryType::Regular, 0, "is there twice"),
        (
            "oci-layout",
            EntryType::Regular,
            1 << 30,
            "such a thing has 1048576 at most",
        ),
        (
            "x\u{1b}[31m\n",
            EntryType::Regular,
            0,
            "`x\\u{1b}[31m\\n` in it",
        ),
    ] {
        let bytes = archive(&good(), |tar| raw_entry(tar, name.as_bytes(), kind, size));
        let error = refused(&bytes);
        assert!(error.contains(said), "{name}: {error}");
    }
}

#[test]
fn a_bundle_that_is_not_whole_is_refused() {
    let files = good();
    for place in 0..files.len() {
        let mut fewer = files.clone();
        let (name, _) = fewer.remove(place);
        let error = refused(&archive(&fewer, |_| {}));
        assert!(error.contains("it has no `"), "{name}: {error}");
        let mut spoiled = files.clone();
        spoiled[place].1.push(b' ');
        if name.starts_with("blobs/") {
            let error = refused(&archive(&spoiled, |_| {}));
            assert!(error.contains("has bytes of another digest"), "{error}");
        }
    }
    let whole = archive(&files, |_| {});
    for length in [0, 100, 700, 3000] {
        assert!(Bundle::read(&whole[..length]).is_err(), "{length}");
    }
}

#[test]
fn an_archive_without_end_is_not_read_to_its_end() {
    let many = archive(&good(), |tar| {
        for _ in 0..600 {
            raw_entry(tar, b"blobs/", EntryType::Directory, 0);
        }
    });
    assert!(refused(&many).contains("more than 512 entries"));
    // A long name of GNU's form, as long as somebody likes.
    let mut long = archive(&[], |tar| {
        raw_entry(tar, b"././@LongLink", EntryType::GNULongName, 1 << 40);
    });
    long.truncate(512);
    let endless = io::Read::chain(long.as_slice(), io::repeat(b'a'));
    assert!(Bundle::read(endless).is_err());
}

#[test]
fn a_layout_of_other_things_is_refused_with_what_it_is() {
    let with_index = |index: &Value, blobs: &[&[u8]]| {
        let mut files = vec![
            (
                "oci-layout".to_owned(),
                br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec(),
            ),
            ("index.json".to_owned(), index.to_string().into_bytes()),
        ];
        for blob in blobs {
            files.push((
                format!("blobs/sha256/{}", Digest::of(blob).hex()),
                blob.to_vec(),
            ));
        }
        refused(&archive(&files, |_| {}))
    };
    let empty = json!({"schemaVersion": 2, "manifests": []});
    assert!(with_index(&empty, &[]).contains("it has 0 of them"));
    let image = Manifest::new(
        Descriptor::of("application/vnd.oci.image.config.v1+json", b"{}"),
        vec![Descriptor::of(
            "application/vnd.oci.image.layer.v1.tar+gzip",
            b"",
        )],
        Annotations::new(),
    )
    .to_bytes();
    let entry = Descriptor::of("application/vnd.oci.image.manifest.v1+json", &image);
    let index = json!({"schemaVersion": 2, "manifests": [entry]});
    assert!(with_index(&index, &[&image]).contains("so it is a container image"));
    let nested = serde_json::to_vec(&empty).unwrap();
    let entry = Descriptor::of("application/vnd.oci.image.index.v1+json", &nested);
    let index = json!({"schemaVersion": 2, "manifests": [entry]});
    assert!(with_index(&index, &[&nested]).contains("a list of artifacts"));
    let mut old = good();
    old[0].1 = br#"{"imageLayoutVersion":"2.0.0"}"#.to_vec();
    assert!(refused(&archive(&old, |_| {})).contains("of the version `2.0.0`"));
}
