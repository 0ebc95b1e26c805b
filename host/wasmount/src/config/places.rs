//! The location of each key in a YAML text.
//!
//! It knows no schema: it reads any mapping, and discards the values.

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::{DuplicateKeyPolicy, Location, Spanned};
use std::fmt;
use wasmount_core::document::KeyPath;

/// Keys and values in the order of the text.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<Place>);

#[derive(Debug)]
struct Place {
    path: KeyPath,
    /// None: an element of a list.
    key: Option<Location>,
    value: Location,
}

/// The structure of a YAML value without its scalars.
enum Shape {
    Mapping(Vec<(Spanned<String>, Spanned<Shape>)>),
    List(Vec<Spanned<Shape>>),
    Scalar,
}

impl Places {
    /// Reads the locations of a text that is YAML but may be an invalid document; empty if it is not YAML.
    pub(super) fn of(text: &str) -> Self {
        let options = serde_saphyr::options! {
            duplicate_keys: DuplicateKeyPolicy::FirstWins,
            with_snippet: false,
        };
        let mut places = Self::default();
        if let Ok(shape) = serde_saphyr::from_str_with_options::<Spanned<Shape>>(text, options) {
            places.add(&KeyPath::default(), &shape.value);
        }
        places
    }

    /// The line of a key, or of its nearest ancestor in the text.
    pub(super) fn line_of(&self, path: &KeyPath) -> Option<u64> {
        let mut path = Some(path.clone());
        while let Some(ancestor) = path {
            if let Some(place) = self.0.iter().find(|place| place.path == ancestor) {
                return Some(place.key.unwrap_or(place.value).line());
            }
            path = ancestor.parent();
        }
        None
    }

    /// The key that begins at this location, or the list element.
    pub(super) fn key_at(&self, location: Location) -> Option<&KeyPath> {
        self.path_where(|place| same(place.key.unwrap_or(place.value), location))
    }

    /// The value that begins at this location; for a mapping, not its first key.
    pub(super) fn value_at(&self, location: Location) -> Option<&KeyPath> {
        self.path_where(|place| same(place.value, location))
    }

    fn path_where(&self, predicate: impl Fn(&Place) -> bool) -> Option<&KeyPath> {
        self.0
            .iter()
            .find(|place| predicate(place))
            .map(|place| &place.path)
    }

    fn add(&mut self, path: &KeyPath, shape: &Shape) {
        match shape {
            Shape::Scalar => {}
            Shape::Mapping(entries) => {
                for (key, value) in entries {
                    let path = path.key(&key.value);
                    self.put(path, Some(key.referenced), value);
                }
            }
            Shape::List(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    self.put(path.index(index), None, element);
                }
            }
        }
    }

    fn put(&mut self, path: KeyPath, key: Option<Location>, value: &Spanned<Shape>) {
        self.0.push(Place {
            path: path.clone(),
            key,
            value: value.referenced,
        });
        self.add(&path, &value.value);
    }
}

/// Compares line and column only: the byte spans of a key and of the value that begins there differ.
fn same(one: Location, other: Location) -> bool {
    (one.line(), one.column()) == (other.line(), other.column())
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> de::Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Shape::Mapping(entries))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut sequence: A) -> Result<Shape, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element()? {
            elements.push(element);
        }
        Ok(Shape::List(elements))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
}
