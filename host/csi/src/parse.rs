//! Converts wire messages to the core's types, one file for each service; this file has the shared part.
//!
//! Fields are checked in the order of the specification, a missing one before any check that depends on external state. Every message is destructured
//! without `..`: a new field does not compile until a developer has handled it. Error messages name the field, never its content.

mod controller;
mod fields;
mod group_controller;
mod health;
mod node;
mod snapshot_metadata;
mod snapshots;

pub(crate) use controller::*;
pub(crate) use group_controller::*;
pub(crate) use health::*;
pub(crate) use node::*;
pub(crate) use snapshot_metadata::*;
pub(crate) use snapshots::*;

use crate::error::Error;
use crate::wire::csi::v1 as wire;
use std::sync::Arc;
use wasmount_core::attributes::{Attributes, is_added_by_kubernetes};
use wasmount_core::blame::RequestStrings;
use wasmount_core::call::{Incoming, Origin};
use wasmount_core::names::{RequestedName, VolumeId};
use wasmount_core::volume::VolumeCapability;

/// A valid request.
#[derive(Debug)]
pub(crate) struct Parsed<T> {
    /// What the driver gets to know beside its arguments; the request id is added later.
    pub(crate) incoming: Incoming,
    /// The kind of the subject: a field of the span.
    pub(crate) kind: &'static str,
    /// The driver's arguments.
    pub(crate) arguments: T,
}

/// The subject of a call: its kind, and in the client's spelling its id, or the name of the object to create. None: all volumes, or the driver itself.
type Subject = Option<(&'static str, String)>;

/// The result of every parser.
pub(crate) type Result<T> = std::result::Result<Parsed<T>, Error>;

impl<T> Parsed<T> {
    fn new(
        subject: Subject,
        secrets: impl IntoIterator<Item = (String, String)>,
        arguments: T,
    ) -> Self {
        let (kind, subject) = subject.unzip();
        let incoming = Incoming {
            secrets: Arc::new(secrets.into_iter().collect()),
            subject,
            ..Incoming::default()
        };
        Self {
            incoming,
            kind: kind.unwrap_or_default(),
            arguments,
        }
        .with_author_strings(RequestStrings::default())
    }

    /// Sets the objects for which the orchestrator makes the call.
    fn made_for(mut self, origin: Origin) -> Self {
        self.incoming.origin = origin;
        self
    }

    /// Sets the strings of the request's author, and adds the subject.
    fn with_author_strings(mut self, strings: RequestStrings) -> Self {
        let subject = self.incoming.subject.iter().map(String::as_str);
        self.incoming.strings = subject.fold(strings, RequestStrings::with);
        self
    }
}

/// The strings of a request's author in these maps and capabilities.
fn author_strings<'c>(
    maps: &[&Attributes],
    capabilities: impl IntoIterator<Item = &'c VolumeCapability>,
) -> RequestStrings {
    let maps = maps.iter().copied();
    let strings = maps.fold(RequestStrings::default(), RequestStrings::with_map);
    strings.with_capabilities(capabilities)
}

fn subject(kind: &'static str, text: &str) -> Subject {
    Some((kind, text.to_owned()))
}

fn volume(id: &VolumeId) -> Subject {
    subject("volume", id.as_str())
}

/// The objects that a request names beside its arguments; `name` is that of the object to create.
fn origin(name: Option<&RequestedName>, attributes: &Attributes) -> Origin {
    let added = attributes
        .iter()
        .filter(|(key, _)| is_added_by_kubernetes(key));
    Origin {
        name: name.map(|name| name.as_str().to_owned()),
        attributes: added
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
    }
}

/// A request without fields. A later CSI may add some.
pub(crate) fn nothing() -> Result<()> {
    Ok(Parsed::new(None, [], ()))
}

pub(crate) fn probe(wire::ProbeRequest {}: wire::ProbeRequest) -> Result<()> {
    nothing()
}

pub(crate) fn node_get_info(wire::NodeGetInfoRequest {}: wire::NodeGetInfoRequest) -> Result<()> {
    nothing()
}

#[cfg(test)]
mod tests;
