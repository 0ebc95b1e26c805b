//! The node service: the kernel's client mounts the path of a subvolume.
use crate::{CephFs, Settings};
use wasmount_guest::*;

/// The keys of the volume's context with its own client.
pub(crate) const USER_OF_VOLUME: &str = "user";
pub(crate) const KEY_OF_VOLUME: &str = "sealedKey";
/// ceph-csi's names in a Secret of the class (`csi.storage.k8s.io/node-stage-secret-name`).
const USER_OF_REQUEST: &str = "userID";
const KEY_OF_REQUEST: &str = "userKey";
/// The secret of the document with the key of the setting `user`.
const KEY: &str = "key";

impl NodeStage for CephFs {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        args.capability.must_be_mount()?;
        let (settings, context) = (Settings::read()?, &args.volume_context);
        let path = context.require("subvolumePath")?;
        let source = format!("{}:{path}", settings.monitors);
        let key = context.value(KEY_OF_VOLUME);
        let user = match key {
            Some(_) => Some(context.require(USER_OF_VOLUME)?),
            None if secrets::has(secrets::Scope::Request, KEY_OF_REQUEST) => None,
            None => Some(settings.user.as_str()),
        };
        let fs = format!("mds_namespace={}", context.require("fsName")?);
        let user_option = user.map(|user| format!("name={user}"));
        let own = context.value("kernelMountOptions").unwrap_or_default();
        let own = own.split(',').filter(|it| !it.is_empty());
        let options = [fs.as_str()].into_iter().chain(own);
        let options: Vec<&str> = options.chain(user_option.as_deref()).collect();
        let of_request: &[_] = match user {
            Some(_) => &[],
            None => &[("name", USER_OF_REQUEST), ("secret", KEY_OF_REQUEST)],
        };
        plan.filesystem("ceph", &source, &options, of_request)?;
        match (key, user) {
            (Some(key), _) => plan.sealed_secret_options(&[("secret", key)]),
            (None, Some(_)) => plan.backend_secret_options(&[("secret", KEY)]),
            (None, None) => Ok(()),
        }
    }
}
