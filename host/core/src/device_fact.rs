//! The facts that identify a block device of a node.
//!
//! Labels and UUIDs are missing on purpose: they are part of a volume's content, so a writer of one volume could impersonate another. This module
//! must not know where a node keeps the facts.

use serde::{Deserialize, Serialize};

/// Longest value, in bytes: above every serial number and the longest name of a link (`NAME_MAX`, 255).
const VALUE_BYTES: usize = 256;
/// Starts of names below `/dev/disk/by-id` that udev reads from the contents of a device or of what lies on it (`13-dm-disk.rules`,
/// `63-md-raid-arrays.rules`).
const FROM_CONTENTS: [&str; 5] = [
    "lvm-pv-uuid-",
    "md-uuid-",
    "md-name-",
    "dm-name-",
    "dm-uuid-",
];
/// The one kind of these names that the hardware determines: multipath's, and its partitions as `dm-uuid-part1-mpath-`.
const MULTIPATH: &str = "mpath-";

named! {
    /// A fact of a block device, by its name in the contract and the document, in the best order of comparison: `serial` may query the device itself.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum DeviceFact, name {
        /// The name of a link in `/dev/disk/by-id`.
        ById = "by-id",
        /// The name of a link in `/dev/disk/by-path`.
        ByPath = "by-path",
        /// The number of a partition; the other facts are then those of its disk or of the partition itself.
        Partition = "partition",
        /// NVMe's globally unique identifier of a namespace, as sysfs spells it.
        Nguid = "nguid",
        /// The world wide identifier, as sysfs spells it: `naa.6001405..`, `eui.0025..`.
        Wwid = "wwid",
        /// The serial number, without the spaces around it.
        Serial = "serial",
    }
}

/// Why a value is not valid for a fact: the end of a sentence.
type Valid = Result<(), &'static str>;

/// It would name another directory.
const PATH: &str = "must not be `.`, nor contain `/` or `..`";
/// No device has such a value.
const CHARACTERS: &str = "must not contain control characters, nor begin or end with a space";
/// Not a number as the kernel formats it.
const NUMBER: &str = "must be the number of a partition, such as `1`";
/// A writer of the device chooses this value.
const CONTENTS: &str = "comes from what is stored on the device, which is no identity; name a link that identifies the device itself, such as `wwn-..` or `dm-uuid-mpath-..`";

impl DeviceFact {
    /// Whether the fact is a link's name. A device has several links.
    pub fn is_link(self) -> bool {
        matches!(self, DeviceFact::ById | DeviceFact::ByPath)
    }

    /// Checks a whole value.
    pub fn check_value(self, value: &str) -> Valid {
        if value.is_empty() {
            return Err("is empty");
        }
        self.check_start(value)?;
        let is_number = |number: u32| number != 0 && number.to_string() == value;
        match self {
            _ if value == "." => Err(PATH),
            _ if value.ends_with(' ') => Err(CHARACTERS),
            DeviceFact::Partition if !value.parse().is_ok_and(is_number) => Err(NUMBER),
            _ => Ok(()),
        }
    }

    /// Checks the prefix of a value; empty matches all values.
    pub fn check_start(self, start: &str) -> Valid {
        let is_digit = |byte: u8| byte.is_ascii_digit();
        match self {
            _ if start.len() > VALUE_BYTES => Err("is longer than 256 bytes"),
            _ if start.contains('/') || start.contains("..") => Err(PATH),
            _ if start.contains(char::is_control) || start.starts_with(' ') => Err(CHARACTERS),
            DeviceFact::Partition if !start.bytes().all(is_digit) => Err(NUMBER),
            DeviceFact::ById if is_from_contents(start) => Err(CONTENTS),
            _ => Ok(()),
        }
    }
}

/// Whether a name below `/dev/disk/by-id` describes the content of a device instead of identifying the device.
pub fn is_from_contents(by_id: &str) -> bool {
    FROM_CONTENTS.iter().any(|start| by_id.starts_with(start)) && !is_multipath(by_id)
}

fn is_multipath(by_id: &str) -> bool {
    let Some(rest) = by_id.strip_prefix("dm-uuid-") else {
        return false;
    };
    let of_disk = rest.strip_prefix("part").and_then(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
            .strip_prefix('-')
    });
    of_disk.unwrap_or(rest).starts_with(MULTIPATH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_is_read_by_its_name_alone() {
        for &fact in DeviceFact::ALL {
            assert_eq!(DeviceFact::parse(fact.name()), Some(fact));
            let json = serde_json::to_string(&fact).unwrap();
            assert_eq!(json, format!("\"{}\"", fact.name()));
        }
        for name in ["", "By-Id", "label", "uuid", "by-uuid", "partuuid"] {
            assert_eq!(DeviceFact::parse(name), None, "{name}");
        }
    }

    #[test]
    fn values_as_devices_have_them_are_taken() {
        for (fact, value) in [
            (DeviceFact::ById, "scsi-0Acme_Disk_vol.1"),
            (DeviceFact::ById, "dm-uuid-mpath-3600140512345678"),
            (DeviceFact::ById, "dm-uuid-part12-mpath-3600140512345678"),
            (
                DeviceFact::ByPath,
                "ip-10.0.0.1:3260-iscsi-iqn.2001-04.com.example:a-lun-1",
            ),
            (DeviceFact::Wwid, "t10.ATA     Acme   S1"),
            (DeviceFact::Nguid, "00253858-0000-0000-0000-000000000001"),
            (DeviceFact::Serial, "lvm-pv-uuid-1"),
            (DeviceFact::Partition, "128"),
        ] {
            assert_eq!(fact.check_value(value), Ok(()), "{value}");
        }
        assert_eq!(DeviceFact::Serial.check_value(&"x".repeat(256)), Ok(()));
    }

    #[test]
    fn values_that_no_device_has_are_refused() {
        for (fact, value, fault) in [
            (DeviceFact::Serial, "", "is empty"),
            (DeviceFact::ById, ".", PATH),
            (DeviceFact::ById, "..", PATH),
            (DeviceFact::ById, "../by-label/a", PATH),
            (DeviceFact::ByPath, "a/b", PATH),
            (DeviceFact::Serial, "a\0", CHARACTERS),
            (DeviceFact::Serial, "a\n", CHARACTERS),
            (DeviceFact::Serial, " a", CHARACTERS),
            (DeviceFact::Serial, "a ", CHARACTERS),
            (DeviceFact::Partition, "0", NUMBER),
            (DeviceFact::Partition, "01", NUMBER),
            (DeviceFact::Partition, "+1", NUMBER),
            (DeviceFact::Partition, "4294967296", NUMBER),
        ] {
            assert_eq!(fact.check_value(value), Err(fault), "{value:?}");
        }
        let long = "x".repeat(257);
        assert_eq!(
            DeviceFact::Serial.check_value(&long),
            Err("is longer than 256 bytes")
        );
    }

    #[test]
    fn a_name_that_the_contents_choose_is_no_identity() {
        for name in [
            "lvm-pv-uuid-Zx1",
            "md-uuid-1:2:3:4",
            "md-name-host:0",
            "dm-name-vg-lv",
            "dm-uuid-LVM-abc",
            "dm-uuid-CRYPT-LUKS2-abc-name",
            "dm-uuid-part1-LVM-abc",
            "dm-uuid-part-evilmpath-",
        ] {
            assert_eq!(DeviceFact::ById.check_value(name), Err(CONTENTS), "{name}");
        }
    }
}
