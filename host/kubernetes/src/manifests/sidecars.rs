//! Which of Kubernetes' sidecars a driver needs, with which flags. Each sidecar and each flag stands beside the capability that calls for it, and a
//! sidecar that finds nothing to do ends itself.
//!
//! Flags are those of external-provisioner 6.3, -attacher 4.12, -resizer 2.2 and -snapshotter 8.6. It knows no pod.

use super::{Backend, Form, Parts};
use wasmount_core::capabilities::{ControllerCapability, PluginCapability};
use wasmount_core::names::DriverName;

/// What a capacity object belongs to: the pod itself on a node (its capacity goes with it), else the Deployment above pod and ReplicaSet.
const OWNER_POD: &str = "--capacity-ownerref-level=0";
const OWNER_DEPLOYMENT: &str = "--capacity-ownerref-level=2";
/// Only one at a time, of all pods. Never in the controller's Deployment: there the host itself is elected, and the sidecars beside one that
/// stands by wait for its Probe; one that were elected beside it would be refused for ever.
const ELECTED: &str = "--leader-election";

/// A kind of sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Provisioner,
    Attacher,
    Resizer,
    Snapshotter,
}

/// One that a driver needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sidecar {
    pub(super) kind: Kind,
    pub(super) arguments: Vec<&'static str>,
}

impl Kind {
    /// Name of the container and of the image.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Provisioner => "csi-provisioner",
            Self::Attacher => "csi-attacher",
            Self::Resizer => "csi-resizer",
            Self::Snapshotter => "csi-snapshotter",
        }
    }

    /// The Lease by which it is elected: what it names, with `-` for all that no label holds (csi-lib-utils 0.24, leaderelection).
    pub(super) fn lease(self, driver: &DriverName) -> String {
        let begin = match self {
            Self::Provisioner => "",
            Self::Attacher => "external-attacher-leader-",
            Self::Resizer => "external-resizer-",
            Self::Snapshotter => "external-snapshotter-leader-",
        };
        let driver = driver
            .as_str()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        format!("{begin}{driver}")
    }

    /// The release whose flags and rights these are.
    pub(super) fn version(self) -> &'static str {
        match self {
            Self::Provisioner => "v6.3.0",
            Self::Attacher => "v4.12.0",
            Self::Resizer => "v2.2.0",
            Self::Snapshotter => "v8.6.0",
        }
    }
}

impl Sidecar {
    pub(super) fn is_elected(&self) -> bool {
        self.arguments.contains(&ELECTED)
    }
}

impl Parts<'_> {
    /// Those of the pod that serves the controller.
    pub(super) fn sidecars(&self) -> Vec<Sidecar> {
        let backend = self.backend;
        let has = |capability| backend.controls(capability);
        let mut sidecars = Vec::new();
        let mut add = |wanted: bool, kind, arguments: fn(&Self) -> Vec<&'static str>| {
            if wanted {
                let arguments = arguments(self);
                sidecars.push(Sidecar { kind, arguments });
            }
        };
        let creates = has(ControllerCapability::CreateDeleteVolume);
        add(creates, Kind::Provisioner, Self::provisioner);
        let attaches = has(ControllerCapability::PublishUnpublishVolume);
        // It has no form for nodes, nor has the resizer.
        add(attaches, Kind::Attacher, Self::elected);
        let resizes = backend.grows() || has(ControllerCapability::ModifyVolume);
        add(resizes, Kind::Resizer, Self::resizer);
        let snapshots = has(ControllerCapability::CreateDeleteSnapshot);
        add(snapshots, Kind::Snapshotter, Self::snapshotter);
        sidecars
    }

    /// Each node's snapshotter looks after the snapshots of that node. Which those are is read from the topology of the volume.
    pub(super) fn snapshots_by_node(&self) -> bool {
        let backend = self.backend;
        self.choices.form == Form::NodeLocal
            && backend.has_topology()
            && backend.controls(ControllerCapability::CreateDeleteSnapshot)
    }

    /// Groups of snapshots can be asked for. Not by node: csi-snapshotter lists their objects by the label of a node, which nobody sets on them
    /// (external-snapshotter 8.6, cmd/csi-snapshotter/main.go and groupsnapshot_controller_helper.go).
    pub(super) fn groups(&self) -> bool {
        self.backend.groups() && !self.snapshots_by_node()
    }

    fn elected(&self) -> Vec<&'static str> {
        match self.choices.form {
            Form::NodeLocal => vec![ELECTED],
            Form::Network => Vec::new(),
        }
    }

    fn provisioner(&self) -> Vec<&'static str> {
        let (backend, form) = (self.backend, self.choices.form);
        // Names of claim and volume, for the plugin's records and the storage's own tools.
        let mut arguments = vec!["--extra-create-metadata"];
        if form == Form::NodeLocal {
            arguments.push("--node-deployment");
            // Else a claim whose class does not wait for a pod stays Pending without a word: each node leaves it to the others.
            arguments.push("--node-deployment-immediate-binding=true");
        }
        if backend.has_topology() {
            // Without it CreateVolume is given every node's segment, and may choose another than the pod's.
            arguments.push("--strict-topology");
        }
        if backend.tells_capacity() {
            arguments.push("--enable-capacity");
            arguments.push(match form {
                Form::NodeLocal => OWNER_POD,
                Form::Network => OWNER_DEPLOYMENT,
            });
        }
        if backend.controls(ControllerCapability::PublishReadonly) {
            arguments.push("--controller-publish-readonly");
        }
        arguments
    }

    fn resizer(&self) -> Vec<&'static str> {
        let mut arguments = self.elected();
        if self.backend.controls(ControllerCapability::ModifyVolume) {
            arguments.push("--extra-modify-metadata");
        }
        if !self.backend.expands_offline() {
            // It would watch all pods of the cluster, to wait for those that use a volume.
            arguments.push("--handle-volume-inuse-error=false");
        }
        arguments
    }

    fn snapshotter(&self) -> Vec<&'static str> {
        let mut arguments = vec!["--extra-create-metadata"];
        if self.snapshots_by_node() {
            arguments.push("--node-deployment");
        } else {
            arguments.extend(self.elected());
        }
        if self.groups() {
            arguments.push("--feature-gates=CSIVolumeGroupSnapshot=true");
        }
        arguments
    }
}

impl Backend {
    /// A volume must not be in use while it grows.
    pub(super) fn expands_offline(&self) -> bool {
        self.capabilities
            .plugin
            .contains(&PluginCapability::VolumeExpansionOffline)
    }
}
