//! What the descriptors say: every message, field, enum, value, service, method and mark of CSI 1.12 and 1.13 is ours with the same number and
//! type, and we have none that neither has.

use crate::wire::official::Official;
use crate::wire::{PACKAGE, ours};
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, MessageDescriptor, ReflectMessage,
};
use std::collections::BTreeMap;
use xtask::tools::{WIRE_1_12, WIRE_1_13};

/// Full names of what is declared, each with all that is said of it.
type Declared = BTreeMap<String, String>;

/// What CSI 1.12 declares, so that nothing of it is overlooked.
const DECLARED_BY_1_12: usize = 509;

/// What CSI 1.13 declares.
const DECLARED_BY_1_13: usize = 564;

#[test]
fn official_go_modules_declare_what_we_declare() {
    let ours = declared(&ours());
    let [old, new] = [WIRE_1_12, WIRE_1_13].map(|tool| declared(&Official::of(tool).descriptors()));
    assert_eq!((old.len(), new.len()), (DECLARED_BY_1_12, DECLARED_BY_1_13));
    let names = old.keys().chain(new.keys()).chain(ours.keys());
    for name in names {
        let official: Vec<_> = [&old, &new]
            .into_iter()
            .filter_map(|it| it.get(name))
            .collect();
        assert!(!official.is_empty(), "only Wasmount has {name}");
        let Some(here) = ours.get(name) else {
            panic!("we lack {name}: {official:?}");
        };
        assert!(official.contains(&here), "{name}: {here}, but {official:?}");
    }
}

/// Everything that the package declares.
fn declared(pool: &DescriptorPool) -> Declared {
    let mut declared = Declared::new();
    for message in pool
        .all_messages()
        .filter(|it| it.package_name() == PACKAGE)
    {
        let marks = marks(pool, &message.options());
        declared.insert(message.full_name().to_owned(), format!("message{marks}"));
        declared.extend(fields(pool, &message));
    }
    for kind in pool.all_enums().filter(|it| it.package_name() == PACKAGE) {
        let name = kind.full_name().to_owned();
        for value in kind.values() {
            let marks = marks(pool, &value.options());
            let text = format!("{}{marks}", value.number());
            declared.insert(format!("{name}.{}", value.name()), text);
        }
        declared.insert(name, format!("enum{}", marks(pool, &kind.options())));
    }
    for service in pool.services().filter(|it| it.package_name() == PACKAGE) {
        declared.insert(
            service.full_name().to_owned(),
            format!("service{}", marks(pool, &service.options())),
        );
        for method in service.methods() {
            let text = format!(
                "{}{} -> {}{}{}",
                stream(method.is_client_streaming()),
                method.input().full_name(),
                stream(method.is_server_streaming()),
                method.output().full_name(),
                marks(pool, &method.options())
            );
            declared.insert(method.full_name().to_owned(), text);
        }
    }
    for mark in pool
        .all_extensions()
        .filter(|it| it.package_name() == PACKAGE)
    {
        let of = mark.containing_message();
        let text = format!("{} {:?} of {}", mark.number(), mark.kind(), of.full_name());
        declared.insert(mark.full_name().to_owned(), text);
    }
    declared
}

fn fields(pool: &DescriptorPool, message: &MessageDescriptor) -> Declared {
    let describe = |field: FieldDescriptor| {
        let oneof = field.containing_oneof();
        let text = format!(
            "{} {:?} {:?} json {} in {:?}{}{}{}",
            field.number(),
            field.cardinality(),
            field.kind(),
            field.json_name(),
            oneof.as_ref().map(|it| it.name()),
            if field.is_map() { " map" } else { "" },
            if field.is_packed() { " packed" } else { "" },
            marks(pool, &field.options())
        );
        (field.full_name().to_owned(), text)
    };
    message.fields().map(describe).collect()
}

fn stream(is_stream: bool) -> &'static str {
    if is_stream { "stream " } else { "" }
}

/// Those of CSI that are set, by name.
fn marks(pool: &DescriptorPool, options: &DynamicMessage) -> String {
    let of_these = pool
        .all_extensions()
        .filter(|mark| mark.package_name() == PACKAGE)
        .filter(|mark| mark.containing_message() == options.descriptor())
        .filter(|mark| options.get_extension(mark).as_bool() == Some(true));
    of_these.map(|mark| format!(" {}", mark.name())).collect()
}
