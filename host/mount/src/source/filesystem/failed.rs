//! Explains why a file system could not be mounted, with advice for the administrator of the node or of the server, or for the user. The value of no
//! option is repeated.

use crate::failure::{invalid, kernel, shown, unsupported, unusable};
use crate::fs_context::module;
use crate::plan::filesystem::CheckedFilesystem;
use rustix::io::Errno;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;

/// Name of the file system in messages.
pub(crate) fn words(filesystem: &CheckedFilesystem) -> String {
    format!("{} `{}`", filesystem.fs_type, shown(&filesystem.source))
}

/// The error that an option was rejected.
pub(crate) fn set(mut error: MountError, told: &str) -> MountError {
    if let MountError::Invalid { reason, .. } = &mut error {
        reason.push_str(told);
    }
    error
}

/// The error after the kernel accepted all options and then could not mount.
pub(crate) fn create(filesystem: &CheckedFilesystem, errno: Errno, told: &str) -> MountError {
    let what = words(filesystem);
    let text = std::io::Error::from(errno);
    match errno {
        Errno::TIMEDOUT
        | Errno::CONNREFUSED
        | Errno::CONNRESET
        | Errno::CONNABORTED
        | Errno::HOSTUNREACH
        | Errno::HOSTDOWN
        | Errno::NETUNREACH
        | Errno::NETDOWN
        | Errno::NOTCONN => MountError::Hung {
            what: format!("the server of {what}"),
            reason: format!("{text}; check the server, the network and firewalls{told}"),
        },
        Errno::ACCESS | Errno::KEYREJECTED | Errno::KEYEXPIRED | Errno::KEYREVOKED => unusable(
            what,
            format!("{text}; its server must let this node and these credentials in{told}"),
        ),
        Errno::NOKEY => unusable(
            what,
            format!(
                "{text}; Kerberos needs a ticket and its helpers (`rpc.gssd`, `cifs.upcall`) on the node{told}"
            ),
        ),
        Errno::NOENT | Errno::NXIO => MountError::NotFound {
            what: format!("{what}, or what its options name{told},"),
        },
        Errno::PROTONOSUPPORT | Errno::OPNOTSUPP | Errno::NODEV => unsupported(
            what,
            format!(
                "{text}; kernel or server do not have this version or transport: name another one in the mount options, or load the module (`modprobe {}`){told}",
                module(&filesystem.fs_type)
            ),
        ),
        Errno::INVAL => {
            let reason = format!("the kernel does not take its options together{told}");
            // Plan, request and server may each be the cause.
            invalid(what, reason, Blame::Of(Owner::Request))
        }
        errno => {
            let mut error = kernel("mount", what, errno);
            if let MountError::Kernel { text, .. } = &mut error {
                text.push_str(told);
            }
            error
        }
    }
}

/// The kernel's messages as the end of a sentence. Empty if one of them repeats a value.
pub(crate) fn told(
    messages: &[String],
    filesystem: &CheckedFilesystem,
    secrets: &[(&str, &str)],
) -> String {
    let options = filesystem.options.iter().map(|(_, value)| value.as_str());
    // Values as short as a version number are not secrets, and would match everywhere.
    let mut hidden = options
        .filter(|value| value.len() >= wasmount_core::secrets::REDACTED_VALUE_BYTES)
        .chain(secrets.iter().map(|(_, value)| *value));
    let joined = messages.join("; ");
    if joined.is_empty() || hidden.any(|value| joined.contains(value)) {
        return String::new();
    }
    format!("; the kernel says: {}", shown(&joined))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::code::Code;

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
            (Errno::NOENT, Code::NotFound, "server:/a"),
            (Errno::PROTONOSUPPORT, Code::Unimplemented, "modprobe nfsv4"),
            (Errno::INVAL, Code::InvalidArgument, "together"),
            (Errno::NOMEM, Code::Unavailable, "memory"),
            (Errno::IO, Code::Internal, "nfs4 `server:/a`"),
        ] {
            let error = create(&nfs(), errno, "");
            assert_eq!(error.code(), code, "{errno}");
            assert!(error.to_string().contains(hint), "{error}");
        }
    }

    #[test]
    fn the_kernels_words_are_repeated() {
        let told = told(&["NFS: no such version".to_owned()], &nfs(), &[]);
        assert_eq!(told, "; the kernel says: NFS: no such version");
        let error = create(&nfs(), Errno::INVAL, &told);
        assert!(error.to_string().ends_with(&told), "{error}");
        assert_eq!(super::told(&[], &nfs(), &[]), "");
    }

    #[test]
    fn the_kernels_words_are_left_out_when_they_repeat_a_value() {
        let secrets = [("password", "pw")];
        for message in ["bad password pw", "no domain corp.example"] {
            let messages = ["harmless".to_owned(), message.to_owned()];
            assert_eq!(told(&messages, &nfs(), &secrets), "", "{message}");
        }
        let messages = ["vers 4.2 not known".to_owned()];
        assert_ne!(told(&messages, &nfs(), &secrets), "");
    }
}
