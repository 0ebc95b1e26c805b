//! A recorded plan, and the host's verdict on it, for people and for programs.

use crate::cli::show::{Tone, without_nothing, yaml_lines};
use crate::fault::Fault;
use crate::host::Verdict;
use crate::visible;
use serde_json::{Map, Value, json};
use wasmount_core::document::Grants;
use wasmount_core::plan::attached::{Chap, SecretScope};
use wasmount_core::plan::rbd::{CephxUser, ImageAccess};
use wasmount_core::plan::{Plan, Source};

/// A plan as JSON.
pub(super) fn plan_json(plan: &Plan) -> Value {
    json!({
        "source": { plan.source.step(): source_json(&plan.source) },
        "defaultFsType": plan.default_fs_type,
        "mountOptions": plan.mount_options,
        "notes": plan.notes,
        "luks": plan.luks.as_ref().map(|it| json!({ "scope": scope(it.scope), "key": it.key })),
    })
}

fn source_json(source: &Source) -> Value {
    let pairs = |pairs: &[(String, String)]| -> Value {
        let pairs = pairs.iter().map(|(key, value)| json!([key, value]));
        pairs.collect()
    };
    match source {
        Source::Directory { pool, path } | Source::Image { pool, path } => {
            json!({ "pool": pool, "path": path })
        }
        Source::Device { facts, wait_ms } => json!({ "facts": pairs(facts), "waitMs": wait_ms }),
        Source::AnyDevice {
            alternatives,
            rescan,
            wait_ms,
        } => {
            let alternatives = alternatives.each().iter().map(|facts| pairs(facts));
            let alternatives: Value = alternatives.collect();
            json!({ "alternatives": alternatives, "rescan": rescan, "waitMs": wait_ms })
        }
        Source::Iscsi(iscsi) => {
            let paths = iscsi.paths.iter().map(
                |path| json!({ "portal": path.portal, "target": path.target, "lun": path.lun }),
            );
            json!({
                "paths": paths.collect::<Value>(),
                "wwid": iscsi.wwid,
                "minimumPaths": iscsi.minimum_paths,
                "waitMs": iscsi.wait_ms,
                "chap": iscsi.chap.as_ref().map(chap_json),
                "mutualChap": iscsi.mutual_chap.as_ref().map(chap_json),
            })
        }
        Source::Nvme(nvme) => json!({
            "addresses": nvme.addresses,
            "subsystem": nvme.subsystem,
            "namespaceId": nvme.namespace_id,
            "minimumPaths": nvme.minimum_paths,
            "waitMs": nvme.wait_ms,
            "dhchap": nvme.dhchap.as_ref().map(|it| json!({
                "scope": scope(it.scope),
                "hostKey": it.host_key,
                "controllerKey": it.controller_key,
            })),
        }),
        Source::Rbd(rbd) => json!({
            "monitors": rbd.monitors,
            "cluster": rbd.cluster,
            "pool": rbd.pool,
            "namespace": rbd.namespace,
            "image": rbd.image,
            "imageId": rbd.image_id,
            "access": match rbd.access {
                ImageAccess::Shared => "shared",
                ImageAccess::Exclusive => "exclusive",
                ImageAccess::ReadOnly => "read-only",
            },
            "cephx": rbd.cephx.as_ref().map(|it| json!({
                "user": match &it.user {
                    CephxUser::Name(user) => json!({ "name": user }),
                    CephxUser::Secret(user) => json!({ "secret": user }),
                },
                "scope": scope(it.scope),
                "key": it.key,
            })),
        }),
        Source::Filesystem {
            fs_type,
            source,
            options,
            secret_options,
            backend_secret_options,
            sealed_options,
        } => json!({
            "fsType": fs_type,
            "source": source,
            "options": options,
            "secretOptions": pairs(secret_options),
            "backendSecretOptions": pairs(backend_secret_options),
            "sealedOptions": pairs(sealed_options),
        }),
        Source::Tmpfs { size_bytes } => json!({ "sizeBytes": size_bytes }),
        Source::Files { files } => files
            .iter()
            .map(|file| {
                let mode = format!("{:04o}", file.mode);
                json!({ "path": file.path, "mode": mode, "bytes": file.content.len() })
            })
            .collect(),
    }
}

/// The names of the secrets.
fn chap_json(chap: &Chap) -> Value {
    json!({ "scope": scope(chap.scope), "user": chap.user, "password": chap.password })
}

/// As the contract calls it.
fn scope(scope: SecretScope) -> &'static str {
    match scope {
        SecretScope::Request => "request",
        SecretScope::Backend => "backend",
    }
}

/// A verdict as JSON.
pub(super) fn verdict_json(verdict: &Verdict) -> Value {
    let (verdict, reason, needs) = match verdict {
        Verdict::Granted => ("granted", None, None),
        Verdict::Refused(reason) => ("refused", Some(reason), None),
        Verdict::Needs(grants) => ("needs", None, Some(grants_json(grants))),
    };
    json!({ "word": verdict, "reason": reason, "needs": needs })
}

