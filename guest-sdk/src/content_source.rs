//! The content source of a volume, as a field of the backend's record: the driver must return it for as long as the volume exists.

use crate::error::Error;
use crate::volume::ContentSource;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The stored form: `{"snapshot":"id"}`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ContentSource", rename_all = "kebab-case")]
enum Stored {
    Snapshot(String),
    Volume(String),
    Other((String, String)),
}

impl ContentSource {
    /// The id of the source, of whatever kind; `invalid-argument` for a kind of a later CSI version.
    pub fn id(&self) -> Result<&str, Error> {
        match self {
            Self::Snapshot(id) | Self::Volume(id) => Ok(id),
            Self::Other(_) => Err(Error::invalid_argument(
                "a volume begins empty, from a snapshot or from a volume",
            )),
        }
    }
}

impl Serialize for ContentSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Stored::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for ContentSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Stored::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn a_source_is_read_as_it_was_stored() {
        let id = || "a".to_owned();
        for (source, stored) in [
            (ContentSource::Snapshot(id()), r#"{"snapshot":"a"}"#),
            (ContentSource::Volume(id()), r#"{"volume":"a"}"#),
            (ContentSource::Other((id(), id())), r#"{"other":["a","a"]}"#),
        ] {
            assert_eq!(serde_json::to_string(&source).unwrap(), stored);
            assert_eq!(
                serde_json::from_str::<ContentSource>(stored).unwrap(),
                source
            );
        }
    }

    #[test]
    fn only_a_known_kind_has_an_id() {
        assert_eq!(ContentSource::Volume("a".to_owned()).id(), Ok("a"));
        let other = ContentSource::Other(("tape".to_owned(), "a".to_owned()));
        let refused = other.id().map_err(|error| error.code);
        assert_eq!(refused, Err(Code::InvalidArgument));
    }
}
