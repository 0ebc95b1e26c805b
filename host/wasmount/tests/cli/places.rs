//! Directories, sockets and addresses that cannot be used: the error message of each, and the exit code.

use crate::{DOCUMENT, said, serve, wasmount};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn directories_that_cannot_work_end_with_64() {
    for (words, line) in [
        (
            ["--data-dir", "data"],
            "--data-dir data: must be an absolute path",
        ),
        (
            ["--run-dir", "/a/../b"],
            "--run-dir /a/../b: must not contain `..`",
        ),
        (
            ["--socket-dir", "/nowhere/a/b"],
            "--socket-dir /nowhere/a/b: neither it nor its parent directory exists; make the parent first",
        ),
        (
            ["--data-dir", "/dev/null"],
            "--data-dir /dev/null: is not a directory",
        ),
    ] {
        assert_eq!(
            serve(DOCUMENT, &words),
            (Some(64), format!("wasmount: {line}\n"))
        );
    }
    assert_eq!(
        serve(DOCUMENT, &["--role", "node", "--path-root", "/nowhere"]),
        (
            Some(64),
            "wasmount: --path-root /nowhere: is not an existing directory; make it first, or name another\n".to_owned()
        )
    );
}

#[test]
fn a_path_root_that_overlaps_with_kubelets_directory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(path("kubelet/pods")).unwrap();
    std::os::unix::fs::symlink(path("kubelet/pods"), path("link")).unwrap();
    let kubelet = path("kubelet").display().to_string();
    for name in ["kubelet/pods", "link", "."] {
        let root = path(name).display().to_string();
        let words = [
            "--role",
            "node",
            "--kubelet-dir",
            &kubelet,
            "--path-root",
            &root,
        ];
        let (code, text) = serve(DOCUMENT, &words);
        assert_eq!(code, Some(64), "{text}");
        let reason = format!("--path-root {root}: must not overlap with --kubelet-dir {kubelet},");
        assert!(text.contains(&reason), "{text}");
    }
}

#[test]
fn flags_of_the_mounter_process_are_rejected_beside_its_address() {
    let address = ["--mounter", "unix:/run/wasmount/mounter.sock"];
    for (flag, value) in [("--run-dir", "/run/x"), ("--path-root", "/x")] {
        let words = [
            ["serve", "--backend"],
            ["/nowhere.yaml", flag],
            [value, address[0]],
        ]
        .concat();
        let (code, text) = said(&wasmount(&[&words[..], &address[1..]].concat()));
        assert_eq!(code, Some(64), "{text}");
        let line = text.lines().next().unwrap_or_default();
        assert!(
            line.contains("cannot be used with")
                && line.contains("'--mounter <ADDRESS>'")
                && line.contains(flag),
            "{text}"
        );
    }
}

#[test]
fn an_address_of_a_mounter_that_is_no_socket_ends_with_64() {
    for address in ["/run/m.sock", "unix:m.sock", "tcp:127.0.0.1:1", "unix:"] {
        let (code, text) = serve(DOCUMENT, &["--mounter", address]);
        assert_eq!(code, Some(64), "{text}");
        assert!(
            text.contains("must be `unix:` and the full path of the mounter's socket"),
            "{text}"
        );
    }
}

#[test]
fn a_mounter_whose_places_cannot_work_ends_with_64() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let file = path("backend.yaml");
    std::fs::write(&file, DOCUMENT).unwrap();
    let (data, run, root) = (
        path("data"),
        path("run"),
        folder.path().display().to_string(),
    );
    let long = path(&"s".repeat(107));
    for (socket, roots, part) in [
        (
            "s.sock",
            root.as_str(),
            "--socket s.sock: must be an absolute path",
        ),
        (
            "/nowhere/a/s.sock",
            &root,
            "neither it nor its parent directory exists",
        ),
        (
            &long,
            &root,
            "and the kernel takes 107; choose a shorter directory",
        ),
        (
            &path("s.sock"),
            "/nowhere",
            "--path-root /nowhere: is not an existing directory",
        ),
    ] {
        let (code, text) = said(&wasmount(&[
            "mounter",
            "--backend",
            &file,
            "--data-dir",
            &data,
            "--run-dir",
            &run,
            "--socket",
            socket,
            "--path-root",
            roots,
        ]));
        assert_eq!(code, Some(64), "{text}");
        assert!(text.contains(part), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn a_socket_path_that_the_kernel_would_cut_ends_with_64() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("s".repeat(90));
    let (code, text) = serve(DOCUMENT, &["--socket-dir", &long.display().to_string()]);
    assert_eq!(code, Some(64), "{text}");
    let path = long.join("directory.wasmount.io/csi.sock");
    assert_eq!(
        text,
        format!(
            "wasmount: --socket-dir {}: the socket {} has a path of {} bytes, and the kernel takes 107; choose a shorter directory\n",
            long.display(),
            path.display(),
            path.as_os_str().len()
        )
    );
}

#[test]
fn a_registration_socket_that_the_kernel_would_cut_ends_with_64() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("k".repeat(60));
    std::fs::create_dir(&long).unwrap();
    let sockets = folder.path().display().to_string();
    let kubelet = long.display().to_string();
    let flags = [
        "--role",
        "node",
        "--socket-dir",
        &sockets,
        "--kubelet-dir",
        &kubelet,
    ];
    let (code, text) = serve(DOCUMENT, &flags);
    assert_eq!(code, Some(64), "{text}");
    let path = long.join("plugins_registry/directory.wasmount.io@reg.sock");
    assert_eq!(
        text,
        format!(
            "wasmount: --kubelet-dir {kubelet}: the socket {} has a path of {} bytes, and the kernel takes 107; choose a shorter directory\n",
            path.display(),
            path.as_os_str().len()
        )
    );
}

