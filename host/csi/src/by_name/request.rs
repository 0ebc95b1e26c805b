//! Converts JSON that a person wrote into a message of CSI.

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use serde::de::DeserializeSeed;
use serde_json::{Map, Value};
use wasmount_core::rpc::Rpc;
use wasmount_core::text::nearest;

/// Prefix of messages that protobuf's JSON writes as one value.
const WELL_KNOWN: &str = "google.protobuf.";

/// A call that cannot be made. No variant contains a value of the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No RPC has this name.
    #[error("no call of CSI is named `{name}`{}", meant(.nearest.as_deref()))]
    UnknownCall {
        /// The given name.
        name: String,
        /// The most similar known name.
        nearest: Option<String>,
    },
    /// No field has this name.
    #[error("the request has no field `{field}`{}", hint(.nearest.as_deref(), known))]
    UnknownField {
        /// The path of the field.
        field: String,
        /// The most similar known name.
        nearest: Option<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// A field's value has the wrong type or format.
    #[error("{field} must be {expected}")]
    WrongValue {
        /// The path of the field.
        field: String,
        /// The expected value, as text.
        expected: String,
    },
    /// Each field is valid by itself.
    #[error("{message} is not valid: two of its fields exclude one another")]
    Contradiction {
        /// The message.
        message: String,
    },
    /// The host was built without the descriptors: a bug of the host.
    #[error("the descriptors of CSI are not readable: this is a bug of the host")]
    Descriptors,
}

/// The RPC of a name, with or without its service as a prefix.
pub(super) fn rpc(name: &str) -> Result<Rpc, RequestError> {
    let method = name.rsplit(['/', '.']).next().unwrap_or(name);
    let found = Rpc::ALL.iter().find(|rpc| rpc.name() == method);
    found.copied().ok_or_else(|| RequestError::UnknownCall {
        name: name.to_owned(),
        nearest: nearest(method, Rpc::ALL.iter().map(|rpc| rpc.name())).map(str::to_owned),
    })
}

/// Converts the JSON into the message. No JSON is an empty request.
pub(super) fn message(of: MessageDescriptor, json: &Value) -> Result<DynamicMessage, RequestError> {
    let empty = Value::Object(Map::new());
    let json = if json.is_null() { &empty } else { json };
    // The library's error message may quote the value.
    of.clone()
        .deserialize(json)
        .map_err(|_| refusal(&of, json, "the request"))
}

/// Finds the invalid field by trying each alone.
fn refusal(of: &MessageDescriptor, json: &Value, place: &str) -> RequestError {
    let Value::Object(fields) = json else {
        return RequestError::WrongValue {
            field: place.to_owned(),
            expected: "a group of fields".to_owned(),
        };
    };
    for (name, value) in fields {
        let by_name = of.get_field_by_name(name);
        let Some(field) = by_name.or_else(|| of.get_field_by_json_name(name)) else {
            return unknown_field(of, name, place);
        };
        let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        if of.clone().deserialize(&alone).is_err() {
            return wrong_field(&field, value, &within(place, name));
        }
    }
    RequestError::Contradiction {
        message: place.to_owned(),
    }
}

fn unknown_field(of: &MessageDescriptor, name: &str, place: &str) -> RequestError {
    let known: Vec<String> = of.fields().map(|field| field.name().to_owned()).collect();
    RequestError::UnknownField {
        field: within(place, name),
        nearest: nearest(name, known.iter().map(String::as_str)).map(str::to_owned),
        known,
    }
}

fn wrong_field(field: &FieldDescriptor, value: &Value, place: &str) -> RequestError {
    let kind = field.kind();
    let group = kind
        .as_message()
        .filter(|of| !of.full_name().starts_with(WELL_KNOWN) && !of.is_map_entry());
    match (group, value) {
        (Some(of), Value::Array(values)) if field.is_list() => {
            let wrong = values.iter().enumerate();
            let mut wrong = wrong.filter(|(_, value)| of.clone().deserialize(*value).is_err());
            if let Some((index, value)) = wrong.next() {
                return refusal(of, value, &format!("{place}[{index}]"));
            }
        }
        (Some(of), value) if !field.is_list() => return refusal(of, value, place),
        _ => {}
    }
    RequestError::WrongValue {
        field: place.to_owned(),
        expected: expected(field),
    }
}

/// The valid values of a field, as text.
fn expected(field: &FieldDescriptor) -> String {
    let kind = field.kind();
    if field.is_map() {
        return "a group of names, each with a text in quotes".to_owned();
    }
    let one = match &kind {
        Kind::String => "text; put it in quotes".to_owned(),
        Kind::Bytes => "bytes in base64".to_owned(),
        Kind::Bool => "`true` or `false`".to_owned(),
        Kind::Double | Kind::Float => "a number".to_owned(),
        Kind::Enum(of) => {
            let names: Vec<_> = of.values().map(|it| format!("`{}`", it.name())).collect();
            format!("one of {}", names.join(", "))
        }
        Kind::Message(of) => match of.name() {
            "Timestamp" => "a time such as `2026-01-31T12:00:00Z`".to_owned(),
            "BoolValue" => "`true` or `false`".to_owned(),
            name => format!("a {name}"),
        },
        _ => "a whole number".to_owned(),
    };
    if field.is_list() {
        return format!("a list, each entry {one}");
    }
    one
}

fn within(place: &str, name: &str) -> String {
    match place {
        "the request" => name.to_owned(),
        place => format!("{place}.{name}"),
    }
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || "; the names are those of the CSI specification, such as `CreateVolume`".to_owned(),
        |nearest| format!("; did you mean `{nearest}`?"),
    )
}

fn hint(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None if known.is_empty() => "; there is none".to_owned(),
        None => format!("; there are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests;
