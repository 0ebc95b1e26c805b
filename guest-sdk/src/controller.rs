//! The services of the controller: create, attach, expand, modify and list volumes, and report their health.

use crate::call;
use crate::error::Error;
use crate::volume::{ContentSource, VolumeEntry};

/// The interface `capacity`. It reserves nothing: between an answer and the next volume other clients may use the space.
#[doc(inline)]
pub use crate::bindings::capacity::interface::Guest as Capacity;
pub use crate::bindings::capacity::interface::{Available, CapacityArgs};
/// The interface `controller`. A client may repeat every call with the same arguments, and the call must then give the same answer.
#[doc(inline)]
pub use crate::bindings::controller::interface::Guest as Controller;
pub use crate::bindings::controller::interface::{CreateVolumeArgs, ValidateArgs, Validation};
/// The interface `controller-expand`. The host expands the file system, on the node.
#[doc(inline)]
pub use crate::bindings::controller_expand::interface::Guest as ControllerExpand;
pub use crate::bindings::controller_expand::interface::{ExpandArgs, Expanded};
/// The interface `controller-modify`: changes of a volume by its VolumeAttributesClass. Its size is changed by [`ControllerExpand`].
#[doc(inline)]
pub use crate::bindings::controller_modify::interface::Guest as ControllerModify;
pub use crate::bindings::controller_publish::interface::ControllerPublishArgs;
/// The interface `controller-publish`: makes a volume reachable from a node, for storage that needs this. It does not mount.
#[doc(inline)]
pub use crate::bindings::controller_publish::interface::Guest as ControllerPublish;
/// The interface `node-register`: makes each node known to the storage system as a host, with the facts of [`crate::nodes`]. A volume may be published to
/// a node before it was registered.
#[doc(inline)]
pub use crate::bindings::node_register::interface::Guest as NodeRegister;
/// The interface `volume-health`: the health conditions of a volume, as the storage reports them. Answer within two seconds.
#[doc(inline)]
pub use crate::bindings::volume_health::interface::Guest as VolumeHealth;
pub use crate::bindings::volume_health::interface::{Health, HealthStatus};
/// The interface `volume-listing`.
#[doc(inline)]
pub use crate::bindings::volume_listing::interface::Guest as VolumeListing;
pub use crate::bindings::volume_listing::interface::VolumePage;
/// The interface `volume-lookup`. It reports no health beyond a condition: see [`VolumeHealth`].
#[doc(inline)]
pub use crate::bindings::volume_lookup::interface::Guest as VolumeLookup;

impl Validation {
    /// The capabilities are not supported, for this reason.
    pub fn unsupported(why: impl Into<String>) -> Self {
        Self::Unsupported(why.into())
    }
}

impl From<Result<(), Error>> for Validation {
    /// The result of a check: an error's message becomes the reason.
    fn from(check: Result<(), Error>) -> Self {
        match check {
            Ok(()) => Self::Confirmed,
            Err(error) => Self::Unsupported(error.message),
        }
    }
}

impl CreateVolumeArgs {
    /// The id of the content source, if there is one: [`ContentSource::id`].
    pub fn source_id(&self) -> Result<Option<&str>, Error> {
        let source = self.content_source.as_ref();
        source.map(ContentSource::id).transpose()
    }

    /// Rejects a volume with a content source, with `invalid-argument`: for backends that neither clone nor restore.
    pub fn must_start_empty(&self) -> Result<(), Error> {
        match self.content_source {
            None => Ok(()),
            Some(_) => Err(Error::invalid_argument(
                "volumes of this driver start empty: create one without dataSource",
            )),
        }
    }
}

impl ControllerPublishArgs {
    /// Rejects another node than the one where this host runs, with `not-found`: for storage that is reachable only from its own node. A host away
    /// from the nodes accepts every node.
    pub fn must_be_here(&self) -> Result<(), Error> {
        if call::node_name().is_none_or(|here| here == self.node) {
            return Ok(());
        }
        Err(Error::not_found(
            "the volume is reached from its own node alone, and this is another or none",
        ))
    }
}

impl Expanded {
    /// The volume has this many bytes now, and the node has nothing left to do.
    pub fn to(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            node_expansion_required: false,
        }
    }

    /// Sets whether the node has something left to do: a file system to expand, or a block device whose size must be read again.
    #[must_use]
    pub fn then_on_node(self, node_expansion_required: bool) -> Self {
        Self {
            node_expansion_required,
            ..self
        }
    }
}

impl Available {
    /// This many bytes, all of which one volume may use.
    pub fn bytes(available_bytes: u64) -> Self {
        Self {
            available_bytes,
            maximum_volume_bytes: Some(available_bytes),
            minimum_volume_bytes: None,
        }
    }

    /// Sets the smallest size of a volume; where less is left, no volume can be created.
    #[must_use]
    pub fn at_least(self, minimum_bytes: u64) -> Self {
        if self
            .maximum_volume_bytes
            .is_some_and(|it| it < minimum_bytes)
        {
            return Self::bytes(0);
        }
        Self {
            minimum_volume_bytes: Some(minimum_bytes),
            ..self
        }
    }
}

impl<E: IntoIterator<Item = VolumeEntry>> From<(E, Option<String>)> for VolumePage {
    /// A page, such as [`crate::state::page`] returned.
    fn from((entries, next_token): (E, Option<String>)) -> Self {
        Self {
            entries: entries.into_iter().collect(),
            next_token,
        }
    }
}

impl Health {
    /// One health condition. `reason` in CamelCase, for programs; `message` for users.
    pub fn new(
        status: HealthStatus,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::testing;
    use crate::volume::{AccessMode, AccessType, VolumeCapability};

    #[test]
    fn only_this_node_is_here_and_away_from_the_nodes_any() {
        testing::reset();
        let args = ControllerPublishArgs {
            id: "a".to_owned(),
            node: "node-1".to_owned(),
            capability: VolumeCapability {
                access_type: AccessType::Block,
                access_mode: AccessMode::SingleNodeWriter,
            },
            readonly: false,
            context: Vec::new(),
        };
        assert_eq!(args.must_be_here(), Ok(()));
        testing::set_node_name(Some("node-1"));
        assert_eq!(args.must_be_here(), Ok(()));
        testing::set_node_name(Some("node-2"));
        let code = args.must_be_here().map_err(|error| error.code);
        assert_eq!(code, Err(Code::NotFound));
    }

    #[test]
    fn where_less_is_left_than_a_volume_takes_there_is_nothing() {
        let available = Available::bytes(10).at_least(10);
        assert_eq!(available.maximum_volume_bytes, Some(10));
        assert_eq!(available.minimum_volume_bytes, Some(10));
        assert_eq!(Available::bytes(9).at_least(10), Available::bytes(0));
    }
}
