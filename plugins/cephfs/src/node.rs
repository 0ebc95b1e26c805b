//! The node service: the kernel's client mounts the path of a subvolume.
use crate::{CephFs, Settings};
use wasmount_guest::*;

/// The secret of the document with the key of the setting `user`.
const KEY: &str = "key";
/// ceph-csi's names in a Secret of the class (`csi.storage.k8s.io/node-stage-secret-name`).
const USER_OF_REQUEST: &str = "userID";
const KEY_OF_REQUEST: &str = "userKey";

impl NodeStage for CephFs {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        args.capability.must_be_mount()?;
        let settings = Settings::read()?;
        let path = args.volume_context.require("subvolumePath")?;
        let source = format!("{}:{path}", settings.monitors);
        let mut options = vec![format!(
            "mds_namespace={}",
            args.volume_context.require("fsName")?
        )];
        let own = args
            .volume_context
            .value("kernelMountOptions")
            .unwrap_or_default();
        options.extend(
            own.split(',')
                .filter(|it| !it.is_empty())
                .map(str::to_owned),
        );
        let of_request = secrets::names(secrets::Scope::Request);
        let is_of_request = of_request.iter().any(|it| it == KEY_OF_REQUEST);
        let secret_options: &[_] = match is_of_request {
            true => &[("name", USER_OF_REQUEST), ("secret", KEY_OF_REQUEST)],
            false => {
                options.push(format!("name={}", settings.user));
                &[]
            }
        };
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        plan.filesystem("ceph", &source, &options, secret_options)?;
        match is_of_request {
            true => Ok(()),
            false => plan.backend_secret_options(&[("secret", KEY)]),
        }
    }
}