#[test]
fn forced_registration_without_kubelet_exits_with_64() {
    let folder = tempfile::tempdir().unwrap();
    let kubelet = folder.path().display().to_string();
    let flags = [
        "--role",
        "node",
        "--registration",
        "on",
        "--kubelet-dir",
        &kubelet,
    ];
    let (code, text) = serve(DOCUMENT, &flags);
    assert_eq!(code, Some(64), "{text}");
    assert_eq!(
        text,
        format!(
            "wasmount: --registration on: there is no directory {kubelet}/plugins_registry, which kubelet makes when it first starts; --kubelet-dir says where kubelet's root is\n"
        )
    );
}

#[test]
fn a_directory_that_cannot_be_written_ends_with_1() {
    assert!(Path::new("/proc/self").exists());
    let (code, text) = serve(DOCUMENT, &["--run-dir", "/proc/wasmount"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.starts_with("wasmount: cannot write /proc/wasmount: "),
        "{text}"
    );
}

#[test]
fn a_taken_health_address_ends_with_1_and_says_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, text) = serve(DOCUMENT, &["--listen-health", &address]);
    assert_eq!(code, Some(1), "{text}");
    let line = text.lines().last().unwrap_or_default();
    assert_eq!(
        line,
        format!(
            "wasmount: cannot listen for health checks on {address}: Address already in use (os error 98); choose another --listen-health, or `off`"
        )
    );
}

#[test]
fn a_node_that_may_not_mount_ends_with_1_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = folder.join("backend.yaml");
    std::fs::write(&file, DOCUMENT).unwrap();
    let binary = env!("CARGO_BIN_EXE_wasmount");
    // Root has the capability, unless it is dropped for child processes.
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-sys_admin", binary]);
        command
    } else {
        Command::new(binary)
    };
    command.args(["serve", "--role", "node", "--listen-health", "off"]);
    for (flag, name) in [
        ("--data-dir", "data"),
        ("--run-dir", "run"),
        ("--socket-dir", "s"),
    ] {
        command.arg(flag).arg(folder.join(name));
    }
    command
        .arg("--path-root")
        .arg(folder)
        .arg("--backend")
        .arg(&file);
    let (code, text) = said(&command.output().unwrap());
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.starts_with("wasmount: role `node` mounts volumes and needs the capability CAP_SYS_ADMIN, which this process lacks: "),
        "{text}"
    );
}

#[test]
fn a_missing_kubelet_directory_is_blamed_by_its_own_flag() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backend.yaml");
    std::fs::write(&file, DOCUMENT).unwrap();
    let (data, kubelet) = (folder.path().join("data"), folder.path().join("kublet"));
    let words = ["serve", "--role", "controller", "--listen-health", "off"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_wasmount"));
    command.args(words).arg("--backend").arg(&file);
    command.arg("--data-dir").arg(&data);
    let (code, text) = said(&command.arg("--kubelet-dir").arg(&kubelet).output().unwrap());
    assert_eq!(code, Some(64));
    let begin = format!(
        "wasmount: --kubelet-dir {}: is not an existing directory; name the root directory of kubelet",
        kubelet.display()
    );
    assert!(text.starts_with(&begin), "{text}");
    assert!(!data.exists());
}

#[test]
fn a_kubeconfig_that_is_named_must_be_usable() {
    let folder = tempfile::tempdir().unwrap();
    let rubbish = folder.path().join("rubbish");
    std::fs::write(&rubbish, "[1]").unwrap();
    for file in ["/nowhere/config", &rubbish.display().to_string()] {
        let (code, text) = serve(DOCUMENT, &["--kubeconfig", file]);
        assert_eq!(code, Some(64), "{text}");
        let begin = format!("wasmount: --kubeconfig {file}: ");
        assert!(text.starts_with(&begin), "{text}");
    }
}

#[test]
fn a_cluster_range_that_is_no_network_is_told_the_form() {
    let (code, text) = serve(DOCUMENT, &["--cluster-ranges", "10.0.0.0/99"]);
    assert_eq!(code, Some(64));
    assert!(
        text.contains("must be a network such as `10.96.0.0/12`"),
        "{text}"
    );
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    let help = |to: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wasmount"));
        command.args(["status", "--help"]).stdout(to);
        said(&command.output().unwrap())
    };
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let (code, text) = help(full.into());
    assert_eq!(code, Some(1));
    assert!(
        text.contains("the help is not written: No space left"),
        "{text}"
    );
    assert_eq!(help(Stdio::null()), (Some(0), String::new()));
}