/// The same for people.
pub(super) fn verdict_lines(verdict: &Verdict) -> Result<Vec<String>, Fault> {
    Ok(match verdict {
        Verdict::Granted => vec![Tone::Good.paint("granted by the document")],
        Verdict::Refused(reason) => {
            let line = format!("refused: {}", visible::lines(reason));
            vec![Tone::Bad.paint(&line)]
        }
        Verdict::Needs(grants) => {
            if *grants == Grants::default() {
                return Ok(vec![Tone::Quiet.paint("no grant is needed")]);
            }
            let needs = without_nothing(grants_json(grants));
            let mut lines = vec!["a document must grant:".to_owned()];
            lines.extend(yaml_lines(&needs)?.into_iter().map(|it| format!("  {it}")));
            lines
        }
    })
}

/// Grants as a document has them. The path of a pool is the administrator's choice, so it is left out.
fn grants_json(grants: &Grants) -> Value {
    let Grants {
        pools,
        filesystems,
        devices,
        attach,
        // A plan sends no requests, reads no facts and seals nothing; sealed options that it has were granted.
        network: _,
        node_facts: _,
        nodes: _,
        sealing: _,
        selinux_mount,
    } = grants;
    let pools = pools.iter().map(|(name, grant)| {
        let shown = json!({ "mountOptions": grant.mount_options });
        (name.clone(), shown)
    });
    let filesystems = filesystems.iter().map(|grant| {
        json!({
            "type": grant.fs_type,
            "sources": grant.sources,
            "mountOptions": grant.mount_options,
            "maxBytes": grant.max_bytes,
        })
    });
    let devices = devices.iter().map(|grant| {
        let facts = grant.facts.iter();
        let facts = facts.map(|(fact, value)| (fact.name().to_owned(), json!(value)));
        json!({
            "facts": facts.collect::<Map<_, _>>(),
            "rescan": grant.rescan.then_some(true),
            "mountOptions": grant.mount_options,
        })
    });
    let attach = attach.iter().map(|grant| {
        let [portals, targets] = grant.protocol.keys();
        let shown = grant.portals.iter().map(ToString::to_string);
        json!({
            "protocol": grant.protocol.name(),
            portals: shown.collect::<Vec<_>>(),
            targets: grant.targets,
            "mountOptions": grant.mount_options,
        })
    });
    let grants = json!({
        "pools": pools.collect::<Map<_, _>>(),
        "filesystems": filesystems.collect::<Vec<_>>(),
        "devices": devices.collect::<Vec<_>>(),
        "attach": attach.collect::<Vec<_>>(),
    });
    let mut shown = Map::from_iter([("grants".to_owned(), grants)]);
    if *selinux_mount {
        shown.insert("csiDriver".to_owned(), json!({ "seLinuxMount": true }));
    }
    Value::Object(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use wasmount_core::plan::{Luks, PlanFile};

    fn plan(source: Source) -> Plan {
        Plan {
            source,
            default_fs_type: None,
            mount_options: Vec::new(),
            notes: BTreeMap::new(),
            luks: None,
        }
    }

    #[test]
    fn a_plan_names_secrets_and_counts_contents() {
        let files = Source::Files {
            files: vec![PlanFile {
                path: "token".to_owned(),
                mode: 0o400,
                content: b"hunter22".to_vec(),
            }],
        };
        let mounted = Source::Filesystem {
            fs_type: "cifs".to_owned(),
            source: "//a/b".to_owned(),
            options: vec!["ro".to_owned()],
            secret_options: vec![("password".to_owned(), "of-the-share".to_owned())],
            backend_secret_options: vec![("username".to_owned(), "account".to_owned())],
            sealed_options: vec![("secret".to_owned(), "wasmount.sealed.v1:x".to_owned())],
        };
        let facts = vec![("serial".to_owned(), "x".to_owned())];
        let device = Source::AnyDevice {
            alternatives: vec![facts].try_into().unwrap(),
            rescan: true,
            wait_ms: 7,
        };
        for (source, shown) in [
            (
                device,
                json!({ "any-device": { "alternatives": [[["serial", "x"]]], "rescan": true, "waitMs": 7 } }),
            ),
            (
                files,
                json!({ "files": [{ "path": "token", "mode": "0400", "bytes": 8 }] }),
            ),
            (
                mounted,
                json!({ "filesystem": {
                    "fsType": "cifs",
                    "source": "//a/b",
                    "options": ["ro"],
                    "secretOptions": [["password", "of-the-share"]],
                    "backendSecretOptions": [["username", "account"]],
                    "sealedOptions": [["secret", "wasmount.sealed.v1:x"]],
                } }),
            ),
        ] {
            assert_eq!(plan_json(&plan(source)).get("source"), Some(&shown));
        }
        let encrypted = Plan {
            luks: Some(Luks::of(SecretScope::Request, "luksKey")),
            ..plan(Source::Tmpfs { size_bytes: None })
        };
        let shown = json!({ "scope": "request", "key": "luksKey" });
        assert_eq!(plan_json(&encrypted).get("luks"), Some(&shown));
    }
}
