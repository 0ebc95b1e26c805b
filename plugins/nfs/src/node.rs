//! The node service: what is mounted follows from the volume context alone. A node has neither records nor pools.
use crate::Nfs;
use crate::class::Class;
use crate::volume_id::segments;
use wasmount_guest::*;

impl NodeStage for Nfs {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        args.capability.must_be_mount()?;
        let class = Class::read(&args.volume_context)?;
        let options: Vec<&str> = class.mount_options.iter().map(String::as_str).collect();
        plan.filesystem("nfs4", &source(&class)?, &options, &[])
    }
}

/// What the kernel mounts. A volume of the administrator may be the whole share; the grants decide.
fn source(class: &Class) -> Result<String, Error> {
    let sub_dir = class.sub_dir.as_deref().unwrap_or_default();
    let path = segments(&format!("{}/{sub_dir}", class.share));
    let path = path.filter(|_| !sub_dir.contains("${")).ok_or_else(|| {
        Error::invalid_argument(
            "the volume context names no path: `share` or `subDir` has a part `..` or a template",
        )
    })?;
    let server = match class.server.contains(':') {
        true => format!("[{}]", class.server),
        false => class.server.clone(),
    };
    Ok(format!("{server}:/{}", path.join("/")))
}
