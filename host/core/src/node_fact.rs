//! Facts that only a node can tell about itself, such as which instance of a cloud it is, and what OpenStack says of an instance.
//!
//! This module must not know where a node keeps them.

mod values;

pub use values::{FactValues, InvalidFactValues, VALUE_BYTES, VALUES};

use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddrV4};

/// Largest `meta_data.json`, in bytes. 1 MiB: Nova's has some KiB, and leaves out user data.
pub const META_DATA_BYTES: u64 = 1 << 20;
/// OpenStack's metadata service, the same in every cloud (Nova's documentation, "Metadata service").
pub const METADATA_SERVICE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(169, 254, 169, 254), 80);
/// The path of that file in the metadata service and on a config drive.
pub const META_DATA_PATH: &str = "openstack/latest/meta_data.json";

named! {
    /// A fact of the node.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum NodeFact, name {
        /// The id of the instance of a cloud that the node is.
        InstanceId = "instance-id",
        /// The availability zone of that instance.
        Zone = "zone",
        /// The name of its iSCSI initiator (RFC 7143).
        Iqn = "iqn",
        /// Its host name in NVMe over Fabrics (NVM Express Base Specification, "NVMe Qualified Names").
        Nqn = "nqn",
        /// The addresses of its own network interfaces.
        Addresses = "addresses",
        /// Which parts of its kernel join the paths to one device.
        Multipath = "multipath",
    }
}

/// An instance of OpenStack, as it is told about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "MetaData")]
pub struct Instance(MetaData);

/// The keys of `meta_data.json` that are used. Others, such as the password of the instance's administrator, are not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MetaData {
    uuid: String,
    availability_zone: Option<String>,
}

/// Why a `meta_data.json` is not used. It never repeats the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMetaData {
    /// It is not JSON, or a value that is used is no text.
    #[error(
        "it is not the JSON of an instance, with the texts `uuid` and `availability_zone` (line {line}, column {column})"
    )]
    Json {
        /// Where.
        line: usize,
        /// In this line.
        column: usize,
    },
    /// A value that no node id and no zone can have.
    #[error("`{0}` is empty, longer than {VALUE_BYTES} bytes, or has control characters")]
    Value(&'static str),
}

impl NodeFact {
    /// Whether OpenStack tells it; else the mounter does, from the node itself.
    pub fn is_of_instance(self) -> bool {
        matches!(self, Self::InstanceId | Self::Zone)
    }
}

impl Instance {
    /// Parses a `meta_data.json`.
    pub fn of_meta_data(json: &[u8]) -> Result<Self, InvalidMetaData> {
        let read: MetaData = serde_json::from_slice(json).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            InvalidMetaData::Json { line, column }
        })?;
        read.try_into()
    }

    /// The values of a fact; empty: the instance has none.
    pub fn values(&self, fact: NodeFact) -> Vec<String> {
        match fact {
            NodeFact::InstanceId => vec![self.0.uuid.clone()],
            NodeFact::Zone => self.0.availability_zone.iter().cloned().collect(),
            NodeFact::Iqn | NodeFact::Nqn | NodeFact::Addresses | NodeFact::Multipath => Vec::new(),
        }
    }
}

impl TryFrom<MetaData> for Instance {
    type Error = InvalidMetaData;

