//! File systems of the kernel that are mounted by type, if this kernel has them.

mod address;

use super::*;
use crate::kernel::judges_each_option;
use crate::namespace;
use crate::plan::filesystem::{FilesystemStep, check};
use crate::plan::options::RequestedOptions;
use rustix::mount::{MoveMountFlags, UnmountFlags, move_mount, unmount};
use std::fs;
use std::path::Path;
use wasmount_core::code::Code;
use wasmount_core::document::{FilesystemGrant, Grants};

/// Runs a test in a mount namespace that ends with it.
fn in_a_namespace(test: impl FnOnce(&Path) + Send + 'static) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    namespace::in_a_namespace(move || test(&path));
}

/// The result of checking a step with these options granted.
fn checked(
    fs_type: &str,
    source: &str,
    options: &[String],
    granted: &[&str],
    secret_options: &[(String, String)],
) -> Result<(CheckedFilesystem, MountFlags), MountError> {
    let grant = FilesystemGrant {
        fs_type: fs_type.to_owned(),
        sources: vec![source.to_owned()],
        mount_options: granted.iter().map(|word| (*word).to_owned()).collect(),
        max_bytes: None,
    };
    let grants = Grants {
        filesystems: vec![grant],
        ..Grants::default()
    };
    let step = FilesystemStep {
        fs_type,
        source,
        options,
        secret_options,
    };
    check(&step, RequestedOptions::default(), None, &grants)
}

/// Mounts a step with this secret as its `password`.
fn mounted(
    fs_type: &str,
    source: &str,
    options: &[String],
    granted: &[&str],
    password: Option<&str>,
) -> Result<OwnedFd, MountError> {
    let pair = |value: &str| ("password".to_owned(), value.to_owned());
    let named: Vec<_> = password.map(|_| pair("a-secret")).into_iter().collect();
    let (filesystem, flags) = checked(fs_type, source, options, granted, &named)?;
    let secrets = password.map(pair).into_iter().collect();
    prepare(&filesystem, flags, &secrets)
}

const LAYERS: [&str; 3] = ["lowerdir", "upperdir", "workdir"];

/// An overlay's directories, and the options that name them.
fn layers(directory: &Path) -> Vec<String> {
    fs::create_dir(directory.join("mounted")).unwrap();
    LAYERS
        .iter()
        .map(|layer| {
            fs::create_dir(directory.join(layer)).unwrap();
            format!("{layer}={}", directory.join(layer).display())
        })
        .collect()
}

#[test]
fn privileged_a_granted_overlay_is_mounted_and_written_through() {
    in_a_namespace(|directory| {
        let layers = layers(directory);
        fs::write(directory.join("lowerdir/below"), "below").unwrap();
        let mount = mounted("overlay", "overlay", &layers, &LAYERS, None).unwrap();
        let at = directory.join("mounted");
        // It is not attached yet.
        assert!(!at.join("below").exists());
        let empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&mount, c"", rustix::fs::CWD, &at, empty).unwrap();
        assert_eq!(fs::read_to_string(at.join("below")).unwrap(), "below");
        fs::write(at.join("written"), "through").unwrap();
        let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let line = table
            .lines()
            .find(|line| line.contains(at.to_str().unwrap()))
            .unwrap();
        assert!(
            line.contains("nosuid,nodev") && line.contains("- overlay overlay"),
            "{line}"
        );
        drop(mount);
        unmount(&at, UnmountFlags::DETACH).unwrap();
        assert!(!at.join("written").exists());
        let upper = directory.join("upperdir/written");
        assert_eq!(fs::read_to_string(upper).unwrap(), "through");
    });
}

#[test]
fn privileged_an_overlay_of_ungranted_directories_is_rejected() {
    in_a_namespace(|directory| {
        let layers = layers(directory);
        let refused = mounted("overlay", "overlay", &layers, &["lowerdir"], None);
        assert!(matches!(refused, Err(MountError::NotGranted { .. })));
        // Smuggled into a granted option.
        let joined = [layers.join(",")];
        let refused = mounted("overlay", "overlay", &joined, &LAYERS, None);
        assert!(matches!(refused, Err(MountError::Invalid { .. })));
    });
}

#[test]
fn privileged_a_missing_kernel_client_names_its_module() {
    in_a_namespace(|_| {
        for (fs_type, source, password, module) in [
            ("nosuchfs", "a", None, "nosuchfs"),
            ("nfs4", "127.0.0.1:/a", None, "nfsv4"),
            ("nfs", "[::1]:/a", None, "nfsv4"),
            ("cifs", "//localhost/a", Some("hunter22"), "cifs"),
            ("9p", "tag", None, "9p"),
        ] {
            let error = mounted(fs_type, source, &[], &[], password).unwrap_err();
            let text = error.to_string();
            let expected = format!(
                "this kernel has no file system `{fs_type}`; load its module (`modprobe {module}`)"
            );
            // Read afterwards, since the kernel loads an available module itself.
            let known = fs::read_to_string("/proc/filesystems").unwrap();
            let is_known = known
                .lines()
                .any(|line| line.ends_with(&format!("\t{fs_type}")));
            assert_eq!(text.contains(&expected), !is_known, "{text}");
            assert!(is_known || error.code() == Code::Unimplemented, "{text}");
        }
    });
}

#[test]
fn privileged_a_rejected_mount_option_is_named_without_value() {
    in_a_namespace(|directory| {
        let mut options = layers(directory);
        options.push("nosuchoption=some-value".to_owned());
        let granted = ["lowerdir", "upperdir", "workdir", "nosuchoption"];
        let error = mounted("overlay", "overlay", &options, &granted, None).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("`nosuchoption`") && !text.contains("some-value"),
            "{text}"
        );
        // The kernel's own message is included, where it writes one for the host.
        let is_told = text.contains("the kernel says: overlay:");
        assert_eq!(is_told, judges_each_option("overlay"), "{text}");
    });
}

