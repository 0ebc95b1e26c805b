//! Which volume is attached to which node, in records of the backend's store: for storage that does not keep such a list itself. Apart
//! because the rules of ControllerPublishVolume are the same for all of it: what is there already, what is in the way, how many a node takes.
//!
//! It attaches nothing, and does not know whether volume or node exist. A volume's record says how it is attached. Each volume on a node has
//! a record of its own beside it, its place: a node may have more than one record can list, and places are counted only where there is a
//! limit, whenever it was set.

use crate::controller_publish::ControllerPublishArgs;
use crate::error::Error;
use crate::id;
use crate::state::{self, Collection};
use crate::volume::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const VOLUMES: Collection<Volume, 1> = Collection::new("attachments.volume");

#[derive(Default, Serialize, Deserialize)]
struct Volume {
    nodes: BTreeMap<NodeId, Way>,
    /// Nodes that are not known yet to have room: the call that wants it there has not ended.
    #[serde(default)]
    uncounted: BTreeSet<NodeId>,
}

/// How a volume is attached to a node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Way {
    readonly: bool,
    block: bool,
    /// No other node may have it.
    alone: bool,
}

/// Records that the volume is attached as the request wants it; a repeated call changes nothing. `already-exists` where it is attached
/// there in another way, `failed-precondition` where another node has it and the access mode of either is for one node, `resource-exhausted`
/// where the node has `most_volumes` others. What is there stays when the limit is lowered. Two calls that want the last place at the same
/// moment may both be refused, and never both have it.
pub fn attach(args: &ControllerPublishArgs, most_volumes: Option<u64>) -> Result<(), Error> {
    let way = Way {
        readonly: args.readonly,
        block: args.capability.is_block(),
        alone: args.capability.access_mode.is_single_node(),
    };
    let is_uncounted = VOLUMES.change_any(&VOLUMES.id(&args.id), |volume| {
        let Volume { nodes, uncounted } = volume.get_or_insert_default();
        match nodes.get(&args.node) {
            Some(there) if *there == way => return Ok(uncounted.contains(&args.node)),
            Some(_) => {
                return Err(Error::already_exists(
                    "the volume is attached to this node in another way: detach it first",
                ));
            }
            None if nodes.values().any(|there| way.alone || there.alone) => {
                return Err(Error::failed_precondition(
                    "the volume is attached to another node: detach it there first",
                ));
            }
            None => nodes.insert(args.node.clone(), way.clone()),
        };
        Ok(most_volumes.is_some() && uncounted.insert(args.node.clone()))
    })?;
    // Taken before it is counted: of two that take the last one, the later sees both.
    state::create(&place(&args.node, &args.id), &args.id)?;
    if !is_uncounted {
        return Ok(());
    }
    if let Some(most) = most_volumes
        && has_more_than(&args.node, most)?
    {
        detach(&args.id, Some(&args.node))?;
        return Err(Error::resource_exhausted(
            "the node has as many volumes as it may have: use another node",
        ));
    }
    VOLUMES.change_any(&VOLUMES.id(&args.id), |volume| {
        if let Some(volume) = volume {
            volume.uncounted.remove(&args.node);
        }
        Ok(())
    })
}

/// Records that the volume is detached from a node, or from all; what is not attached is detached already.
pub fn detach(id: &str, node: Option<&str>) -> Result<(), Error> {
    let nodes = match node {
        Some(node) => vec![node.to_owned()],
        None => nodes(id)?,
    };
    for node in nodes {
        state::delete(&place(&node, id))?;
        VOLUMES.change_any(&VOLUMES.id(id), |there| {
            if let Some(there) = there {
                there.nodes.remove(&node);
                there.uncounted.remove(&node);
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

/// Refuses a volume that is attached anywhere, with `failed-precondition`: for DeleteVolume.
pub fn must_be_none(id: &str) -> Result<(), Error> {
    if nodes(id)?.is_empty() {
        return Ok(());
    }
    Err(Error::failed_precondition(
        "the volume is attached: detach it first",
    ))
}

/// Whether a node has more places than so many. Reads no more of them than it needs to know.
fn has_more_than(node: &str, most: u64) -> Result<bool, Error> {
    let places = places(node);
    let (mut count, mut after) = (0_u64, None);
    while count <= most {
        let wanted = (most - count).saturating_add(1);
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        let found = state::scan::<String>(&places, after.as_deref(), wanted)?;
        let Some((last, _)) = found.last() else {
            return Ok(false);
        };
        after = Some(last.clone());
        count = count.saturating_add(u64::try_from(found.len()).unwrap_or(u64::MAX));
    }
    Ok(true)
}

/// The key of a volume's place on a node; the record is the volume's id, for people.
fn place(node: &str, volume: &str) -> String {
    places(node) + &id::from_name("volume", volume)
}

/// How the keys of a node's places begin.
fn places(node: &str) -> String {
    id::from_name("attachments.node", node) + "/"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
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
        // What was there before the limit was lowered stays.
        attach(&args("d", "n1"), Some(1)).unwrap();
    }

    #[test]
    fn a_limit_that_is_set_later_counts_what_is_there() {
        testing::reset();
        for id in ["a", "b", "c"] {
            attach(&args(id, "n1"), None).unwrap();
        }
        let full = attach(&args("d", "n1"), Some(3));
        assert_eq!(code(full), Some(Code::ResourceExhausted));
        attach(&args("d", "n1"), Some(4)).unwrap();
    }

    #[test]
    fn no_record_grows_with_the_number_of_volumes_of_a_node() {
        testing::reset();
        let largest = || {
            let sizes = testing::state_keys().into_iter();
            let size = |key: String| state::require::<Vec<u8>>(&key).unwrap().value.len();
            sizes.map(size).max()
        };
        attach(&args("v100", "n1"), None).unwrap();
        let first = largest();
        for number in 101..300 {
            attach(&args(&format!("v{number}"), "n1"), None).unwrap();
        }
        assert_eq!(largest(), first);
    }

    #[test]
    fn the_last_place_is_never_given_twice() {
        testing::reset();
        attach(&args("a", "n1"), Some(2)).unwrap();
        // Another call has taken a place, and has not counted yet.
        testing::fail_after(3, Error::unavailable("not yet"));
        assert!(attach(&args("b", "n1"), Some(2)).is_err());
        testing::mend();
        let full = attach(&args("c", "n1"), Some(2));
        assert_eq!(code(full), Some(Code::ResourceExhausted));
        attach(&args("b", "n1"), Some(2)).unwrap();
    }

    #[test]
    fn a_call_that_ends_half_way_is_completed_by_its_retry() {
        // A record is read and written, a place is taken, all are counted in two scans, the record is read and written.
        for point in 0..7 {
            testing::reset();
            testing::fail_after(point, Error::unavailable("power cut"));
            assert!(attach(&args("a", "n1"), Some(1)).is_err(), "{point}");
            testing::mend();
            attach(&args("a", "n1"), Some(1)).unwrap();
            // It counts as attached: a lower limit does not drive it away.
            attach(&args("a", "n1"), Some(0)).unwrap();
            detach("a", Some("n1")).unwrap();
            assert!(testing::state_keys().is_empty(), "{point}");
        }
        for point in 0..3 {
            attach(&args("a", "n1"), Some(1)).unwrap();
            testing::fail_after(point, Error::unavailable("power cut"));
            assert!(detach("a", Some("n1")).is_err(), "{point}");
            testing::mend();
            detach("a", None).unwrap();
            assert!(testing::state_keys().is_empty(), "{point}");
        }
    }
}
