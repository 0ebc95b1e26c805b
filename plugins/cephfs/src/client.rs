//! A client of Ceph for each volume, which may use the path of its subvolume and nothing else. Its key is sealed for the volume's context.
use crate::api::{GRANT, Info, Subvolume, change, send};
use serde_json::json;
use wasmount_guest::{secrets::Secret, *};

const USERS: &str = "/api/cluster/user";
const EXPORT: &str = "/api/cluster/user/export";
const PREFIX: &str = "csi";
const HASH_DIGITS: usize = 16; // 64 bits: they tell volumes of one name apart, in other groups and file systems

/// The user of a volume, such as `csi-9f86d081884c7d65-csi-vol-pvc`.
pub(crate) fn user(subvolume: &Subvolume) -> String {
    let hash = id::from_name(PREFIX, &subvolume.id());
    let hash = hash.get(..PREFIX.len() + 1 + HASH_DIGITS);
    format!("{}-{}", hash.unwrap_or_default(), subvolume.name)
}

/// The sealed key of the volume's client. One that is left of an earlier subvolume gets the rights for this one.
pub(crate) fn create(subvolume: &Subvolume, info: &Info) -> Result<String, Error> {
    let (client, fs) = (entity(subvolume), &subvolume.fs);
    let mut objects = format!("allow rw pool={}", info.data_pool);
    if !info.pool_namespace.is_empty() {
        objects += &format!(" namespace={}", info.pool_namespace);
    }
    let rights = [
        ("mon", format!("allow r fsname={fs}")),
        ("mds", format!("allow rw fsname={fs} path={}", info.path)),
        ("osd", objects),
    ];
    let rights = rights.map(|(entity, cap)| json!({ "entity": entity, "cap": cap }));
    let body = json!({ "user_entity": client, "capabilities": rights, "import_data": "" });
    match change(http::post(GRANT, USERS).json(&body)) {
        Err(error) if error.code == Code::AlreadyExists => {
            let body = json!({ "user_entity": client, "capabilities": rights });
            change(http::put(GRANT, USERS).json(&body))?;
        }
        created => created?,
    }
    let export = http::post(GRANT, EXPORT).json(&json!({ "entities": [client] }));
    let keyring: String = send(export.idempotent())?.json()?;
    let mut lines = keyring.lines();
    let key = lines.find_map(|line| line.trim().strip_prefix("key = "));
    let key = key.ok_or_else(|| Error::internal("Ceph's keyring of the volume has no key"))?;
    sealed_secrets::seal(&subvolume.id(), &Secret::new(key))
}

/// What is absent is removed already.
pub(crate) fn remove(subvolume: &Subvolume) -> Result<(), Error> {
    change(http::delete(GRANT, USERS).segment(&entity(subvolume)))
}

fn entity(subvolume: &Subvolume) -> String {
    format!("client.{}", user(subvolume))
}
