//! Login and logout by `iscsiadm`, which asks the node's `iscsid`.
//!
//! `iscsiadm` takes the parameters of a login from its database, a directory of text files, and secrets in its arguments, where every process of the
//! node can read them. So each login has a database of its own: in memory, in a mount namespace that ends with the login. The record is written there
//! as a file, and nothing of it is left. `iscsid` and the kernel keep the secrets with the session, to reconnect.

use super::scsi::Session;
use crate::attach::Owner;
use crate::failure::{io, kernel};
use crate::mountinfo;
use crate::plan::attach::IscsiPath;
use crate::tools::{ToolCall, ToolOutput};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wasmount_core::fault::{Blame, Owner as Responsible};
use wasmount_core::mounter::MountError;
use wasmount_core::plan::attached::option;
use wasmount_core::secrets::SecretOptions;
use wasmount_sys::namespace::unshare_mounts;
use zeroize::Zeroizing;

const PROGRAM: &str = "iscsiadm";
/// Directories of the database: of Debian 12, and of others.
const DATABASES: [&str; 2] = ["/etc/iscsi", "/var/lib/iscsi"];
/// Files of the first directory that configure open-iscsi. They are the administrator's.
const CONFIGURATION: [&str; 2] = ["iscsid.conf", "initiatorname.iscsi"];
/// Where it locks its database.
const LOCKS: &str = "/run/lock";
/// Size of a database in memory: some records of 4 KiB.
const DATABASE_OPTIONS: &std::ffi::CStr = c"size=1m,mode=700";

/// How long `iscsid` waits for an answer to a login, in seconds. A target in the same network answers in milliseconds.
const LOGIN_SECONDS: u32 = 10;
/// How long `iscsiadm` may take: one attempt to log in, and its end, or a logout that the target does not answer.
const DEADLINE: Duration = Duration::from_secs(20);

/// Exit statuses of `iscsiadm` (iscsiadm(8), EXIT STATUS).
const SESSION_EXISTS: i32 = 15;
const NO_DAEMON: [i32; 2] = [18, 20];
const NO_OBJECT: i32 = 21;
const REFUSED: [i32; 2] = [19, 24];
const TIMEOUT: [i32; 2] = [4, 8];

/// Longest user or password, in bytes (`AUTH_STR_MAX_LEN` of open-iscsi, with its end).
const CREDENTIAL_BYTES: usize = 255;

/// CHAP of a session, checked: each is one value of a record.
pub(super) struct Credentials {
    /// Keys of a record and values.
    values: Vec<(&'static str, Zeroizing<String>)>,
}

impl Credentials {
    pub(super) fn parse(secrets: &SecretOptions) -> Result<Self, MountError> {
        let keys = [
            (option::CHAP_USER, "node.session.auth.username"),
            (option::CHAP_PASSWORD, "node.session.auth.password"),
            (option::MUTUAL_CHAP_USER, "node.session.auth.username_in"),
            (
                option::MUTUAL_CHAP_PASSWORD,
                "node.session.auth.password_in",
            ),
        ];
        let mut values = Vec::new();
        for (option, key) in keys {
            let Some(value) = secrets.get(option) else {
                continue;
            };
            let is_valid = (1..=CREDENTIAL_BYTES).contains(&value.len())
                && !value.contains(char::is_control)
                && value.trim() == value;
            if !is_valid {
                let reason = format!(
                    "it is empty, longer than {CREDENTIAL_BYTES} bytes, has a control character, or begins or ends with a space"
                );
                let what = format!("the secret for `{option}`");
                let blame = Blame::Of(Responsible::Secret);
                return Err(MountError::invalid(what, reason, blame));
            }
            values.push((key, Zeroizing::new(value.to_owned())));
        }
        Ok(Self { values })
    }

