//! What a node mounts, and as which user.

use super::*;
use wasmount_guest::secrets::Scope;
use wasmount_guest::testing::Source;

fn stage(context: &[(&str, &str)]) -> Result<Source, Error> {
    let args = NodeStageArgs {
        id: "cephfs/csi/csi-vol-pvc".to_owned(),
        capability: capability(AccessMode::MultiNodeMultiWriter),
        publish_context: Vec::new(),
        volume_context: pairs(context),
    };
    testing::record(|plan| CephFs::node_stage(args, plan)).map(|plan| plan.source)
}

const CONTEXT: [(&str, &str); 2] = [("fsName", "cephfs"), ("subvolumePath", "/volumes/csi/a/1")];

#[test]
fn a_node_mounts_the_path_with_the_key_of_the_document() {
    let _ceph = fresh();
    testing::set_secret(Scope::Backend, "key", "AQ==");
    testing::set_setting("user", "blue");
    let options = [("kernelMountOptions", "ms_mode=secure,rasize=8388608")];
    let source = stage(&[&CONTEXT[..], &options].concat());
    let expected = Source::Filesystem {
        fs_type: "ceph".to_owned(),
        source: format!("{MONITORS}:/volumes/csi/a/1"),
        options: [
            "mds_namespace=cephfs",
            "ms_mode=secure",
            "rasize=8388608",
            "name=blue",
        ]
        .map(str::to_owned)
        .into(),
        secret_options: Vec::new(),
        backend_secret_options: pairs(&[("secret", "key")]),
        sealed_options: Vec::new(),
    };
    assert_eq!(source, Ok(expected));
}

#[test]
fn a_key_of_the_volume_comes_before_all_others() {
    let _ceph = fresh();
    testing::set_secret(Scope::Backend, "key", "AQ==");
    testing::set_secret(Scope::Request, "userID", "green");
    testing::set_secret(Scope::Request, "userKey", "AQ==");
    let context = created("pvc").context;
    let sealed = context.require("sealedKey").unwrap();
    let own: Vec<_> = context
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    let expected = Source::Filesystem {
        fs_type: "ceph".to_owned(),
        source: format!("{MONITORS}:/volumes/csi/csi-vol-pvc/1"),
        options: [
            "mds_namespace=cephfs",
            "name=csi-f08cd849d709319d-csi-vol-pvc",
        ]
        .map(str::to_owned)
        .into(),
        secret_options: Vec::new(),
        backend_secret_options: Vec::new(),
        sealed_options: pairs(&[("secret", sealed)]),
    };
    assert_eq!(stage(&own), Ok(expected));
    let no_user: Vec<_> = own.into_iter().filter(|(key, _)| *key != "user").collect();
    assert_eq!(code(stage(&no_user)), Some(Code::InvalidArgument));
}

#[test]
fn a_key_of_the_class_comes_before_that_of_the_document() {
    let _ceph = fresh();
    testing::set_secret(Scope::Backend, "key", "AQ==");
    testing::set_secret(Scope::Request, "userID", "green");
    testing::set_secret(Scope::Request, "userKey", "AQ==");
    let Ok(Source::Filesystem {
        options,
        secret_options,
        ..
    }) = stage(&CONTEXT)
    else {
        panic!("no file system");
    };
    assert_eq!(options, ["mds_namespace=cephfs"]);
    assert_eq!(
        secret_options,
        pairs(&[("name", "userID"), ("secret", "userKey")])
    );
}

#[test]
fn a_node_without_key_monitors_or_path_is_told_what_is_missing() {
    let _ceph = fresh();
    assert_eq!(code(stage(&CONTEXT)), Some(Code::FailedPrecondition));
    assert_eq!(code(stage(&CONTEXT[..1])), Some(Code::InvalidArgument));
    testing::reset();
    let error = stage(&CONTEXT).unwrap_err();
    assert!(error.message.contains("`monitors`"), "{error:?}");
    assert_eq!(
        code(CephFs::check_settings()),
        Some(Code::FailedPrecondition)
    );
}
