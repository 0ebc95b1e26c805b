//! Converts wire messages to the core's types, one file for each service; this file has the shared part.
//!
//! Fields are checked in the order of the specification, a missing one before any check that depends on external state. Every message is destructured
//! without `..`: a new field does not compile until a developer has handled it. Error messages name the field, never its content.

mod controller;
mod group_controller;
mod health;
mod node;
mod snapshot_metadata;
mod snapshots;
mod words;

pub(crate) use controller::*;
pub(crate) use group_controller::*;
pub(crate) use health::*;
pub(crate) use node::*;
pub(crate) use snapshot_metadata::*;
pub(crate) use snapshots::*;

use crate::error::Error;
use crate::wire::csi::v1 as wire;
use wasmount_core::attributes::{Attributes, is_added_by_kubernetes};
use wasmount_core::blame::RequestWords;
use wasmount_core::call::Origin;
use wasmount_core::names::{RequestedName, VolumeId};
use wasmount_core::secrets::Secrets;

/// A valid request.
#[derive(Debug)]
pub(crate) struct Parsed<T> {
    /// The subject, for the span.
    pub(crate) subject: Subject,
    /// The objects for which the orchestrator makes the call, if it names them.
    pub(crate) origin: Origin,
    /// The strings of the request's author.
    pub(crate) words: RequestWords,
    /// Moved out of the request, so that no other value holds them.
    pub(crate) secrets: Secrets,
    /// The driver's arguments.
    pub(crate) arguments: T,
}

/// The subject of a call, in the client's spelling: an id, or the name of the object to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// All volumes, or the driver itself.
    Driver,
    Volume(String),
    Snapshot(String),
    Group(String),
}

/// The result of every parser.
pub(crate) type Result<T> = std::result::Result<Parsed<T>, Error>;

impl<T> Parsed<T> {
    fn new(
        subject: Subject,
        secrets: impl IntoIterator<Item = (String, String)>,
        arguments: T,
    ) -> Self {
        let words = subject
            .word()
            .map(|word| RequestWords::default().with(word));
        Self {
            subject,
            origin: Origin::default(),
            words: words.unwrap_or_default(),
            secrets: secrets.into_iter().collect(),
            arguments,
        }
    }

    /// Sets the origin.
    fn made_for(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// Adds the author's strings beside the subject.
    fn saying(self, add: impl FnOnce(RequestWords, &T) -> RequestWords) -> Self {
        let words = add(self.words, &self.arguments);
        Self { words, ..self }
    }
}

impl Subject {
    /// The client's string.
    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Self::Driver => None,
            Self::Volume(word) | Self::Snapshot(word) | Self::Group(word) => Some(word),
        }
    }
}

fn volume(id: &VolumeId) -> Subject {
    Subject::Volume(id.as_str().to_owned())
}

/// The objects that a request names beside its arguments; `name` is that of the object to create.
fn origin(name: Option<&RequestedName>, words: &Attributes) -> Origin {
    let said = words.iter().filter(|(key, _)| is_added_by_kubernetes(key));
    Origin {
        name: name.map(|name| name.as_str().to_owned()),
        words: said
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
    }
}

/// A request without fields. A later CSI may add some.
pub(crate) fn nothing() -> Result<()> {
    Ok(Parsed::new(Subject::Driver, [], ()))
}

pub(crate) fn probe(wire::ProbeRequest {}: wire::ProbeRequest) -> Result<()> {
    nothing()
}

pub(crate) fn node_get_info(wire::NodeGetInfoRequest {}: wire::NodeGetInfoRequest) -> Result<()> {
    nothing()
}

#[cfg(test)]
mod tests;
