//! The SELinux label of a request: who may request one, and what the kernel receives.

use super::*;
use wasmount_core::document::FilesystemGrant;

/// The flag that kubelet sends, and the label in it.
const FLAG: &str = r#"context="system_u:object_r:container_file_t:s0:c10,c20""#;
const LABEL: &str = "system_u:object_r:container_file_t:s0:c10,c20";
const OTHER: &str = "context=system_u:object_r:other_t:s0";

pub(super) fn tmpfs(size_bytes: Option<u64>) -> Plan {
    plan(Source::Tmpfs { size_bytes })
}

fn asking(flags: &[&str]) -> VolumeCapability {
    mounted(MountAccess {
        mount_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        ..MountAccess::default()
    })
}

/// Grants with `csiDriver.seLinuxMount`.
fn labelling() -> Grants {
    let nfs = FilesystemGrant {
        fs_type: "nfs4".to_owned(),
        sources: vec!["server:/*".to_owned()],
        mount_options: vec!["context".to_owned()],
        max_bytes: None,
    };
    let mut grants = grants();
    grants.filesystems.push(nfs);
    Grants {
        selinux_mount: true,
        ..grants
    }
}

/// Grants with neither `seLinuxMount` nor the option.
fn not_labelling() -> Grants {
    let mut grants = labelling();
    for filesystem in &mut grants.filesystems {
        filesystem.mount_options.clear();
    }
    Grants {
        selinux_mount: false,
        ..grants
    }
}

fn nfs() -> Plan {
    plan(Source::Filesystem {
        fs_type: "nfs4".to_owned(),
        source: "server:/a".to_owned(),
        options: Vec::new(),
        secret_options: Vec::new(),
        backend_secret_options: Vec::new(),
        sealed_options: Vec::new(),
    })
}

fn files() -> Plan {
    plan(Source::Files { files: Vec::new() })
}

/// All options of the file system itself, for each type that it may have.
fn own(checked: &CheckedPlan) -> Vec<Vec<(String, String)>> {
    match &checked.source {
        CheckedSource::Image(_, Form::Filesystem(filesystem)) => {
            filesystem.options.values().cloned().collect()
        }
        CheckedSource::Filesystem(filesystem) => vec![filesystem.options.clone()],
        CheckedSource::Tmpfs(options) => vec![options.clone()],
        CheckedSource::Files(files) => vec![files.options.clone()],
        other => panic!("no file system of its own: {other:?}"),
    }
}

#[test]
fn an_selinux_label_is_one_option_of_each_file_system() {
    let labels = |options: Vec<(String, String)>| -> Vec<String> {
        let labels = options.into_iter().filter(|(name, _)| name == "context");
        labels.map(|(_, label)| label).collect()
    };
    for plan in [image(), nfs(), tmpfs(None), files()] {
        let step = plan.source.step();
        let checked = check(&plan, &asking(&[FLAG, "ro"]), false, &labelling()).unwrap();
        let options = own(&checked);
        assert!(!options.is_empty(), "{step}");
        for options in options {
            assert_eq!(labels(options), [LABEL], "{step}");
        }
        assert!(checked.flags.is_read_only(), "{step}");
        let unasked = check(&plan, &plain(), false, &labelling()).unwrap();
        for options in own(&unasked) {
            assert_eq!(labels(options), [""; 0], "{step}");
        }
    }
}

#[test]
fn without_a_grant_no_request_labels_a_mount() {
    for plan in [image(), nfs(), tmpfs(None), files()] {
        let refused = check(&plan, &asking(&[FLAG]), false, &not_labelling()).unwrap_err();
        let MountError::NotGranted { text: reason, .. } = refused else {
            panic!("{refused:?}");
        };
        assert!(reason.contains("csiDriver.seLinuxMount: true"), "{reason}");
        assert!(!reason.contains("object_r"), "{reason}");
    }
    // The option may also be granted by name.
    let granted = Grants {
        selinux_mount: false,
        ..labelling()
    };
    assert!(check(&nfs(), &asking(&[FLAG]), false, &granted).is_ok());
}

#[test]
fn a_tree_of_a_pool_has_no_label_of_its_own() {
    for grants in [labelling(), not_labelling()] {
        let refused = check(&tree("main", "a"), &asking(&[FLAG]), false, &grants).unwrap_err();
        let MountError::Invalid { text: reason, .. } = refused else {
            panic!("{refused:?}");
        };
        assert!(reason.contains("remove `seLinuxMount` from"), "{reason}");
    }
}

#[test]
fn a_plan_labels_nothing_without_a_grant_of_the_option() {
    let with = |plan: Plan, option: &str| Plan {
        mount_options: vec![option.to_owned()],
        ..plan
    };
    for option in [OTHER, FLAG] {
        for plan in [image(), tmpfs(None), files(), tree("main", "a")] {
            let step = plan.source.step();
            let checked = check(&with(plan, option), &plain(), false, &labelling());
            assert!(checked.is_err(), "{step} {option}");
        }
    }
    let plan = with(nfs(), OTHER);
    assert!(check(&plan, &plain(), false, &labelling()).is_ok());
    // Then the request cannot set another label.
    let both = check(&plan, &asking(&[FLAG]), false, &labelling());
    assert_eq!(variant(both), "invalid");
    assert!(check(&plan, &asking(&[OTHER]), false, &labelling()).is_ok());
}

#[test]
fn what_is_no_label_is_refused_wherever_it_may_be_asked_for() {
    for flag in [
        "context=",
        "context=u:r:t:s0:c1,c2",
        r#"context="u:r:t",suid"#,
    ] {
        for plan in [image(), nfs(), tmpfs(None), files()] {
            let refused = check(&plan, &asking(&[flag]), false, &labelling());
            assert_eq!(variant(refused), "invalid", "{flag}");
        }
    }
    let two = check(&image(), &asking(&[FLAG, OTHER]), false, &labelling());
    assert_eq!(variant(two), "invalid");
    for flag in ["fscontext=u:r:t", "defcontext=u:r:t", "rootcontext=u:r:t"] {
        let refused = check(&image(), &asking(&[flag]), false, &labelling());
        assert_eq!(variant(refused), "not granted", "{flag}");
    }
}
