//! Components whose imports have names without end: they are refused in few words, whatever they are called.

use crate::admin::refusals::{EMPTY_COMPONENT, Row, SAID_BYTES, Wish, all_refused, row};
use crate::admin::scene::Scene;
use wasmount_tests::builds::number;

/// A component that imports so many functions, by names of this length.
fn importing(names: usize, name_bytes: usize) -> Vec<u8> {
    // The type of a function.
    let mut wasm = [EMPTY_COMPONENT, &[7, 5, 1, 0x40, 0, 1, 0]].concat();
    let mut section = Vec::new();
    number(&mut section, names);
    for index in 0..names {
        let name = format!("a{index}");
        section.push(0);
        number(&mut section, name_bytes);
        section.extend(name.bytes());
        section.extend(std::iter::repeat_n(b'a', name_bytes - name.len()));
        section.extend([1, 0]);
    }
    wasm.push(10);
    number(&mut wasm, section.len());
    wasm.extend(section);
    wasm
}

/// What a component may call its imports.
fn endless_names() -> Vec<Row> {
    vec![
        row(
            "compile",
            Wish::Bytes(importing(513, 200)),
            [
                "more than 512 imports or exports",
                "build it with the SDK of this host",
            ],
        ),
        row(
            "compile",
            Wish::Bytes(importing(20, 95_000)),
            [
                "one whose name is longer than 256 bytes",
                "build it with the SDK of this host",
            ],
        ),
        row(
            "imports",
            Wish::Bytes(importing(512, 200)),
            ["imports what this host does not offer: a0", " and 496 more"],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_component_of_endless_names_is_rejected_briefly() {
    let scene = Scene::start();
    all_refused(&scene, endless_names()).await;
    let log = scene.host.log();
    let longest = log.lines().map(str::len).max();
    assert!(longest.unwrap() < SAID_BYTES, "{longest:?}");
}
