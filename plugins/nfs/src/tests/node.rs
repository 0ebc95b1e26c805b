//! The step of the node.

use super::*;
use testing::Source;

fn staged(context: Attributes) -> Result<Source, Error> {
    let args = NodeStageArgs {
        id: "nas#export#pvc-1##".to_owned(),
        capability: capability(AccessMode::MultiNodeMultiWriter),
        publish_context: Vec::new(),
        volume_context: context,
    };
    testing::record(|plan| Nfs::node_stage(args, plan)).map(|plan| plan.source)
}

fn mounted(source: &str, options: &[&str]) -> Result<Source, Error> {
    Ok(Source::Filesystem {
        fs_type: "nfs4".to_owned(),
        source: source.to_owned(),
        options: options.iter().map(|&option| option.to_owned()).collect(),
        secret_options: Vec::new(),
        backend_secret_options: Vec::new(),
        sealed_options: Vec::new(),
    })
}

#[test]
fn a_volume_is_its_directory_on_the_server() {
    fresh();
    let volume = created("pvc-1", &[("subDir", "a/b")]);
    assert_eq!(
        staged(volume.context),
        mounted("nas.example.com:/export/a/b", &[])
    );
}

#[test]
fn volumes_of_an_administrator_are_mounted_as_they_say() {
    fresh();
    for (context, source, options) in [
        (
            &[("server", "nas"), ("share", "/export")][..],
            "nas:/export",
            &[][..],
        ),
        (
            &[("server", "nas"), ("share", "/"), ("subDir", "a")],
            "nas:/a",
            &[],
        ),
        (
            &[("server", "[fd00::1]"), ("share", "/e/")],
            "[fd00::1]:/e",
            &[],
        ),
        (
            &[
                ("server", "nas"),
                ("share", "/e"),
                ("mountOptions", "nfsvers=4.1,hard"),
            ],
            "nas:/e",
            &["nfsvers=4.1", "hard"],
        ),
    ] {
        assert_eq!(staged(pairs(context)), mounted(source, options));
    }
}

#[test]
fn a_context_that_names_no_path_is_refused() {
    fresh();
    for context in [
        &[("server", "nas")][..],
        &[("server", "nas"), ("share", "/e/../f")],
        &[
            ("server", "nas"),
            ("share", "/e"),
            ("subDir", "${pvc.metadata.name}"),
        ],
    ] {
        assert_eq!(code(staged(pairs(context))), Some(Code::InvalidArgument));
    }
    let args = NodeStageArgs {
        id: "nas#export#pvc-1##".to_owned(),
        capability: VolumeCapability {
            access_type: AccessType::Block,
            access_mode: AccessMode::SingleNodeWriter,
        },
        publish_context: Vec::new(),
        volume_context: class(&[]),
    };
    let block = testing::record(|plan| Nfs::node_stage(args, plan));
    assert_eq!(code(block), Some(Code::InvalidArgument));
}
