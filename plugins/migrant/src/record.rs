//! The formats of a record.

use wasmount_guest::*;

/// The prefix of the keys of volumes.
pub const VOLUME: &str = "volume";
/// The index of version 3: `made-by/<origin>/<id>`.
const INDEX: &str = "made-by";

/// A format of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Schema {
    Size,
    SizeAndOrigin,
    OriginAndSize,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub size_bytes: u64,
    /// The version that created it.
    pub origin: String,
}

impl Record {
    pub fn volume(&self, id: String) -> Volume {
        Volume {
            context: vec![("origin".to_owned(), self.origin.clone())],
            ..Volume::new(id, self.size_bytes)
        }
    }
}

impl Schema {
    const ALL: [Self; 3] = [Self::Size, Self::SizeAndOrigin, Self::OriginAndSize];

    /// The format of this backend; the first one if its document does not set one.
    pub fn of_settings() -> Result<Self, Error> {
        match call::settings().value("schema") {
            None | Some("1") => Ok(Self::Size),
            Some("2") => Ok(Self::SizeAndOrigin),
            Some("3") => Ok(Self::OriginAndSize),
            Some(other) => Err(Error::invalid_argument(format!(
                "the setting `schema` is `{other}`, and there are 1, 2 and 3"
            ))),
        }
    }

    pub fn of_version(version: &str) -> Result<Self, Error> {
        let known = Self::ALL.into_iter().find(|it| it.version() == version);
        known.ok_or_else(|| {
            Error::failed_precondition(format!(
                "records of version {version} are not known: go by version 1.0.0"
            ))
        })
    }

    pub fn version(self) -> &'static str {
        match self {
            Self::Size => "1.0.0",
            Self::SizeAndOrigin => "2.0.0",
            Self::OriginAndSize => "3.0.0",
        }
    }

    /// The migration of another version's records.
    pub fn plan(self, from: Self) -> Result<Migration, Error> {
        match (from, self) {
            (from, to) if from == to => Ok(Migration::Unneeded),
            // Version 1 reads the first word, and never rewrites a record.
            (Self::SizeAndOrigin, Self::Size) => Ok(Migration::Unneeded),
            (Self::Size, Self::SizeAndOrigin) => Ok(Migration::Additive),
            (_, Self::OriginAndSize) => Ok(Migration::Rewriting),
            (Self::OriginAndSize, _) => Err(Error::failed_precondition(
                "records of version 3.0.0 cannot be read by an older one",
            )),
            _ => Ok(Migration::Rewriting),
        }
    }

    /// All records of a volume, in the order in which they are written.
    pub fn written(self, id: &str, record: &Record) -> Vec<(String, String)> {
        let Record { size_bytes, origin } = record;
        let volume = |text: String| (id.to_owned(), text);
        match self {
            Self::Size => vec![volume(size_bytes.to_string())],
            Self::SizeAndOrigin => vec![volume(format!("{size_bytes} {origin}"))],
            Self::OriginAndSize => vec![
                (format!("{INDEX}/{origin}/{id}"), String::new()),
                volume(format!("{origin}:{size_bytes}")),
            ],
        }
    }

    pub fn read(self, id: &str, text: &str) -> Result<Record, Error> {
        let (size, origin) = match self {
            Self::Size => (text.split(' ').next(), None),
            Self::SizeAndOrigin => match text.split_once(' ') {
                Some((size, origin)) => (Some(size), Some(origin)),
                None => (None, None),
            },
            Self::OriginAndSize => match text.split_once(':') {
                Some((origin, size)) => (Some(size), Some(origin)),
                None => (None, None),
            },
        };
        let size_bytes = size.and_then(|size| size.parse().ok());
        let size_bytes = size_bytes
            .ok_or_else(|| Error::data_loss(format!("the record of `{id}` is not readable")))?;
        let origin = origin.unwrap_or(Self::Size.version()).to_owned();
        Ok(Record { size_bytes, origin })
    }
}
