//! Tests of bundles: a written bundle can be read, and untrusted bundles are rejected.

mod bounds;

use super::*;
use crate::attached::cosign_tag;
use crate::fetch::Beside;
use crate::manifest::Annotations;
use crate::media_type::COSIGN_SIGNATURE;
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

fn attachment(subject: Option<&Bundle>, at_tag: bool) -> AttachedManifest {
    let layer = b"{\"critical\":{}}".to_vec();
    let mut manifest = Manifest::new(
        Descriptor::of("application/vnd.oci.image.config.v1+json", b"{}"),
        vec![Descriptor::of(COSIGN_SIGNATURE, &layer)],
        Annotations::new(),
    );
    manifest.subject = subject.map(|it| Descriptor::of(&it.raw.media_type, &it.raw.bytes));
    AttachedManifest {
        at_tag,
        raw: manifest.into(),
        config: b"{}".to_vec(),
        layers: vec![layer],
    }
}

fn written(bundle: &Bundle) -> Vec<u8> {
    let mut bytes = Vec::new();
    bundle.write(Some("1.0"), &mut bytes).unwrap();
    bytes
}

/// The files of a valid bundle, for a test to corrupt.
fn good() -> Vec<(String, Vec<u8>)> {
    files_of(&written(&Bundle::of_component(
        COMPONENT.to_vec(),
        &facts(),
    )))
}

fn files_of(bundle: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = ::tar::Archive::new(bundle);
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
    let referrer = attachment(Some(&bundle), false);
    bundle.attached = vec![attachment(None, true), referrer];
    let bytes = written(&bundle);
    assert_eq!(Bundle::read(bytes.as_slice()).unwrap(), bundle);
    assert_eq!(bytes, written(&bundle));
}

#[test]
fn other_tools_find_the_name_of_a_file_in_an_artifact() {
    let bundle = Bundle::of_component(COMPONENT.to_vec(), &facts());
    let layer = bundle.raw.document.component().unwrap();
    assert_eq!(layer.annotations[TITLE], "component.wasm");
}

#[test]
fn what_lay_beside_a_file_is_what_is_found_again() {
    let plain = || Bundle::of_component(COMPONENT.to_vec(), &facts());
    assert_eq!(plain().with_beside(Beside::default()), plain());
    let (signature, bundle) = (Some(b"MEUC".to_vec()), Some(b"{}".to_vec()));
    for beside in [
        Beside {
            signature: signature.clone(),
            bundle: None,
        },
        Beside { signature, bundle },
    ] {
        let whole = plain().with_beside(beside.clone());
        let read = Bundle::read(written(&whole).as_slice()).unwrap();
        assert_eq!(read, whole);
        assert_eq!(read.manifest_digest(), plain().manifest_digest());
        assert_eq!((read.beside(), read.of_registry()), (beside, 0));
    }
    let mut of_registry = plain();
    of_registry.attached = vec![attachment(Some(&plain()), false)];
    assert_eq!(of_registry.beside(), Beside::default());
    assert_eq!(of_registry.of_registry(), 1);
}

/// Replaces the tags in the index; an entry without a tag there has none here.
fn retagged(bundle: &Bundle, tags: &[Option<&str>]) -> Vec<u8> {
    let bytes = written(bundle);
    let mut files = files_of(&bytes);
    let (_, index) = files
        .iter_mut()
        .find(|(name, _)| name == "index.json")
        .unwrap();
    let mut list: Value = serde_json::from_slice(index).unwrap();
    for (entry, tag) in list["manifests"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .zip(tags)
    {
        entry["annotations"] = json!({});
        if let Some(tag) = tag {
            entry["annotations"]["org.opencontainers.image.ref.name"] = json!(tag);
        }
    }
    *index = list.to_string().into_bytes();
    archive(&files, |_| {})
}

#[test]
fn a_signature_of_another_artifact_is_left_behind() {
    let mut bundle = Bundle::of_component(COMPONENT.to_vec(), &facts());
    let other = Bundle::of_component(b"other".to_vec(), &facts());
    let tag = cosign_tag(other.manifest_digest());
    bundle.attached = vec![attachment(None, false), attachment(Some(&other), false)];
    let read = retagged(&bundle, &[None, Some(&tag), None]);
    assert_eq!(Bundle::read(read.as_slice()).unwrap().attached, []);
}

#[test]
fn a_tag_that_is_not_cosigns_is_no_place_for_a_signature() {
    let mut bundle = Bundle::of_component(COMPONENT.to_vec(), &facts());
    bundle.attached = vec![attachment(Some(&bundle), true)];
    let at_tag = |tag: &str| {
        let bytes = retagged(&bundle, &[None, Some(tag)]);
        let read = Bundle::read(bytes.as_slice()).unwrap();
        read.attached.iter().map(|it| it.at_tag).collect::<Vec<_>>()
    };
    assert_eq!(at_tag(&cosign_tag(bundle.manifest_digest())), [true]);
    for strange in ["stable", "../../other/manifests/latest", ""] {
        assert_eq!(at_tag(strange), [false], "{strange}");
    }
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
    for (name, kind, size, message) in [
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
        assert!(error.contains(message), "{name}: {error}");
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
fn what_is_no_tar_is_refused_without_its_bytes() {
    let noise: Vec<u8> = (0..2048_u32)
        .map(|it| (it.wrapping_mul(2_654_435_761) >> 24) as u8 | 0x80)
        .collect();
    let mut damaged = archive(&good(), |_| {});
    damaged[2 * 512..][..512].fill(0xc3);
    for (bytes, reason) in [
        (noise.as_slice(), "it is not a tar archive"),
        (COMPONENT, "it is WebAssembly itself"),
        (b"\x1f\x8b\x08\0rest", "it is compressed with gzip"),
        (
            damaged.as_slice(),
            "it is a damaged or incomplete tar archive",
        ),
    ] {
        let error = refused(bytes);
        let expected = format!("it is not a file of `wasmount save`: {reason}");
        assert!(error.starts_with(&expected), "{error:?}");
        assert!(error.is_ascii(), "{error:?}");
    }
}

#[test]
fn what_the_system_says_is_kept() {
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(5))
        }
    }
    for first in [0, 512] {
        let whole = archive(&good(), |_| {});
        let error = Bundle::read(io::Read::chain(&whole[..first], Broken)).unwrap_err();
        assert!(matches!(error, BundleError::Io(_)), "{error}");
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
    // A long name in GNU's format, of any length.
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