    fn are_none(&self) -> bool {
        self.values.is_empty()
    }
}

/// Logs in. The session scans for no disk.
pub(super) fn login(
    owner: &Owner<'_>,
    interface: &str,
    path: &IscsiPath,
    credentials: &Credentials,
) -> Result<(), MountError> {
    in_own_database(owner, || {
        let portal = path.portal.to_string();
        let target = path.target.as_str();
        let of_node = ["-m", "node", "-T", target, "-p", &portal, "-I", interface];
        let tool = Tool { owner, path };
        tool.make_interface(interface)?;
        tool.succeed(&[&of_node[..], &["-o", "new"]].concat())?;
        let record = find_record(owner, path)?;
        let unreadable = |error| io("read", record.display(), &error);
        let text = Zeroizing::new(fs::read_to_string(&record).map_err(unreadable)?);
        let changed = with_settings(&text, credentials);
        let unwritable = |error| io("write", record.display(), &error);
        fs::write(&record, changed.as_bytes()).map_err(unwritable)?;
        let login = [&of_node[..], &["--login"]].concat();
        let output = tool.call(&login).run()?;
        match output.status {
            0 | SESSION_EXISTS => Ok(()),
            _ => Err(tool.login_failed(&login, &output)),
        }
    })
}

/// Ends a session, connected or not.
pub(super) fn logout(
    owner: &Owner<'_>,
    interface: &str,
    session: &Session,
    path: &IscsiPath,
) -> Result<(), MountError> {
    in_own_database(owner, || {
        let id = session.id.to_string();
        let arguments = ["-m", "session", "-r", &id, "--logout"];
        let tool = Tool { owner, path };
        // `iscsiadm` looks up the interface that the kernel shows for the session.
        tool.make_interface(interface)?;
        let output = tool.call(&arguments).run()?;
        match output.status {
            0 | NO_OBJECT => Ok(()),
            _ => Err(tool.failed(&arguments, &output)),
        }
    })
}

/// Runs work on a thread with a mount namespace of its own, where the databases are in memory.
fn in_own_database(
    owner: &Owner<'_>,
    work: impl FnOnce() -> Result<(), MountError> + Send,
) -> Result<(), MountError> {
    let body = move || {
        hide_databases(owner)?;
        work()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("iscsi-login".to_owned());
        let thread = thread
            .spawn_scoped(scope, body)
            .map_err(|error| io("start a thread for", PROGRAM, &error))?;
        thread
            .join()
            .unwrap_or_else(|_| Err(MountError::lost_worker()))
    })
}

fn hide_databases(owner: &Owner<'_>) -> Result<(), MountError> {
    let failed = |operation, path: &Path| {
        let object = path.display().to_string();
        move |errno| kernel(operation, object, errno)
    };
    let root = Path::new("/");
    unshare_mounts().map_err(failed("unshare the mounts of", root))?;
    // What is unmounted elsewhere must be unmounted here too, and nothing the other way round.
    let from_outside = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change(root, from_outside).map_err(failed("mount --make-rslave", root))?;
    // This namespace must not keep the file system of a volume that is torn down meanwhile.
    for line in mountinfo::read()? {
        let is_volume = |root: &Path| {
            let at = &line.mount_point;
            at.starts_with(root) || at.starts_with(of_node(owner, root))
        };
        if owner.node.roots.directories().any(is_volume) {
            let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
            // One that lay on another is gone already.
            let _ = unmount(&line.mount_point, flags);
        }
    }
    let mut configuration = Vec::new();
    let [etc, lib] = DATABASES;
    for name in CONFIGURATION {
        let path = of_node(owner, Path::new(etc)).join(name);
        match fs::read(&path) {
            Ok(bytes) => configuration.push((path, Zeroizing::new(bytes))),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(io("read", path.display(), &error)),
        }
    }
    for hidden in [etc, lib, LOCKS] {
        let hidden = of_node(owner, Path::new(hidden));
        if hidden.is_dir() {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            mount("tmpfs", &hidden, "tmpfs", flags, Some(DATABASE_OPTIONS))
                .map_err(failed("mount a tmpfs on", &hidden))?;
        }
    }
    for (path, bytes) in configuration {
        fs::write(&path, &bytes).map_err(|error| io("write", path.display(), &error))?;
    }
    Ok(())
}

