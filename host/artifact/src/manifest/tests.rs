//! Tests of parsing manifests and selecting from them.

use super::*;
use crate::media_type::{DOCKER_INDEX, WASM_CONFIG, WASM_LAYER};
use serde_json::{Value, json};

fn descriptor(media_type: &str) -> Value {
    json!({"mediaType": media_type, "digest": Digest::of(media_type.as_bytes()), "size": 3})
}

fn manifest(layers: &[&str]) -> Value {
    let layers: Vec<_> = layers.iter().map(|it| descriptor(it)).collect();
    json!({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": descriptor(WASM_CONFIG), "layers": layers})
}

fn index(architectures: &[Option<&str>]) -> Value {
    let entry = |architecture: &Option<&str>| {
        let mut entry = descriptor(OCI_MANIFEST);
        if let Some(architecture) = architecture {
            entry["platform"] = json!({"architecture": architecture, "os": "x"});
            entry["digest"] = json!(Digest::of(architecture.as_bytes()));
        }
        entry
    };
    let manifests: Vec<_> = architectures.iter().map(entry).collect();
    json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests})
}

fn parse(value: &Value, content_type: Option<&str>) -> Result<Document, String> {
    Document::parse(value.to_string().as_bytes(), content_type)
}

fn component(layers: &[&str]) -> Result<String, String> {
    let Document::Manifest(manifest) = parse(&manifest(layers), None)? else {
        panic!("a list");
    };
    manifest.component().map(|layer| layer.media_type.clone())
}

fn chosen(architectures: &[Option<&str>]) -> Result<Digest, String> {
    let Document::Index(index) = parse(&index(architectures), Some(OCI_INDEX))? else {
        panic!("no list");
    };
    index.component().map(|it| it.digest.clone())
}

#[test]
fn the_layers_of_today_and_before_are_components() {
    for layer in [
        WASM_LAYER,
        "application/vnd.wasm.content.layer.v1+wasm",
        "application/vnd.module.wasm.content.layer.v1+wasm",
    ] {
        assert_eq!(component(&[layer]), Ok(layer.to_owned()));
    }
}

#[test]
fn what_is_no_component_is_named() {
    let image = "application/vnd.oci.image.layer.v1.tar+gzip";
    for (layers, message) in [
        (vec![], "it has no layer"),
        (vec![image], "so it is a container image"),
        (vec!["text/plain"], "its layer is `text/plain`; push"),
        (vec![WASM_LAYER, WASM_LAYER], "it has 2 layers"),
        (vec![WASM_LAYER, image], "it has 2 layers"),
    ] {
        let error = component(&layers).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_list_is_chosen_from_by_the_architecture() {
    let wasm = Digest::of(b"wasm");
    assert_eq!(chosen(&[Some("amd64"), Some("wasm")]), Ok(wasm.clone()));
    assert_eq!(chosen(&[None, Some("wasm")]), Ok(wasm));
    assert_eq!(chosen(&[None]), Ok(Digest::of(OCI_MANIFEST.as_bytes())));
    for (architectures, message) in [
        (vec![], "a list of 0 manifests"),
        (vec![Some("amd64")], "none of them for the architecture"),
        (vec![Some("wasm"), Some("wasm")], "2 manifests that match"),
        (vec![None, None], "2 manifests that match"),
    ] {
        let error = chosen(&architectures).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn bytes_are_one_thing_to_every_reader() {
    let mut both = manifest(&[WASM_LAYER]);
    both["manifests"] = json!([]);
    let mut unnamed = both.clone();
    unnamed.as_object_mut().unwrap().remove("mediaType");
    for (value, content_type, why) in [
        (&both, None, "both layers and manifests"),
        (&unnamed, None, "both layers and manifests"),
        (&unnamed, Some(DOCKER_INDEX), "both layers and manifests"),
        (&manifest(&[]), Some(OCI_INDEX), "its content type is"),
        (&index(&[]), Some(OCI_MANIFEST), "its content type is"),
        (
            &json!({"schemaVersion": 1, "layers": [], "config": descriptor("x")}),
            None,
            "`schemaVersion`",
        ),
        (&json!({"mediaType": "text/plain"}), None, "neither"),
        (&json!([]), None, ""),
        (&json!({}), None, "missing field"),
    ] {
        let error = parse(value, content_type).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    let charset = format!("{OCI_MANIFEST}; charset=utf-8");
    assert!(parse(&manifest(&[]), Some(&charset)).is_ok());
    // A proxy that does not know the media type.
    assert!(parse(&manifest(&[]), Some("text/plain")).is_ok());
}

#[test]
fn a_digest_of_another_kind_is_not_followed() {
    let mut value = manifest(&[WASM_LAYER]);
    for digest in ["sha512:00", "", "../../x"] {
        value["layers"][0]["digest"] = json!(digest);
        assert!(
            parse(&value, None)
                .unwrap_err()
                .contains("is not `sha256:`")
        );
    }
    value["layers"][0]["digest"] = json!(Digest::of(b""));
    value["layers"][0]["size"] = json!(-1);
    assert!(parse(&value, None).is_err());
}

#[test]
fn our_own_manifest_is_read_again_as_it_was() {
    let layer = Descriptor::of(WASM_LAYER, b"wasm");
    let annotations = Annotations::from([("a".to_owned(), "b".to_owned())]);
    let ours = Manifest::new(Descriptor::of(WASM_CONFIG, b"{}"), vec![layer], annotations);
    let bytes = serde_json::to_vec(&ours).unwrap();
    let read = Document::parse(&bytes, Some(OCI_MANIFEST)).unwrap();
    assert_eq!(read, Document::Manifest(Box::new(ours)));
}

#[test]
fn referrers_beside_one_that_is_unreadable_are_read() {
    let ours = Descriptor::of(OCI_MANIFEST, b"ours");
    let mut other = json!(ours);
    other["digest"] = json!("sha512:00");
    let list = json!({"schemaVersion": 2, "manifests": [other, 1, ours]});
    assert_eq!(
        readable_entries(list.to_string().as_bytes()),
        Ok(vec![ours])
    );
}

#[test]
fn a_list_of_referrers_without_entries_is_malformed() {
    for list in ["{}", "[]", "{\"manifests\":1}", "x"] {
        assert!(readable_entries(list.as_bytes()).is_err(), "{list}");
    }
}