    fn try_from(read: MetaData) -> Result<Self, InvalidMetaData> {
        // Clouds without zones write an empty one.
        let zone = read.availability_zone.filter(|zone| !zone.is_empty());
        let values = [
            ("uuid", Some(&read.uuid)),
            ("availability_zone", zone.as_ref()),
        ];
        for (key, value) in values {
            if value.is_some_and(|value| !values::is_value(value)) {
                return Err(InvalidMetaData::Value(key));
            }
        }
        Ok(Self(MetaData {
            availability_zone: zone,
            ..read
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "d8e02d56-2648-49a3-bf97-6be8f1204f38";

    fn values(json: &str) -> Result<[Vec<String>; 2], InvalidMetaData> {
        let instance = Instance::of_meta_data(json.as_bytes())?;
        Ok([NodeFact::InstanceId, NodeFact::Zone].map(|fact| instance.values(fact)))
    }

    #[test]
    fn every_fact_is_read_by_its_name_alone() {
        for fact in NodeFact::ALL {
            assert_eq!(NodeFact::parse(fact.name()), Some(*fact));
            let json = serde_json::to_string(fact).unwrap();
            assert_eq!(json, format!("\"{}\"", fact.name()));
        }
        for name in ["", "Zone", "instance_id", "wwpn"] {
            assert_eq!(NodeFact::parse(name), None, "{name}");
        }
        assert_eq!(
            NodeFact::names(),
            "`instance-id`, `zone`, `iqn`, `nqn`, `addresses`, `multipath`"
        );
    }

    #[test]
    fn an_instance_is_read_from_its_metadata() {
        // As Nova writes it, shortened.
        let whole = format!(
            r#"{{"random_seed":"yu5ZnkqF","uuid":"{ID}","availability_zone":"nova","keys":[{{"data":"ssh-ed25519 A","type":"ssh"}}],
                 "hostname":"test.novalocal","launch_index":0,"admin_pass":"hunter22","devices":[],"project_id":"f7ac731cc11f40efbc03a9f9e1d1d21f",
                 "name":"test"}}"#
        );
        let one = |value: &str| vec![value.to_owned()];
        assert_eq!(values(&whole), Ok([one(ID), one("nova")]));
        for zone in [
            "",
            r#","availability_zone":null"#,
            r#","availability_zone":"""#,
        ] {
            let json = format!(r#"{{"uuid":"{ID}"{zone}}}"#);
            assert_eq!(values(&json), Ok([one(ID), Vec::new()]), "{zone}");
        }
        let longest = "z".repeat(VALUE_BYTES);
        let json = format!(r#"{{"uuid":"{ID}","availability_zone":"{longest}"}}"#);
        assert_eq!(values(&json), Ok([one(ID), vec![longest]]));
    }

    #[test]
    fn metadata_that_names_no_instance_is_refused() {
        let json = |line, column| Err(InvalidMetaData::Json { line, column });
        for (text, refused) in [
            ("", json(1, 0)),
            ("<html>", json(1, 1)),
            ("{}", json(1, 2)),
            (r#"{"uuid":7}"#, json(1, 9)),
            (r#"{"uuid":"a","availability_zone":["b"]}"#, json(1, 32)),
            (r#"{"uuid":"a"}x"#, json(1, 13)),
            (r#"{"uuid":""}"#, Err(InvalidMetaData::Value("uuid"))),
            (r#"{"uuid":"a\n"}"#, Err(InvalidMetaData::Value("uuid"))),
            (
                r#"{"uuid":"a","availability_zone":"b\u0000"}"#,
                Err(InvalidMetaData::Value("availability_zone")),
            ),
        ] {
            assert_eq!(values(text), refused, "{text}");
        }
        let long = format!(r#"{{"uuid":"{}"}}"#, "a".repeat(VALUE_BYTES + 1));
        assert_eq!(values(&long), Err(InvalidMetaData::Value("uuid")));
    }

    #[test]
    fn a_refusal_repeats_nothing_of_the_metadata() {
        for json in [
            r#"{"admin_pass":"hunter22","uuid":7}"#,
            r#"{"uuid":"hunter22\n"}"#,
            r#"hunter22"#,
        ] {
            let refused = values(json).unwrap_err().to_string();
            assert!(!refused.contains("hunter"), "{refused}");
        }
    }

    #[test]
    fn an_instance_is_stored_and_checked_when_read() {
        let instance = Instance::of_meta_data(br#"{"uuid":"a","availability_zone":"b"}"#).unwrap();
        let stored = serde_json::to_string(&instance).unwrap();
        assert_eq!(stored, r#"{"uuid":"a","availability_zone":"b"}"#);
        assert_eq!(serde_json::from_str::<Instance>(&stored).unwrap(), instance);
        assert!(serde_json::from_str::<Instance>(r#"{"uuid":""}"#).is_err());
    }
}
