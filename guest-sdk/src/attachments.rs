//! Records of which volume is attached to which node, in the backend's store: for storage that does not keep such a list itself.
//!
//! It does not attach, and does not check that the volume or the node exists. A volume's record says how it is attached; a node's record counts its
//! volumes, so that two calls cannot both take the node's last free place.

use crate::controller::ControllerPublishArgs;
use crate::error::{Code, Error};
use crate::state::Collection;
use crate::volume::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const VOLUMES: Collection<Volume, 1> = Collection::new("attachments.volume");
const NODES: Collection<Node, 1> = Collection::new("attachments.node");

#[derive(Default, Serialize, Deserialize)]
struct Volume {
    nodes: BTreeMap<NodeId, Way>,
}

#[derive(Default, Serialize, Deserialize)]
struct Node {
    volumes: BTreeSet<String>,
}

/// How a volume is attached to a node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Way {
    readonly: bool,
    block: bool,
    /// The access mode allows one node only.
    alone: bool,
}

/// Records that the volume is attached as the request demands; a repeated call changes nothing. `already-exists` if it is attached to this node in
/// another way, `failed-precondition` if it is attached to another node and the access mode of either is for one node, `resource-exhausted` if the
/// node has `most_volumes` others.
pub fn attach(args: &ControllerPublishArgs, most_volumes: Option<u64>) -> Result<(), Error> {
    let way = Way {
        readonly: args.readonly,
        block: args.capability.is_block(),
        alone: args.capability.access_mode.is_single_node(),
    };
    VOLUMES.change_any(&VOLUMES.id(&args.id), |volume| {
        let nodes = &mut volume.get_or_insert_default().nodes;
        match nodes.get(&args.node) {
            Some(there) if *there == way => Ok(()),
            Some(_) => Err(Error::already_exists(
                "the volume is attached to this node in another way: detach it first",
            )),
            None if nodes.values().any(|there| way.alone || there.alone) => {
                Err(Error::failed_precondition(
                    "the volume is attached to another node: detach it there first",
                ))
            }
            None => {
                nodes.insert(args.node.clone(), way.clone());
                Ok(())
            }
        }
    })?;
    let counted = NODES.change_any(&NODES.id(&args.node), |node| {
        let volumes = &mut node.get_or_insert_default().volumes;
        let is_new = volumes.insert(args.id.clone());
        let is_over = |most| u64::try_from(volumes.len()).is_ok_and(|count| count > most);
        if is_new && most_volumes.is_some_and(is_over) {
            return Err(Error::resource_exhausted(
                "the node has as many volumes as it may have: use another node",
            ));
        }
        Ok(())
    });
    let is_full = |error: &Error| error.code == Code::ResourceExhausted;
    if counted.as_ref().is_err_and(is_full) {
        detach(&args.id, Some(&args.node))?;
    }
    counted
}

/// Records that the volume is detached from a node, or from all nodes; succeeds if it is not attached.
pub fn detach(id: &str, node: Option<&str>) -> Result<(), Error> {
    let nodes = match node {
        Some(node) => vec![node.to_owned()],
        None => nodes(id)?,
    };
    for node in nodes {
        NODES.change_any(&NODES.id(&node), |there| {
            if let Some(there) = there {
                there.volumes.remove(id);
            }
            there.take_if(|there| there.volumes.is_empty());
            Ok(())
        })?;
        VOLUMES.change_any(&VOLUMES.id(id), |there| {
            if let Some(there) = there {
                there.nodes.remove(&node);
            }
            there.take_if(|there| there.nodes.is_empty());
            Ok(())
        })?;
    }
    Ok(())
}

/// The nodes that a volume is attached to, in order.
pub fn nodes(id: &str) -> Result<Vec<NodeId>, Error> {
    let volume = VOLUMES.find(&VOLUMES.id(id))?.unwrap_or_default();
    Ok(volume.nodes.into_keys().collect())
}

