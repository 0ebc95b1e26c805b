//! The kernel's iSCSI target on loopback, made by configfs, and the node's `iscsid`.

use crate::support::{run, until};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;
use wasmount_core::plan::attached::IscsiPath;

/// The target.
pub(crate) const TARGET: &str = "iqn.2026-01.test.wasmount:array";
/// Its portal.
pub(crate) const PORTAL: &str = "127.0.0.1:3260";
/// The portal of its second portal group, if it has one.
pub(crate) const SECOND_PORTAL: &str = "127.0.0.2:3260";
/// User and password of CHAP.
pub(crate) const CHAP: [&str; 2] = ["node", "hunter22hunter22"];
/// The same for the target.
pub(crate) const MUTUAL: [&str; 2] = ["array", "otherhunter22222"];
/// Size of a disk, which is sparse.
pub(crate) const DISK_BYTES: u64 = 64 << 20;
/// What the administrator of this node chose: a lost path fails requests after some seconds, and not after two minutes.
const CONFIGURATION: &str = "\nnode.session.timeo.replacement_timeout = 5\n";

const CORE: &str = "/sys/kernel/config/target/core/iblock_0";
const FABRIC: &str = "/sys/kernel/config/target/iscsi";

/// There is one target in a kernel.
static ONE: Mutex<()> = Mutex::new(());

/// A running target.
pub(crate) struct Lio {
    folder: PathBuf,
    /// Removes it.
    _owned: Option<TempDir>,
    /// One for each portal group.
    portals: Vec<&'static str>,
    _one: MutexGuard<'static, ()>,
}

impl Lio {
    /// Starts it without a disk. Panics with one line where the kernel or its tools are missing.
    pub(crate) fn start() -> Self {
        Self::start_with(vec![PORTAL])
    }

    /// The same with two portal groups, by which disks are two paths away.
    pub(crate) fn start_with_two_paths() -> Self {
        Self::start_with(vec![PORTAL, SECOND_PORTAL])
    }

    fn start_with(portals: Vec<&'static str>) -> Self {
        let owned = tempfile::tempdir().unwrap();
        let mut lio = Self::start_at(owned.path(), portals);
        lio._owned = Some(owned);
        lio
    }

    fn start_at(folder: &Path, portals: Vec<&'static str>) -> Self {
        fs::create_dir_all(folder).unwrap();
        assert!(
            may_serve(),
            "this kernel has no iSCSI target, or open-iscsi is missing: run this test in the VM"
        );
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        if !Path::new("/sys/kernel/config/target").exists() {
            run(
                "mount",
                &["-t", "configfs", "configfs", "/sys/kernel/config"],
            );
        }
        if !Path::new("/run/iscsid.pid").exists() {
            let configuration = "/etc/iscsi/iscsid.conf";
            let chosen = fs::read_to_string(configuration).unwrap() + CONFIGURATION;
            fs::write(configuration, chosen).unwrap();
            fs::write(
                "/etc/iscsi/initiatorname.iscsi",
                "InitiatorName=iqn.2026-01.test.wasmount:node\n",
            )
            .unwrap();
            run("iscsid", &["--pid=/run/iscsid.pid"]);
        }
        let lio = Self {
            folder: folder.to_owned(),
            _owned: None,
            portals,
            _one: one,
        };
        for (group, portal) in (1..).zip(&lio.portals) {
            let portal_group = lio.portal_group(group);
            fs::create_dir_all(portal_group.join("np").join(portal)).unwrap();
            for (attribute, value) in [
                ("authentication", "0"),
                ("generate_node_acls", "1"),
                ("demo_mode_write_protect", "0"),
            ] {
                fs::write(portal_group.join("attrib").join(attribute), value).unwrap();
            }
            lio.answer_by(group, true);
        }
        lio
    }

