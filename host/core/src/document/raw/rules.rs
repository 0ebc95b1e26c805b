//! Rules of the schema beyond a type: CEL expressions and patterns for the API server. Each repeats a rule of `check`, which validates files. The
//! host validates objects by `check` as well, which covers rules that a schema cannot express.

use crate::document::AttachProtocol;
use crate::node_fact::NodeFact;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// `sha256:` and its digits.
pub(super) const DIGEST: &str = "^sha256:[0-9a-f]{64}$";
/// A full path: an object has no directory to which a path could be relative.
pub(super) const FULL_PATH: &str = "^/[^\\x00]*$";
/// Text without a NUL byte, and not empty.
pub(super) const TEXT: &str = "^[^\\x00]+$";
/// One mount option.
pub(super) const OPTION: &str = "^[^, \\x00]+$";
/// A pattern of sources or facts: a `*` at its end only.
pub(super) const START: &str = "^([^*\\x00]+\\*?|\\*)$";
/// One source, without a pattern.
pub(super) const EXACT: &str = "^[^*\\x00]+$";
/// Addresses with a port.
pub(super) const PORTALS: &str = "^[0-9a-fA-F.:/\\[\\]]+:[0-9]{1,5}$";
/// A name of Kubernetes.
pub(super) const NAME: &str = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$";
/// A driver's name.
pub(super) const DRIVER_NAME: &str = "^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$";
/// A label's key, with or without a prefix.
const LABEL_KEY: &str =
    "^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$";
/// A label's value.
const LABEL_VALUE: &str = "^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$";
/// A time such as `1m30s`.
const DURATION: &str = "^([0-9]+(ms|s|m|h))+$";
/// Bytes such as `64Mi`.
const QUANTITY: &str = "^[0-9]+(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?$";
/// An artifact's name: registry, repository, and tag or digest.
pub(super) const REFERENCE: &str = concat!(
    "^(oci://)?",
    "(localhost|[A-Za-z0-9-]*\\.[A-Za-z0-9.-]*|[A-Za-z0-9.-]+:[0-9]{1,5}|\\[[0-9A-Fa-f:.]+\\](:[0-9]{1,5})?)",
    "(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)+",
    "(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}(@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})$"
);

/// Validation rules: a CEL expression and the message if it is false.
pub(super) fn rules<const N: usize>(rules: [(&str, &str); N]) -> Value {
    rules
        .map(|(rule, message)| json!({ "rule": rule, "message": message }))
        .into()
}

/// A duration above 0, and at most `most`.
pub(super) fn time(most: &str) -> Schema {
    let rule = format!("duration(self) > duration('0s') && duration(self) <= duration('{most}')");
    let message = format!("must be a duration such as `60s`, longer than 0s and at most {most}");
    json_schema!({
        "type": "string",
        "maxLength": 32,
        "pattern": DURATION,
        "x-kubernetes-validations": rules([(rule.as_str(), message.as_str())]),
    })
}

/// At most a day.
pub(super) fn day(_: &mut SchemaGenerator) -> Schema {
    time("24h")
}

/// At most an hour.
pub(super) fn hour(_: &mut SchemaGenerator) -> Schema {
    time("1h")
}

/// At most a week.
pub(super) fn week(_: &mut SchemaGenerator) -> Schema {
    time("168h")
}

/// Labels of nodes, by key.
pub(super) fn labels(_: &mut SchemaGenerator) -> Schema {
    let known = format!("self.all(key, key.size() <= 317 && key.matches('{LABEL_KEY}'))");
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": super::LABELS_MAX,
        "additionalProperties": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE },
        "x-kubernetes-validations": rules([(known.as_str(), "is not a label of Kubernetes, such as `tier: canary`")]),
    })
}

/// Bytes, as a number or with a unit.
pub(super) fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "minimum": 0,
        "maxLength": 24,
        "pattern": QUANTITY,
    })
}

/// Bytes that a guest can address: 64Ki to 4Gi.
pub(super) fn memory(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = bytes(generator);
    let between = "quantity(string(self)).compareTo(quantity('64Ki')) >= 0 && \
                   quantity(string(self)).compareTo(quantity('4Gi')) <= 0";
    schema.insert(
        "x-kubernetes-validations".to_owned(),
        rules([(between, "must be between 64Ki and 4Gi")]),
    );
    schema
}

/// Facts of a device, by name.
pub(super) fn facts(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<String> = crate::device_fact::DeviceFact::ALL
        .iter()
        .map(|fact| format!("'{}'", fact.name()))
        .collect();
    let known = format!("self.all(fact, fact in [{}])", names.join(", "));
    let unknown = format!("unknown fact; known are {}", names.join(", "));
    json_schema!({
        "type": "object",
        "maxProperties": names.len(),
        "additionalProperties": { "type": "string", "maxLength": 1024, "pattern": START },
        "x-kubernetes-validations": rules([
            (known.as_str(), unknown.as_str()),
            (
                "self.exists(fact, fact != 'partition' && self[fact] != '*')",
                "would grant disks of every kind; name a fact other than `partition` with more than `*`",
            ),
        ]),
    })
}

/// Protocols by which disks are attached.
pub(super) fn attach_protocols(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<_> = AttachProtocol::ALL.iter().map(|it| it.name()).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// Names of facts of the node.
pub(super) fn node_facts(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<_> = NodeFact::ALL.iter().map(|fact| fact.name()).collect();
    json_schema!({ "type": "array", "items": { "type": "string", "enum": names }, "maxItems": names.len(), "x-kubernetes-list-type": "set" })
}

/// Texts, or names of secrets, by name.
pub(super) fn secret_texts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": super::PARTS_MAX,
        "additionalProperties": { "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// Any object.
pub(super) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Names of capabilities.
pub(super) fn capabilities(_: &mut SchemaGenerator) -> Schema {
    let mut names: Vec<&str> = crate::capabilities::hidden_names().collect();
    names.sort_unstable();
    names.dedup();
    json_schema!({ "type": "array", "items": { "type": "string", "enum": names } })
}
