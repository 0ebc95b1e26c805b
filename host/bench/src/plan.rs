//! Which RPCs a mix has with a driver of these capabilities, and which undo what is open. Pure.

use crate::options::Mix;
use tonic::Code;
use wasmount_core::rpc::Rpc;

/// All that a published volume needs.
const PUBLISHED: [Rpc; 4] = [
    Rpc::CreateVolume,
    Rpc::ControllerPublishVolume,
    Rpc::NodeStageVolume,
    Rpc::NodePublishVolume,
];

/// What the driver advertises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Offers {
    /// CREATE_DELETE_VOLUME of a controller.
    pub(crate) create: bool,
    /// PUBLISH_UNPUBLISH_VOLUME of the controller.
    pub(crate) controller_publish: bool,
    /// STAGE_UNSTAGE_VOLUME of the node.
    pub(crate) stage: bool,
    /// GET_VOLUME_STATS of the node.
    pub(crate) stats: bool,
    /// VOLUME_ACCESSIBILITY_CONSTRAINTS of the plugin.
    pub(crate) topology: bool,
}

/// The RPCs of a mix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Once for each lane, not measured; without any, each repetition has a volume of its own.
    pub(crate) before: Vec<Rpc>,
    /// Repeated and measured.
    pub(crate) repeated: Vec<Rpc>,
}

/// Why a driver cannot be measured so.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    /// It cannot create volumes.
    #[error(
        "the driver does not advertise CREATE_DELETE_VOLUME: name a socket that serves controller and node, or use the mix `probe`"
    )]
    NoCreate,
    /// It has no statistics.
    #[error("the driver does not advertise GET_VOLUME_STATS: use another mix")]
    NoStats,
}

impl Offers {
    /// Those of the RPCs that the driver has.
    fn of(&self, rpcs: &[Rpc]) -> Vec<Rpc> {
        let has = |rpc: &Rpc| match rpc {
            Rpc::ControllerPublishVolume | Rpc::ControllerUnpublishVolume => {
                self.controller_publish
            }
            Rpc::NodeStageVolume | Rpc::NodeUnstageVolume => self.stage,
            Rpc::NodeGetVolumeStats => self.stats,
            _ => true,
        };
        rpcs.iter().copied().filter(has).collect()
    }
}

impl Plan {
    /// The RPCs of the mix that the driver has.
    pub(crate) fn of(mix: Mix, offers: &Offers) -> Result<Self, PlanError> {
        if mix != Mix::Probe && !offers.create {
            return Err(PlanError::NoCreate);
        }
        if mix == Mix::Stats && !offers.stats {
            return Err(PlanError::NoStats);
        }
        let published = offers.of(&PUBLISHED);
        let (before, repeated) = match mix {
            Mix::Probe => (Vec::new(), offers.of(&[Rpc::Probe])),
            Mix::CreateDelete => (Vec::new(), vec![Rpc::CreateVolume, Rpc::DeleteVolume]),
            Mix::Publish => {
                let staged = published.into_iter();
                let staged = staged.filter(|rpc| *rpc != Rpc::NodePublishVolume);
                let repeated = vec![Rpc::NodePublishVolume, Rpc::NodeUnpublishVolume];
                (staged.collect(), repeated)
            }
            Mix::Stats => (published, vec![Rpc::NodeGetVolumeStats]),
            Mix::Life => {
                let mut life = vec![Rpc::Probe];
                life.extend(&published);
                life.extend(offers.of(&[Rpc::NodeGetVolumeStats]));
                life.extend(undo(&published));
                (Vec::new(), life)
            }
        };
        Ok(Self { before, repeated })
    }

    /// What makes a volume that exists during the run.
    pub(crate) fn of_existing(is_published: bool, offers: &Offers) -> Self {
        let before = match is_published {
            true => offers.of(&PUBLISHED),
            false => vec![Rpc::CreateVolume],
        };
        Self {
            before,
            repeated: Vec::new(),
        }
    }
}

/// The RPC that undoes this one.
fn inverse(rpc: Rpc) -> Option<Rpc> {
    Some(match rpc {
        Rpc::CreateVolume => Rpc::DeleteVolume,
        Rpc::ControllerPublishVolume => Rpc::ControllerUnpublishVolume,
        Rpc::NodeStageVolume => Rpc::NodeUnstageVolume,
        Rpc::NodePublishVolume => Rpc::NodeUnpublishVolume,
        _ => return None,
    })
}

/// Whether work may be under way, or done, after this code: what kubelet and external-provisioner take as uncertain.
pub(crate) fn is_uncertain(code: Code) -> bool {
    matches!(
        code,
        Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Unavailable
            | Code::ResourceExhausted
            | Code::Aborted
    )
}

/// Notes in the list of what is open how an RPC ended.
pub(crate) fn note(open: &mut Vec<Rpc>, rpc: Rpc, ended: Code) {
    if inverse(rpc).is_some() {
        open.retain(|it| *it != rpc);
        if ended == Code::Ok || is_uncertain(ended) {
            open.push(rpc);
        }
    } else if ended == Code::Ok {
        open.retain(|it| inverse(*it) != Some(rpc));
    }
}