    /// Offers a disk with this content of its identity, which is blank if it is new, as a logical unit.
    pub(crate) fn offer(&self, lun: u16, number: u32) {
        let name = format!("disk{number}");
        let image = self.image(number);
        let file = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&image);
        file.unwrap().set_len(DISK_BYTES).unwrap();
        let device = run("losetup", &["--find", "--show", text(&image)]);
        let backstore = Path::new(CORE).join(&name);
        fs::create_dir_all(&backstore).unwrap();
        fs::write(
            backstore.join("control"),
            format!("udev_path={}", device.trim()),
        )
        .unwrap();
        fs::write(backstore.join("wwn/vpd_unit_serial"), serial(number)).unwrap();
        fs::write(backstore.join("enable"), "1").unwrap();
        self.map(lun, number);
    }

    /// Maps a disk that was offered.
    pub(crate) fn map(&self, lun: u16, number: u32) {
        for group in self.groups() {
            self.map_by(group, lun, number);
        }
    }

    /// The same in one portal group.
    pub(crate) fn map_by(&self, group: usize, lun: u16, number: u32) {
        let place = self.portal_group(group).join(format!("lun/lun_{lun}"));
        fs::create_dir(&place).unwrap();
        let name = format!("disk{number}");
        symlink(Path::new(CORE).join(&name), place.join(&name)).unwrap();
    }

    /// Takes a logical unit away, whatever initiators have of it.
    pub(crate) fn unmap(&self, lun: u16) {
        for group in self.groups() {
            self.unmap_by(group, lun);
        }
    }

    /// The same in one portal group.
    pub(crate) fn unmap_by(&self, group: usize, lun: u16) {
        let place = self.portal_group(group).join(format!("lun/lun_{lun}"));
        remove_links(&place);
        fs::remove_dir(&place).unwrap();
    }

    /// Takes a disk away, with what is stored of it.
    pub(crate) fn withdraw(&self, lun: u16, number: u32) {
        self.unmap(lun);
        let name = format!("disk{number}");
        fs::remove_dir(Path::new(CORE).join(&name)).unwrap();
        run("losetup", &["--detach", &self.device(number)]);
        fs::remove_file(self.image(number)).unwrap();
    }

    /// What is stored of a disk.
    pub(crate) fn image(&self, number: u32) -> PathBuf {
        self.folder.join(format!("disk{number}"))
    }

    /// Makes a disk as large as this.
    pub(crate) fn grow(&self, number: u32, bytes: u64) {
        let image = self.image(number);
        let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
        file.set_len(bytes).unwrap();
        let device = self.device(number);
        run("losetup", &["--set-capacity", &device]);
    }

    /// The first bytes of a disk, as the target has them.
    pub(crate) fn content(&self, number: u32) -> Vec<u8> {
        let mut bytes = fs::read(self.image(number)).unwrap();
        bytes.truncate(1 << 20);
        bytes
    }

    /// Lets initiators in with CHAP alone, or with mutual CHAP.
    pub(crate) fn require_chap(&self, is_mutual: bool) {
        let portal_group = self.portal_group(1);
        fs::write(portal_group.join("attrib/authentication"), "1").unwrap();
        let mut values = vec![("userid", CHAP[0]), ("password", CHAP[1])];
        if is_mutual {
            values.extend([("userid_mutual", MUTUAL[0]), ("password_mutual", MUTUAL[1])]);
        }
        for (name, value) in values {
            fs::write(portal_group.join("auth").join(name), value).unwrap();
        }
    }

    /// Lets initiators in, or ends all sessions and lets none in.
    pub(crate) fn answer(&self, answers: bool) {
        for group in self.groups() {
            self.answer_by(group, answers);
        }
    }

    /// The same for one portal group.
    pub(crate) fn answer_by(&self, group: usize, answers: bool) {
        let value = if answers { "1" } else { "0" };
        fs::write(self.portal_group(group).join("enable"), value).unwrap();
    }

    fn groups(&self) -> impl Iterator<Item = usize> + use<> {
        1..=self.portals.len()
    }

    fn portal_group(&self, group: usize) -> PathBuf {
        Path::new(FABRIC).join(TARGET).join(format!("tpgt_{group}"))
    }

    fn device(&self, number: u32) -> String {
        let image = self.image(number);
        let line = run(
            "losetup",
            &[
                "--noheadings",
                "--output",
                "NAME",
                "--associated",
                text(&image),
            ],
        );
        line.trim().to_owned()
    }
}

