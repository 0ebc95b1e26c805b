//! `spec.limits` and `spec.versions` on disk: amounts as written.

#[cfg(feature = "schema")]
use super::rules;
use serde::{Deserialize, Deserializer, de};
use std::fmt;

/// How much the plugin may use.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limits {
    /// Linear memory of one call, 64Ki to 4Gi; 64Mi by default.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::memory"))]
    pub memory: Option<Amount>,
    /// Wall time of one call; 60s by default.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::day"))]
    #[serde(deserialize_with = "duration")]
    pub time: Option<String>,
    /// CPU time of one call; 10s by default.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::day"))]
    #[serde(deserialize_with = "duration")]
    pub cpu: Option<String>,
    /// Calls at a time; 32 by default.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 2_147_483_647)))]
    pub concurrency: Option<u64>,
    /// Bytes that one host call may carry; 4Mi by default.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::bytes"))]
    pub host_call_bytes: Option<Amount>,
    /// Table elements of one instance; 100000 by default.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 2_147_483_647)))]
    pub table_elements: Option<u64>,
    /// Open handles of one instance; 1000 by default.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 2_147_483_647)))]
    pub handles: Option<u64>,
    /// Bytes that all records of the backend may take in the store; 256Mi by default.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::bytes"))]
    pub state_bytes: Option<Amount>,
    /// Takes ids above 128 bytes from the plugin.
    pub long_ids: Option<bool>,
}

/// How versions follow one another.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Versions {
    /// Versions that are kept on disk, the serving one among them; 5 by default.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    pub keep: Option<u64>,
    /// How long calls of an old version may go on before the host says that they still do; 60s by default.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::day"))]
    #[serde(deserialize_with = "duration")]
    pub drain: Option<String>,
    /// When a new version is rolled back.
    pub rollback: Rollback,
}

/// When a new version is rolled back.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rollback {
    /// Faults within the window that take it back; 5 by default, 0: none does.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1000)))]
    pub faults: Option<u64>,
    /// In how long a time; 60s by default.
    #[cfg_attr(feature = "schema", schemars(schema_with = "rules::hour"))]
    #[serde(deserialize_with = "duration")]
    pub window: Option<String>,
}

/// A quantity as written: `64Mi`, or a plain number, which is not a string in YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount(pub String);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

/// A duration as written. A number without a unit is rejected as such: quoted, as other text would have to be, it is not valid either.
pub(super) fn duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    deserializer.deserialize_any(DurationVisitor)
}

struct DurationVisitor;

impl de::Visitor<'_> for DurationVisitor {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as `60s` or `1m30s`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<String>, E> {
        Ok(Some(text.to_owned()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Option<String>, E> {
        Ok(None)
    }
}

struct AmountVisitor;

impl de::Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as `64Mi`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
        Ok(Amount(text.to_owned()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Amount, E> {
        Ok(Amount(number.to_string()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Amount, E> {
        Ok(Amount(number.to_string()))
    }
}
