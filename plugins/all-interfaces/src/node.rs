//! The services of the node. A volume's context names its source: each one that a plan can have.
use crate::AllInterfaces;
use crate::volumes::POOL;
use wasmount_guest::secrets::Scope;
use wasmount_guest::*;

const ZONE: &str = "all-interfaces.wasmount.io/zone";
const MOST_VOLUMES: u64 = 7;
const WAIT_MS: u32 = 1000;
const MEMORY_BYTES: u64 = 1 << 20;
const PRIVATE: u32 = 0o600;

/// Secrets of the document: the key of a volume, a user and a password.
const KEY: &str = "key";
const USER: &str = "user";
const PASSWORD: &str = "password";

/// A secret of a request.
const TOKEN: &str = "token";

impl NodeInfo for AllInterfaces {
    fn get_node_info() -> Result<NodeDescription, Error> {
        Ok(NodeDescription {
            id: Some(node_facts::instance_id()?),
            max_volumes: Some(MOST_VOLUMES),
            topology: node_facts::zone()?.map(|zone| Topology::of(ZONE, zone)),
        })
    }
}

impl NodeStage for AllInterfaces {
    fn node_stage(args: NodeStageArgs, plan: &Plan) -> Result<(), Error> {
        let context = &args.volume_context;
        match context.require("source")? {
            "directory" => plan.directory(&POOL, &args.id),
            "image" => {
                plan.image(&POOL, &args.id)?;
                plan.default_fs_type("xfs")?;
                plan.luks(Scope::Backend, KEY)
            }
            "device" => plan.device(&[("by-id", "disk-a"), ("serial", "a")], WAIT_MS),
            "any-device" => {
                let alternatives: [&[_]; 2] = [&[("by-id", "disk-a")], &[("wwid", "naa.a")]];
                plan.any_device(&alternatives, true, WAIT_MS)
            }
            "iscsi" => iscsi(plan),
            "nvme" => {
                let addresses = ["192.0.2.1:4420", "192.0.2.2:4420"];
                let namespace = "11111111-2222-4333-8444-555555555555";
                plan.nvme(&addresses, "nqn.2026-01.example:a", namespace, 2, WAIT_MS)?;
                plan.dhchap(Scope::Backend, KEY, Some(PASSWORD))
            }
            "rbd" => rbd(plan),
            "filesystem" => {
                let options = ["name=a"];
                plan.filesystem("ceph", "192.0.2.1:/a", &options, &[("token", TOKEN)])?;
                plan.backend_secret_options(&[("key", KEY)])?;
                plan.sealed_secret_options(&[("secret", context.require("sealed")?)])
            }
            "tmpfs" => {
                plan.tmpfs(Some(MEMORY_BYTES))?;
                plan.mount_options(&["noatime"])?;
                plan.note("of", &args.id)
            }
            other => Err(Error::invalid_argument(format!("no source is `{other}`"))),
        }
    }
}

impl NodePublish for AllInterfaces {
    fn node_publish(args: NodePublishArgs, plan: &Plan) -> Result<(), Error> {
        args.must_be_ephemeral()?;
        let names = secrets::names(Scope::Request).join(" ");
        plan.files(&[File {
            path: "names/secrets".to_owned(),
            mode: PRIVATE,
            content: names.into_bytes(),
        }])
    }
}

impl NodeHooks for AllInterfaces {
    fn before_unstage(id: VolumeId, notes: Attributes) -> Result<(), Error> {
        let note = notes.value("of").unwrap_or_default();
        log::info("unstaging", &[("id", &id), ("note", note)]);
        Ok(())
    }
}

fn iscsi(plan: &Plan) -> Result<(), Error> {
    let path = |portal: &str, lun| IscsiPath {
        portal: portal.to_owned(),
        target: "iqn.2026-01.example:a".to_owned(),
        lun,
    };
    let paths = [path("192.0.2.1:3260", 7), path("192.0.2.2:3260", 8)];
    plan.iscsi(&paths, "naa.6001405a", 2, WAIT_MS)?;
    plan.chap(Scope::Backend, USER, PASSWORD)?;
    plan.mutual_chap(Scope::Backend, USER, KEY)
}

fn rbd(plan: &Plan) -> Result<(), Error> {
    let image = RbdImage {
        cluster: "11111111-2222-4333-8444-555555555555".to_owned(),
        pool: "kubernetes".to_owned(),
        namespace: Some("tenant".to_owned()),
        name: "a".to_owned(),
        id: "1f".to_owned(),
    };
    plan.rbd(&["192.0.2.1:6789"], &image, ImageAccess::Exclusive)?;
    plan.cephx(&CephxUser::Name("tenant".to_owned()), Scope::Backend, KEY)
}