impl Drop for Lio {
    fn drop(&mut self) {
        for (group, portal) in (1..).zip(&self.portals) {
            let portal_group = self.portal_group(group);
            let _ = fs::write(portal_group.join("enable"), "0");
            for lun in entries(&portal_group.join("lun")) {
                remove_links(&lun);
                let _ = fs::remove_dir(&lun);
            }
            let _ = fs::remove_dir(portal_group.join("np").join(portal));
            let _ = fs::remove_dir(&portal_group);
        }
        let _ = fs::remove_dir(Path::new(FABRIC).join(TARGET));
        for backstore in entries(Path::new(CORE)) {
            let _ = fs::remove_dir(backstore);
        }
        for image in entries(&self.folder) {
            let device = run(
                "losetup",
                &[
                    "--noheadings",
                    "--output",
                    "NAME",
                    "--associated",
                    text(&image),
                ],
            );
            for device in device.split_whitespace() {
                let _ = Command::new("losetup").args(["--detach", device]).status();
            }
        }
    }
}

/// A path to a logical unit of the target.
pub(crate) fn path(portal: &str, lun: u16) -> IscsiPath {
    IscsiPath {
        portal: portal.to_owned(),
        target: TARGET.to_owned(),
        lun,
    }
}

/// The identity of a disk, as the kernel shows it: LIO's company id, and the digits of its serial number.
pub(crate) fn wwid(number: u32) -> String {
    format!("naa.6001405{}", serial(number))
}

fn serial(number: u32) -> String {
    format!("{:025x}", 0xa_0000_0000_u64 + u64::from(number))
}

/// The sessions of this kernel: their interfaces.
pub(crate) fn sessions() -> Vec<String> {
    let sessions = entries(Path::new("/sys/class/iscsi_session"));
    let interfaces = sessions.iter().map(|it| it.join("ifacename"));
    interfaces
        .filter_map(|it| Some(fs::read_to_string(it).ok()?.trim().to_owned()))
        .collect()
}

/// Names and identities of SCSI disks.
pub(crate) fn disks() -> Vec<String> {
    let disks = entries(Path::new("/sys/class/scsi_device"));
    let wwids = disks.iter().map(|it| it.join("device/wwid"));
    let mut wwids: Vec<_> = wwids
        .filter_map(|it| Some(fs::read_to_string(it).ok()?.trim().to_owned()))
        .collect();
    wwids.sort();
    wwids
}

/// Nothing of iSCSI is left on the node: no session, no disk, no record in the node's own database.
pub(crate) fn assert_nothing_left() {
    until("sessions end", || sessions().is_empty());
    assert_eq!(disks(), [""; 0]);
    assert_eq!(
        entries(Path::new("/etc/iscsi/nodes")),
        [""; 0].map(PathBuf::from)
    );
    assert_eq!(
        entries(Path::new("/etc/iscsi/ifaces")),
        [""; 0].map(PathBuf::from)
    );
}

fn may_serve() -> bool {
    let modules = [
        "-a",
        "loop",
        "iscsi_tcp",
        "sd_mod",
        "target_core_mod",
        "target_core_iblock",
        "iscsi_target_mod",
    ];
    let loads = Command::new("modprobe").args(modules).output();
    let has_tool = Command::new("iscsiadm").arg("--version").output();
    loads.is_ok_and(|it| it.status.success()) && has_tool.is_ok()
}

fn remove_links(folder: &Path) {
    for entry in entries(folder) {
        if entry.is_symlink() {
            let _ = fs::remove_file(entry);
        }
    }
}

pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut entries: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
