//! Deserializes string maps into types: serde over strings, where a number is written in digits.

use crate::error::Error;
use serde::de::value::{self, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Deserializes pairs with unique keys into a struct or a map.
pub(super) fn read<'a, T: DeserializeOwned>(
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<T, Error> {
    let fields = pairs.map(|(key, text)| (key, Text { key, text }));
    T::deserialize(MapDeserializer::new(fields))
        .map_err(|error| Error::invalid_argument(error.to_string()))
}

/// A value, with its key for error messages.
#[derive(Clone, Copy)]
struct Text<'a> {
    key: &'a str,
    text: &'a str,
}

impl Text<'_> {
    fn refused(self, reason: impl std::fmt::Display) -> value::Error {
        let Self { key, text } = self;
        value::Error::custom(format!("`{key}` cannot be `{text}`: {reason}"))
    }
}

impl<'a> IntoDeserializer<'_, value::Error> for Text<'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident => $visit:ident),+ $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
            let parsed = self.text.parse().map_err(|error| self.refused(error))?;
            let read: Result<_, value::Error> = visitor.$visit(parsed);
            read.map_err(|error| self.refused(error))
        })+
    };
}

impl<'de> Deserializer<'de> for Text<'_> {
    type Error = value::Error;

    parsed! {
        deserialize_bool => visit_bool,
        deserialize_i8 => visit_i8,
        deserialize_i16 => visit_i16,
        deserialize_i32 => visit_i32,
        deserialize_i64 => visit_i64,
        deserialize_u8 => visit_u8,
        deserialize_u16 => visit_u16,
        deserialize_u32 => visit_u32,
        deserialize_u64 => visit_u64,
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        let read: Result<_, value::Error> = visitor.visit_str(self.text);
        read.map_err(|error| self.refused(error))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        let read = visitor.visit_enum(self.text.into_deserializer());
        read.map_err(|error: value::Error| self.refused(error))
    }

    forward_to_deserialize_any! {
        f32 f64 i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::{Pool, Quantity};
    use serde::Deserialize;
    use std::collections::BTreeMap;
    use std::num::NonZeroU8;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Class {
        pool: Pool,
        is_thin: bool,
        replicas: NonZeroU8,
        maximum: Option<Quantity>,
        tier: Tier,
        owner: Option<String>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Tier {
        VeryFast,
    }

    const WHOLE: [(&str, &str); 5] = [
        ("pool", "volumes"),
        ("isThin", "true"),
        ("replicas", "3"),
        ("maximum", "1Gi"),
        ("tier", "very-fast"),
    ];

    #[test]
    fn each_key_is_a_field() {
        let class = Class {
            pool: Pool::named("volumes"),
            is_thin: true,
            replicas: NonZeroU8::new(3).unwrap(),
            maximum: Some(Quantity(1 << 30)),
            tier: Tier::VeryFast,
            owner: None,
        };
        assert_eq!(read(WHOLE.into_iter()), Ok(class));
        let map: BTreeMap<String, String> = read([("a", "b")].into_iter()).unwrap();
        assert_eq!(map["a"], "b");
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        for (key, text) in [
            ("isThin", "yes"),
            ("replicas", "0"),
            ("replicas", "256"),
            ("maximum", "much"),
            ("tier", "slow"),
        ] {
            let changed = WHOLE.map(|(name, whole)| (name, if name == key { text } else { whole }));
            let refused = read::<Class>(changed.into_iter()).unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument, "{key}");
            let named = format!("`{key}` cannot be `{text}`: ");
            assert!(refused.message.starts_with(&named), "{refused:?}");
        }
    }

    #[test]
    fn a_missing_or_unknown_key_is_refused_by_name() {
        let unknown = WHOLE.into_iter().chain([("sizze", "1")]);
        let refused = read::<Class>(unknown).unwrap_err();
        assert!(refused.message.contains("sizze"), "{refused:?}");
        let refused = read::<Class>(WHOLE.into_iter().skip(1)).unwrap_err();
        assert!(refused.message.contains("pool"), "{refused:?}");
    }
}