/// Rejects a volume that is attached to a node, with `failed-precondition`: for DeleteVolume.
pub fn must_be_none(id: &str) -> Result<(), Error> {
    if nodes(id)?.is_empty() {
        return Ok(());
    }
    Err(Error::failed_precondition(
        "the volume is attached: detach it first",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use crate::volume::{AccessMode, AccessType, VolumeCapability};

    fn args(id: &str, node: &str) -> ControllerPublishArgs {
        ControllerPublishArgs {
            id: id.to_owned(),
            node: node.to_owned(),
            capability: VolumeCapability {
                access_type: AccessType::Block,
                access_mode: AccessMode::SingleNodeWriter,
            },
            readonly: false,
            context: Vec::new(),
        }
    }

    fn code(answer: Result<(), Error>) -> Option<Code> {
        answer.err().map(|error| error.code)
    }

    #[test]
    fn a_volume_is_attached_once_and_detached_once() {
        testing::reset();
        for _ in 0..2 {
            attach(&args("a", "n1"), Some(1)).unwrap();
        }
        assert_eq!(nodes("a"), Ok(vec!["n1".to_owned()]));
        assert_eq!(code(must_be_none("a")), Some(Code::FailedPrecondition));
        for _ in 0..2 {
            detach("a", Some("n1")).unwrap();
        }
        detach("unknown", None).unwrap();
        assert_eq!(must_be_none("a"), Ok(()));
        assert!(testing::state_keys().is_empty());
    }

    #[test]
    fn another_way_or_another_node_is_refused() {
        testing::reset();
        attach(&args("a", "n1"), None).unwrap();
        let readonly = ControllerPublishArgs {
            readonly: true,
            ..args("a", "n1")
        };
        assert_eq!(code(attach(&readonly, None)), Some(Code::AlreadyExists));
        let elsewhere = attach(&args("a", "n2"), None);
        assert_eq!(code(elsewhere), Some(Code::FailedPrecondition));
        assert_eq!(nodes("a"), Ok(vec!["n1".to_owned()]));
    }

    #[test]
    fn what_one_node_has_alone_no_mode_for_many_brings_to_another() {
        testing::reset();
        let shared = |node| {
            let mut args = args("a", node);
            args.capability.access_mode = AccessMode::MultiNodeMultiWriter;
            attach(&args, None)
        };
        attach(&args("a", "n1"), None).unwrap();
        assert_eq!(code(shared("n2")), Some(Code::FailedPrecondition));
        assert_eq!(code(shared("n1")), Some(Code::AlreadyExists));
        detach("a", Some("n1")).unwrap();
        shared("n2").unwrap();
        let alone = attach(&args("a", "n1"), None);
        assert_eq!(code(alone), Some(Code::FailedPrecondition));
        assert_eq!(nodes("a"), Ok(vec!["n2".to_owned()]));
    }

    #[test]
    fn a_mode_for_many_nodes_has_many_and_is_detached_from_all() {
        testing::reset();
        for node in ["n2", "n1"] {
            let mut args = args("a", node);
            args.capability.access_mode = AccessMode::MultiNodeMultiWriter;
            attach(&args, None).unwrap();
        }
        assert_eq!(nodes("a"), Ok(vec!["n1".to_owned(), "n2".to_owned()]));
        detach("a", None).unwrap();
        assert!(testing::state_keys().is_empty());
    }

    #[test]
    fn a_full_node_takes_no_more_until_one_goes() {
        testing::reset();
        attach(&args("a", "n1"), Some(2)).unwrap();
        attach(&args("b", "n1"), Some(2)).unwrap();
        let full = attach(&args("c", "n1"), Some(2));
        assert_eq!(code(full), Some(Code::ResourceExhausted));
        assert_eq!(must_be_none("c"), Ok(()));
        attach(&args("c", "n2"), Some(2)).unwrap();
        detach("a", Some("n1")).unwrap();
        attach(&args("d", "n1"), Some(2)).unwrap();
        // Volumes that were attached before the limit was lowered stay attached.
        attach(&args("d", "n1"), Some(1)).unwrap();
    }

    #[test]
    fn a_call_that_ends_half_way_is_completed_by_its_retry() {
        let power_cut = || Error::unavailable("power cut");
        for point in 0..4 {
            testing::reset();
            testing::fail_after(point, power_cut());
            let cut_off = attach(&args("a", "n1"), Some(1));
            testing::mend();
            assert_eq!(cut_off.is_err(), point < 4, "{point}");
            attach(&args("a", "n1"), Some(1)).unwrap();
            testing::fail_after(point, power_cut());
            assert!(detach("a", Some("n1")).is_err(), "{point}");
            testing::mend();
            detach("a", Some("n1")).unwrap();
            assert!(testing::state_keys().is_empty(), "{point}");
        }
    }
}
