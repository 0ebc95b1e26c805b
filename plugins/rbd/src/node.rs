//! The node service: the kernel's client maps the image.
use crate::{Rbd, Settings};
use wasmount_guest::*;

/// The keys of the volume's context that ceph-csi has not.
pub(crate) const CLUSTER: &str = "cluster";
pub(crate) const NAMESPACE: &str = "radosNamespace";
pub(crate) const IMAGE_ID: &str = "imageID";
/// Of ceph-csi's `mapOptions`: nobody else can write to the image, and nobody can change it, as long as a node uses it.
pub(crate) const EXCLUSIVE: &str = "exclusive";
/// ceph-csi's names in a Secret of the class (`csi.storage.k8s.io/node-stage-secret-name`).
const USER_OF_REQUEST: &str = "userID";
const KEY_OF_REQUEST: &str = "userKey";
/// The secret of the document with the key of the setting `user`.
const KEY: &str = "key";

impl NodeStage for Rbd {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        let (settings, context) = (Settings::read()?, &args.volume_context);
        let image = RbdImage {
            cluster: context.require(CLUSTER)?.to_owned(),
            pool: context.require("pool")?.to_owned(),
            namespace: context.value(NAMESPACE).map(str::to_owned),
            name: context.require("imageName")?.to_owned(),
            id: context.require(IMAGE_ID)?.to_owned(),
        };
        let is_exclusive = context.value("mapOptions") == Some(EXCLUSIVE);
        let access = access(&args.capability, is_exclusive);
        plan.rbd(&settings.monitors(), &image, access)?;
        match secrets::has(secrets::Scope::Request, KEY_OF_REQUEST) {
            true => {
                let user = CephxUser::Secret(USER_OF_REQUEST.to_owned());
                plan.cephx(&user, secrets::Scope::Request, KEY_OF_REQUEST)
            }
            false => plan.cephx(
                &CephxUser::Name(settings.user),
                secrets::Scope::Backend,
                KEY,
            ),
        }
    }
}

fn access(capability: &VolumeCapability, is_exclusive: bool) -> ImageAccess {
    match capability.access_mode {
        AccessMode::SingleNodeReaderOnly | AccessMode::MultiNodeReaderOnly => ImageAccess::ReadOnly,
        mode if mode.is_single_node() && is_exclusive => ImageAccess::Exclusive,
        _ => ImageAccess::Shared,
    }
}
