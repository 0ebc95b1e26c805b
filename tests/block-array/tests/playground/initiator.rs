//! The kernel's iSCSI initiator, by open-iscsi: logs in, rescans, and finds disks by what sysfs says of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the kernel knows of SCSI devices.
const DEVICES: &str = "/sys/class/scsi_device";

/// An initiator with a name of its own, so that one machine is several hosts.
pub(crate) struct Initiator {
    interface: &'static str,
}

impl Initiator {
    /// Starts what it needs. Panics with one line where the kernel or open-iscsi are missing.
    pub(crate) fn new(interface: &'static str, name: &str) -> Self {
        assert!(
            Path::new("/sbin/iscsid").exists() || Path::new("/usr/sbin/iscsid").exists(),
            "open-iscsi is missing: run this test in a VM, by `cargo xtask test` or `cargo xtask vm`"
        );
        fs::create_dir_all("/run/lock/iscsi").unwrap();
        let default = "/etc/iscsi/initiatorname.iscsi";
        fs::write(default, "InitiatorName=iqn.2026-01.io.example:unused\n").unwrap();
        let _ = Command::new("modprobe")
            .args(["-a", "iscsi_tcp", "sd_mod"])
            .output();
        // It may be running.
        let _ = Command::new("iscsid").output();
        let one = ["-m", "iface", "-I", interface, "--op"];
        // It may be known from another test.
        let _ = iscsiadm(&[&one[..], &["new"]].concat());
        let update = ["update", "-n", "iface.initiatorname", "-v", name];
        must(&[&one[..], &update].concat());
        Self { interface }
    }

    /// Sets a value for the next logins to a target.
    pub(crate) fn set(&self, target: &str, portal: &str, name: &str, value: &str) {
        let node = self.node(target, portal);
        must(&with(&node, &["--op", "update", "-n", name, "-v", value]));
    }

    /// Makes a target known, without asking it.
    pub(crate) fn know(&self, target: &str, portal: &str) {
        must(&with(&self.node(target, portal), &["--op", "new"]));
    }

    /// Logs in; what open-iscsi says if it cannot.
    pub(crate) fn log_in(&self, target: &str, portal: &str) -> Result<(), String> {
        let output = iscsiadm(&with(&self.node(target, portal), &["--login"]));
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    pub(crate) fn log_out(&self, target: &str, portal: &str) {
        let node = self.node(target, portal);
        must(&with(&node, &["--logout"]));
        must(&with(&node, &["--op", "delete"]));
    }

    pub(crate) fn rescan(&self, target: &str, portal: &str) {
        must(&with(&self.node(target, portal), &["--rescan"]));
    }

    fn node(&self, target: &str, portal: &str) -> Vec<String> {
        let node = [
            "-m",
            "node",
            "-T",
            target,
            "-p",
            portal,
            "-I",
            self.interface,
        ];
        node.map(str::to_owned).to_vec()
    }
}

/// The block devices with a WWID, such as `/dev/sda`: one for each path.
pub(crate) fn disks(wwid: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(DEVICES).into_iter().flatten().flatten();
    let devices = entries.map(|entry| entry.path().join("device"));
    let same = devices.filter(|device| {
        let found = fs::read_to_string(device.join("wwid"));
        found.is_ok_and(|it| it.trim_end() == wwid)
    });
    let block = same.flat_map(|device| fs::read_dir(device.join("block")).into_iter().flatten());
    let names = block.flatten().map(|entry| entry.file_name());
    names.map(|name| Path::new("/dev").join(name)).collect()
}

/// Sessions that are logged in, at a portal.
pub(crate) fn sessions(portal: &str) -> usize {
    let shown = iscsiadm(&["-m", "session", "-P", "1"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let of_portal = text.split("Current Portal: ").skip(1);
    of_portal
        .filter(|it| it.starts_with(portal) && it.contains("iSCSI Session State: LOGGED_IN"))
        .count()
}

fn with(node: &[String], more: &[&str]) -> Vec<String> {
    let more = more.iter().map(|it| (*it).to_owned());
    node.iter().cloned().chain(more).collect()
}

fn must(arguments: &[impl AsRef<std::ffi::OsStr> + std::fmt::Debug]) {
    let output = iscsiadm(arguments);
    assert!(
        output.status.success(),
        "iscsiadm {arguments:?}: {output:?}"
    );
}

fn iscsiadm(arguments: &[impl AsRef<std::ffi::OsStr>]) -> Output {
    Command::new("iscsiadm").args(arguments).output().unwrap()
}
