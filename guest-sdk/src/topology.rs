//! Topologies: where volumes are, and where they are requested; for backends with the feature `topology`.

use crate::call;
use crate::controller::CapacityArgs;
use crate::controller::CreateVolumeArgs;
use crate::error::Error;
use crate::snapshots::CreateSnapshotArgs;
use crate::volume::{Topology, TopologyRequirement};

impl Topology {
    /// A place with one segment, such as `("topology.kubernetes.io/zone", "a")`.
    pub fn of(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            segments: vec![(key.into(), value.into())],
        }
    }

    /// The node where this host runs, as the only topology; none away from the nodes.
    pub fn of_this_node(key: &str) -> Vec<Self> {
        let place = |node| Self::of(key, node);
        call::node_name().into_iter().map(place).collect()
    }

    /// Whether it is within a wider or equal topology: it has all segments of that one.
    pub fn is_within(&self, wider: &Topology) -> bool {
        let has = |segment| self.segments.contains(segment);
        wider.segments.iter().all(has)
    }
}

impl CreateVolumeArgs {
    /// Rejects a volume that is reachable from `places` only, if the request allows none of them, with `resource-exhausted`: so the scheduler tries
    /// another node. An empty list means everywhere.
    pub fn must_be_at(&self, places: &[Topology]) -> Result<(), Error> {
        must_include(requisite(self.accessibility.as_ref()), places)
    }
}

impl CreateSnapshotArgs {
    /// See [`CreateVolumeArgs::must_be_at`].
    pub fn must_be_at(&self, places: &[Topology]) -> Result<(), Error> {
        must_include(requisite(self.accessibility.as_ref()), places)
    }
}

impl CapacityArgs {
    /// See [`CreateVolumeArgs::must_be_at`].
    pub fn must_be_at(&self, places: &[Topology]) -> Result<(), Error> {
        must_include(self.accessible_topology.as_slice(), places)
    }
}

fn requisite(requested: Option<&TopologyRequirement>) -> &[Topology] {
    requested.map_or(&[], |requested| &requested.requisite)
}

fn must_include(requisite: &[Topology], places: &[Topology]) -> Result<(), Error> {
    let is_here = |requested| places.iter().any(|place| place.is_within(requested));
    if places.is_empty() || requisite.is_empty() || requisite.iter().any(is_here) {
        return Ok(());
    }
    Err(Error::resource_exhausted(
        "none of the places that are asked for is here: let another node make it",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn zone(name: &str) -> Topology {
        Topology::of("zone", name)
    }

    fn check(requested_places: &[Topology], places: &[Topology]) -> Result<(), Code> {
        let requested = TopologyRequirement {
            requisite: requested_places.to_vec(),
            preferred: Vec::new(),
        };
        must_include(requisite(Some(&requested)), places).map_err(|error| error.code)
    }

    #[test]
    fn a_place_lies_within_wider_ones() {
        let mut rack = zone("a");
        rack.segments.push(("rack".to_owned(), "7".to_owned()));
        assert!(rack.is_within(&zone("a")));
        assert!(rack.is_within(&rack));
        assert!(!rack.is_within(&zone("b")));
        assert!(!zone("a").is_within(&rack));
    }

    #[test]
    fn one_of_the_places_that_are_asked_for_is_enough() {
        assert_eq!(check(&[zone("a"), zone("b")], &[zone("b")]), Ok(()));
        assert_eq!(check(&[zone("a")], &[]), Ok(()));
        assert_eq!(check(&[], &[zone("b")]), Ok(()));
        assert_eq!(must_include(requisite(None), &[zone("b")]), Ok(()));
    }

    #[test]
    fn no_place_that_is_asked_for_is_no_space() {
        let refused = Err(Code::ResourceExhausted);
        assert_eq!(check(&[zone("a")], &[zone("b")]), refused);
    }
}