/// The RPCs that undo what is open, in their order.
pub(crate) fn undo(open: &[Rpc]) -> Vec<Rpc> {
    open.iter().rev().filter_map(|rpc| inverse(*rpc)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Offers = Offers {
        create: true,
        controller_publish: true,
        stage: true,
        stats: true,
        topology: true,
    };
    const LEAST: Offers = Offers {
        create: true,
        controller_publish: false,
        stage: false,
        stats: false,
        topology: false,
    };

    fn names(rpcs: &[Rpc]) -> Vec<&'static str> {
        rpcs.iter().map(|it| it.name()).collect()
    }

    #[test]
    fn a_life_has_every_rpc_that_the_driver_advertises() {
        let life = Plan::of(Mix::Life, &ALL).unwrap();
        assert_eq!(names(&life.before), [""; 0]);
        assert_eq!(
            names(&life.repeated),
            [
                "Probe",
                "CreateVolume",
                "ControllerPublishVolume",
                "NodeStageVolume",
                "NodePublishVolume",
                "NodeGetVolumeStats",
                "NodeUnpublishVolume",
                "NodeUnstageVolume",
                "ControllerUnpublishVolume",
                "DeleteVolume"
            ]
        );
    }

    #[test]
    fn a_life_lacks_what_the_driver_does_not_advertise() {
        let life = Plan::of(Mix::Life, &LEAST).unwrap();
        assert_eq!(
            names(&life.repeated),
            [
                "Probe",
                "CreateVolume",
                "NodePublishVolume",
                "NodeUnpublishVolume",
                "DeleteVolume"
            ]
        );
    }

    #[test]
    fn a_mix_that_the_driver_cannot_have_is_refused() {
        let none = Offers::default();
        for mix in [Mix::Life, Mix::CreateDelete, Mix::Publish, Mix::Stats] {
            assert_eq!(Plan::of(mix, &none), Err(PlanError::NoCreate));
        }
        assert_eq!(Plan::of(Mix::Stats, &LEAST), Err(PlanError::NoStats));
        let probe = Plan::of(Mix::Probe, &none).unwrap();
        assert_eq!(names(&probe.repeated), ["Probe"]);
    }

    #[test]
    fn a_mix_on_one_volume_makes_it_before() {
        let publish = Plan::of(Mix::Publish, &ALL).unwrap();
        let made = ["CreateVolume", "ControllerPublishVolume", "NodeStageVolume"];
        assert_eq!(names(&publish.before), made);
        let stats = Plan::of(Mix::Stats, &ALL).unwrap();
        assert_eq!(names(&stats.before).last(), Some(&"NodePublishVolume"));
        assert_eq!(names(&stats.repeated), ["NodeGetVolumeStats"]);
    }

    #[test]
    fn an_existing_volume_is_created_or_published() {
        let created = Plan::of_existing(false, &ALL);
        assert_eq!(names(&created.before), ["CreateVolume"]);
        let published = Plan::of_existing(true, &LEAST);
        let expected = ["CreateVolume", "NodePublishVolume"];
        assert_eq!(names(&published.before), expected);
        assert_eq!(names(&published.repeated), [""; 0]);
    }

    #[test]
    fn an_interrupted_life_is_undone_from_where_it_was() {
        let life = Plan::of(Mix::Life, &ALL).unwrap().repeated;
        let whole = ["NodeUnpublishVolume", "NodeUnstageVolume"];
        let whole = [&whole[..], &["ControllerUnpublishVolume", "DeleteVolume"]].concat();
        // After so many steps, the last so many of the whole are left.
        let left = [0, 0, 1, 2, 3, 4, 4, 3, 2, 1, 0];
        for (steps, left) in left.into_iter().enumerate() {
            let mut open = Vec::new();
            for rpc in life.iter().take(steps) {
                note(&mut open, *rpc, Code::Ok);
            }
            assert_eq!(names(&undo(&open)), whole[whole.len() - left..], "{steps}");
        }
    }

    #[test]
    fn an_uncertain_step_is_undone_and_a_final_one_is_not() {
        let mut open = vec![Rpc::CreateVolume];
        note(&mut open, Rpc::NodeStageVolume, Code::DeadlineExceeded);
        assert_eq!(names(&undo(&open)), ["NodeUnstageVolume", "DeleteVolume"]);
        note(&mut open, Rpc::NodeStageVolume, Code::InvalidArgument);
        assert_eq!(names(&undo(&open)), ["DeleteVolume"]);
        note(&mut open, Rpc::DeleteVolume, Code::Unavailable);
        assert_eq!(names(&undo(&open)), ["DeleteVolume"]);
        note(&mut open, Rpc::DeleteVolume, Code::Ok);
        assert_eq!(names(&undo(&open)), [""; 0]);
    }
}