#[test]
fn privileged_a_rejected_secret_option_is_in_no_message() {
    in_a_namespace(|_| {
        let granted = ["password"];
        let error = mounted("overlay", "overlay", &[], &granted, Some("hunter22")).unwrap_err();
        assert!(matches!(error, MountError::Invalid { .. }), "{error}");
        let text = format!("{error} {error:?}");
        assert!(
            text.contains("`password`") && !text.contains("hunter22"),
            "{text}"
        );
    });
}

#[test]
fn privileged_kernel_messages_that_repeat_a_value_are_omitted() {
    in_a_namespace(|directory| {
        let mut options = layers(directory);
        options[0].push_str("/missing");
        let error = mounted("overlay", "overlay", &options, &LAYERS, None).unwrap_err();
        let code = match judges_each_option("overlay") {
            true => Code::InvalidArgument,
            false => Code::NotFound,
        };
        assert_eq!(error.code(), code, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("`lowerdir`") && !text.contains("/missing"),
            "{text}"
        );
    });
}

#[test]
fn secrets_must_come_with_the_request_and_fit_the_kernel() {
    let named = [("password".to_owned(), "a-secret".to_owned())];
    let (filesystem, flags) = checked("cifs", "//localhost/a", &[], &[], &named).unwrap();
    for (value, rule) in [
        (None, "not among"),
        (Some(String::new()), "empty"),
        (Some("hunter22".repeat(32)), "255"),
        (Some("hunter22\0".to_owned()), "NUL"),
    ] {
        let secrets = value
            .map(|value| ("password".to_owned(), value))
            .into_iter()
            .collect();
        let error = prepare(&filesystem, flags, &secrets).unwrap_err();
        assert!(matches!(error, MountError::Invalid { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(rule) && text.contains("`password`") && !text.contains("hunter22"),
            "{text}"
        );
    }
    let fits = [("password".to_owned(), "h".repeat(255))];
    let secrets = fits.into_iter().collect();
    assert_eq!(requested_secrets(&filesystem, &secrets).unwrap().len(), 1);
}

fn nfs() -> CheckedFilesystem {
    CheckedFilesystem {
        fs_type: "nfs4".to_owned(),
        source: "server:/a".to_owned(),
        options: vec![
            ("vers".to_owned(), "4.2".to_owned()),
            ("domain".to_owned(), "corp.example".to_owned()),
        ],
        secret_names: vec!["password".to_owned()],
        server: None,
        granted_sources: Vec::new(),
    }
}

#[test]
fn each_failure_has_the_code_for_what_is_to_be_done() {
    for (errno, code, hint) in [
        (Errno::TIMEDOUT, Code::DeadlineExceeded, "firewalls"),
        (Errno::CONNREFUSED, Code::DeadlineExceeded, "server"),
        (Errno::ACCESS, Code::FailedPrecondition, "credentials"),
        (Errno::NOKEY, Code::FailedPrecondition, "rpc.gssd"),
        (Errno::PERM, Code::FailedPrecondition, "`sec=krb5p`"),
        (Errno::NOENT, Code::NotFound, "server:/a"),
        (Errno::PROTONOSUPPORT, Code::Unimplemented, "modprobe nfsv4"),
        (Errno::INVAL, Code::InvalidArgument, "together"),
        (Errno::NOMEM, Code::Unavailable, "memory"),
        (Errno::IO, Code::Internal, "nfs4 `server:/a`"),
    ] {
        let error = create_failed(&nfs(), errno, "");
        assert_eq!(error.code(), code, "{errno}");
        assert!(error.to_string().contains(hint), "{error}");
    }
}

#[test]
fn with_kerberos_a_failure_names_helper_and_key() {
    let mut kerberos = nfs();
    kerberos
        .options
        .push(("sec".to_owned(), "krb5p".to_owned()));
    for errno in [Errno::INVAL, Errno::ACCESS, Errno::NOKEY] {
        let error = create_failed(&kerberos, errno, "");
        assert_eq!(error.code(), Code::FailedPrecondition, "{errno}");
        let text = error.to_string();
        assert!(
            text.contains("rpc.gssd") && text.contains("krb5.keytab"),
            "{text}"
        );
    }
    let refused = create_failed(&nfs(), Errno::ACCESS, "").to_string();
    assert!(!refused.contains("Kerberos"), "{refused}");
}

#[test]
fn the_kernel_message_is_in_the_error() {
    let told = kernel_messages(&["NFS: no such version".to_owned()], &nfs(), &[]);
    assert_eq!(told, "; the kernel says: NFS: no such version");
    let error = create_failed(&nfs(), Errno::INVAL, &told);
    assert!(error.to_string().ends_with(&told), "{error}");
    assert_eq!(kernel_messages(&[], &nfs(), &[]), "");
}

#[test]
fn a_kernel_message_that_repeats_a_value_is_omitted() {
    let secrets = [("password", "pw")];
    for message in ["bad password pw", "no domain corp.example"] {
        let messages = ["harmless".to_owned(), message.to_owned()];
        assert_eq!(
            kernel_messages(&messages, &nfs(), &secrets),
            "",
            "{message}"
        );
    }
    let messages = ["vers 4.2 not known".to_owned()];
    assert_ne!(kernel_messages(&messages, &nfs(), &secrets), "");
}