/// The record of the login: the only one of its target.
fn find_record(owner: &Owner<'_>, path: &IscsiPath) -> Result<PathBuf, MountError> {
    let nodes = DATABASES.map(|it| {
        let database = of_node(owner, Path::new(it));
        database.join("nodes").join(path.target.as_str())
    });
    let mut folders: Vec<_> = nodes.into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => return Ok(entry.path()),
                _ => {}
            }
        }
    }
    Err(MountError::tool(
        PROGRAM,
        path,
        format!(
            "it made no record in {}, where this host knows its database",
            DATABASES.map(|it| format!("{it}/nodes")).join(" or ")
        ),
    ))
}

/// A record with the settings of this host in place of the administrator's defaults.
fn with_settings(record: &str, credentials: &Credentials) -> Zeroizing<String> {
    let seconds = LOGIN_SECONDS.to_string();
    let mut settings = vec![
        ("node.startup", "manual"),
        ("node.session.scan", "manual"),
        ("node.session.nr_sessions", "1"),
        // One attempt: the caller tries again, or another path.
        ("node.session.initial_login_retry_max", "1"),
        ("node.conn[0].timeo.login_timeout", &seconds),
    ];
    if !credentials.are_none() {
        settings.push(("node.session.auth.authmethod", "CHAP"));
        let values = credentials.values.iter();
        settings.extend(values.map(|(key, value)| (*key, value.as_str())));
    }
    let is_kept = |line: &&str| {
        let key = line.split('=').next().unwrap_or_default().trim();
        let of_chap = key.starts_with("node.session.auth.") && !credentials.are_none();
        !line.starts_with('#') && !of_chap && settings.iter().all(|(set, _)| *set != key)
    };
    let mut text = Zeroizing::new(String::new());
    for line in record.lines().filter(is_kept) {
        text.extend([line, "\n"]);
    }
    for (key, value) in settings {
        text.extend([key, " = ", value, "\n"]);
    }
    text
}

/// A path of the node, as this process sees it.
fn of_node(owner: &Owner<'_>, path: &Path) -> PathBuf {
    match (&owner.node.node_root, path.strip_prefix("/")) {
        (Some(root), Ok(below)) => root.join(below),
        _ => path.to_owned(),
    }
}

/// `iscsiadm` for one path to a disk.
struct Tool<'a> {
    owner: &'a Owner<'a>,
    path: &'a IscsiPath,
}

impl Tool<'_> {
    fn make_interface(&self, interface: &str) -> Result<(), MountError> {
        self.succeed(&["-m", "iface", "-I", interface, "-o", "new"])
    }

    fn succeed(&self, arguments: &[&str]) -> Result<(), MountError> {
        let output = self.call(arguments).run()?;
        match output.status {
            0 => Ok(()),
            _ => Err(self.failed(arguments, &output)),
        }
    }

    fn call(&self, arguments: &[&str]) -> ToolCall {
        let object = self.path.to_string();
        self.owner
            .node_program(PROGRAM, arguments, object, DEADLINE)
    }

    fn login_failed(&self, arguments: &[&str], output: &ToolOutput) -> MountError {
        let Self { path, .. } = self;
        let what = format!("target {} at {}", path.target.as_str(), path.portal);
        let said = output.excerpt();
        match output.status {
            status if REFUSED.contains(&status) => MountError::unusable(
                what,
                format!(
                    "it refuses the login; look at user and password of CHAP, and whether it lets the initiator of /etc/iscsi/initiatorname.iscsi in; {said}"
                ),
            ),
            status if TIMEOUT.contains(&status) => MountError::hung(
                what,
                format!(
                    "it did not answer within {LOGIN_SECONDS} s; look at the network between this node and the portal; {said}"
                ),
            ),
            _ => self.failed(arguments, output),
        }
    }

    fn failed(&self, arguments: &[&str], output: &ToolOutput) -> MountError {
        let problem = match output.status {
            status if NO_DAEMON.contains(&status) => {
                "iscsid does not answer on this node; start it (`systemctl enable --now iscsid`), and let the mounter share the host's network"
            }
            _ => return self.call(arguments).failed(output),
        };
        let text = format!("{problem}; {}", output.excerpt());
        MountError::tool(PROGRAM, self.path, text)
    }
}

#[cfg(test)]
mod tests;
