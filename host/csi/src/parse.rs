//! From the wire to the core's words, one file a service; this one has what they share.
//!
//! Fields are checked in the order of the specification, a missing one before anything that needs a look at the world. Every message is destructured
//! without `..`: a new field does not compile until somebody has decided what to do with it. Messages name the field, never its content.

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

/// A well-formed request.
#[derive(Debug)]
pub(crate) struct Parsed<T> {
    /// For the span.
    pub(crate) subject: Subject,
    /// For whom the call is made, where the orchestrator says it.
    pub(crate) origin: Origin,
    /// What its author wrote.
    pub(crate) words: RequestWords,
    /// Taken out of the request, so that nothing else holds them.
    pub(crate) secrets: Secrets,
    /// What the driver takes.
    pub(crate) arguments: T,
}

/// What a call is about, by the client's own word for it: an id, or the name of what is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// All of them, or the driver itself.
    Driver,
    Volume(String),
    Snapshot(String),
    Group(String),
}

/// What every parser answers.
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

    /// Made for somebody.
    fn made_for(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// With what the author wrote besides the subject.
    fn saying(self, add: impl FnOnce(RequestWords, &T) -> RequestWords) -> Self {
        let words = add(self.words, &self.arguments);
        Self { words, ..self }
    }
}

impl Subject {
    /// The client's word.
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

/// Whom a request names beside what it asks; `name` is that of what is to be made.
fn origin(name: Option<&RequestedName>, words: &Attributes) -> Origin {
    let said = words.iter().filter(|(key, _)| is_added_by_kubernetes(key));
    Origin {
        name: name.map(|name| name.as_str().to_owned()),
        words: said
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
    }
}

/// A request without fields, which a later CSI may have.
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
