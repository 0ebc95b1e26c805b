//! Whether a version offers all that the one before it offered. Sidecars ask for capabilities once, when they start; a call that they keep making
//! would be rejected each time.
//!
//! Services that are hidden, before or now, do not count: either no client knew of them, or the administrator has removed them.

use wasmount_core::capabilities::{Capabilities, Hidden, Profile};
use wasmount_core::driver::Role;
use wasmount_core::services::{Service, ServiceSet};

/// What the running version offers, and to which clients.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The name that its plugin reports.
    pub plugin: String,
    /// Its services and features.
    pub offer: ServiceSet,
    /// The services that are hidden.
    pub hidden: Hidden,
    /// The CSI profile.
    pub profile: Profile,
}

/// What a version of `offer` would remove, by the names of CSI; services that CSI does not advertise, by the contract's names.
pub(crate) fn removed(kept: &Kept, offer: &ServiceSet, hidden: &Hidden) -> Vec<String> {
    let everything = Hidden::default();
    let before = names(&kept.offer, kept.profile, &kept.hidden);
    let after = names(offer, kept.profile, &everything);
    let gone = |name: &&'static str| !after.contains(name) && !hidden.hides(name);
    let gone = before.into_iter().filter(gone);
    gone.map(str::to_owned).collect()
}

/// Each once, in the order of CSI.
fn names(offer: &ServiceSet, profile: Profile, hidden: &Hidden) -> Vec<&'static str> {
    // Of all services, whatever this process serves: the sidecars of the other role know the driver by the same name.
    let lists = Capabilities::derive(offer, Role::All, profile, hidden).names();
    let advertised = lists.into_iter().flat_map(|(_, names)| names);
    let unnamed = [Service::NodePublish];
    let services = unnamed.into_iter().filter(|service| offer.has(*service));
    let mut names = Vec::new();
    for name in advertised.chain(services.map(Service::interface)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::services::Feature;

    fn kept(services: &[Service], features: &[Feature], hidden: &[&str]) -> Kept {
        Kept {
            plugin: "nas.example.com".to_owned(),
            offer: ServiceSet::new(services.iter().copied(), features.iter().copied()),
            hidden: Hidden::parse(hidden).unwrap(),
            profile: Profile::V1_12,
        }
    }

    fn gone(kept: &Kept, services: &[Service], hidden: &[&str]) -> Vec<String> {
        let offer = ServiceSet::new(services.iter().copied(), []);
        removed(kept, &offer, &Hidden::parse(hidden).unwrap())
    }

    #[test]
    fn the_same_and_more_take_nothing_away() {
        let before = kept(&[Service::Controller, Service::NodeStage], &[], &[]);
        let after = [Service::Controller, Service::NodeStage, Service::Capacity];
        assert_eq!(gone(&before, &after[..2], &[]), [""; 0]);
        assert_eq!(gone(&before, &after, &[]), [""; 0]);
    }

    #[test]
    fn what_is_gone_is_named() {
        let before = kept(
            &[
                Service::Controller,
                Service::Snapshots,
                Service::NodeStage,
                Service::NodePublish,
            ],
            &[Feature::CloneVolume],
            &[],
        );
        assert_eq!(
            gone(&before, &[Service::Controller, Service::NodeStage], &[]),
            [
                "CREATE_DELETE_SNAPSHOT",
                "CLONE_VOLUME",
                "GET_SNAPSHOT",
                "node-publish"
            ]
        );
    }

    #[test]
    fn what_is_hidden_before_or_now_does_not_count() {
        let all = [Service::Controller, Service::Capacity];
        for (before, now) in [(&["GET_CAPACITY"][..], &[][..]), (&[], &["GET_CAPACITY"])] {
            let before = kept(&all, &[], before);
            assert_eq!(gone(&before, &[Service::Controller], now), [""; 0]);
        }
        let before = kept(&all, &[], &[]);
        assert_eq!(gone(&before, &all, &["GET_CAPACITY"]), [""; 0]);
    }
}
