//! Volumes over iSCSI: the kernel's target and initiator on one machine, which is several hosts.

use crate::client::{Api, until};
use crate::initiator::{Initiator, disks, sessions};
use crate::program::Program;
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Size of the volumes, in bytes, and what is written to them.
const BYTES: u64 = 64 << 20;
const CONTENT: [u8; 4096] = [0x5a; 4096];

/// Size of the disk of the array, which is sparse: the smallest xfs is 300 MiB.
const DISK_BYTES: u64 = 512 << 20;

/// Two ways to the array.
const ONE: &str = "127.0.0.1:3260";
const TWO: &str = "127.0.0.2:3260";
const OPTIONS: [&str; 6] = ["--protocol", "iscsi", "--portal", ONE, "--portal", TWO];

/// Two hosts.
const HOST: &str = "iqn.2026-01.io.example:host";
const OTHER: &str = "iqn.2026-01.io.example:other";

/// A disk that shares blocks, with the directory of an array.
struct Disk(TempDir);

impl Disk {
    fn mounted() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (image, path) = (folder.path().join("image"), folder.path().join("disk"));
        File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
        fs::create_dir(&path).unwrap();
        run("mkfs.xfs", &[Path::new("-q"), &image]);
        run(
            "mount",
            &[Path::new("-o"), Path::new("loop"), &image, &path],
        );
        Self(folder)
    }

    fn array(&self) -> PathBuf {
        self.0.path().join("disk/array")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let disk = self.0.path().join("disk");
        let _ = Command::new("umount").arg("--lazy").arg(disk).output();
    }
}

/// An array with both hosts.
struct Scene {
    program: Program,
    api: Api,
    disk: Disk,
}

/// Where an attached volume is.
struct Place {
    target: String,
    wwid: String,
    lun: u64,
}

impl Scene {
    async fn start() -> Self {
        let disk = Disk::mounted();
        let program = Program::start(&disk.array(), &OPTIONS).await;
        let api = program.log_in().await;
        for (name, iqn) in [("host", HOST), ("other", OTHER)] {
            let path = format!("/api/hosts/{name}");
            api.done("PUT", &path, json!({ "iqn": iqn })).await;
        }
        Self { program, api, disk }
    }

    async fn volume(&self, name: &str) -> String {
        let new = json!({ "name": name, "bytes": BYTES });
        self.api.create("volumes", new).await
    }

    async fn attach(&self, id: &str, host: &str, readonly: bool) -> Place {
        let path = format!("/api/volumes/{id}/hosts/{host}");
        let mode = json!({ "readonly": readonly });
        let attached = self.api.done("PUT", &path, mode).await;
        let connection = &attached["connection"];
        assert_eq!(connection["protocol"], "iscsi");
        assert_eq!(connection["portals"], json!([ONE, TWO]));
        let text = |name: &str| connection[name].as_str().unwrap().to_owned();
        Place {
            target: text("target"),
            wwid: text("wwid"),
            lun: connection["lun"].as_u64().unwrap(),
        }
    }

    async fn detach(&self, id: &str) {
        let path = format!("/api/volumes/{id}/hosts");
        self.api.done("DELETE", &path, Value::Null).await;
    }

    /// Ends the array; nothing of it is left in the kernel.
    fn end(self) {
        self.program.stop();
        assert_nothing_left(&self.disk);
    }
}

fn run(program: &str, arguments: &[&Path]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
}

fn assert_nothing_left(disk: &Disk) {
    let state = fs::read(disk.array().join("state.json")).unwrap();
    let state: Value = serde_json::from_slice(&state).unwrap();
    let id = state["id"].as_str().unwrap();
    let adapter = format!("iblock_{}", u32::from_str_radix(&id[..7], 16).unwrap());
    for place in ["iscsi", "core"] {
        let place = Path::new("/sys/kernel/config/target").join(place);
        let entries = fs::read_dir(place).into_iter().flatten().flatten();
        let names = entries.map(|it| it.file_name().into_string().unwrap());
        let ours = |name: &String| name.contains(&id[..12]) || *name == adapter;
        assert_eq!(names.filter(ours).collect::<Vec<_>>(), [""; 0]);
    }
    let mut list = Command::new("losetup");
    list.args(["--list", "--noheadings", "--output", "BACK-FILE"]);
    let loops = list.output().unwrap();
    let loops = String::from_utf8(loops.stdout).unwrap();
    let contents = disk.array().join("contents");
    assert!(!loops.contains(contents.to_str().unwrap()), "{loops}");
}

/// The one path to a volume over the first portal.
async fn disk_of(wwid: &str) -> PathBuf {
    until("the disk appears", async || disks(wwid).len() == 1).await;
    let disk = disks(wwid).remove(0);
    // Its node appears before it can be opened (Linux, `device_add_disk`).
    until("the device opens", async || File::open(&disk).is_ok()).await;
    disk
}

fn write(disk: &Path, content: &[u8]) {
    let device = OpenOptions::new().write(true).open(disk).unwrap();
    device.write_all_at(content, 0).unwrap();
    device.sync_all().unwrap();
}

fn read(disk: &Path) -> Vec<u8> {
    let mut content = vec![0; CONTENT.len()];
    File::open(disk).unwrap().read_exact(&mut content).unwrap();
    content
}

fn size(disk: &Path) -> u64 {
    File::open(disk).unwrap().seek(SeekFrom::End(0)).unwrap()
}

#[tokio::test]
async fn on_other_kernel_a_volume_is_written_and_restored() {
    let scene = Scene::start().await;
    let host = Initiator::new("host", HOST);
    let id = scene.volume("x").await;
    let place = scene.attach(&id, "host", false).await;
    host.know(&place.target, ONE);
    assert_eq!(host.log_in(&place.target, ONE), Ok(()));
    let disk = disk_of(&place.wwid).await;
    write(&disk, &CONTENT);
    // Of a volume in use: the file system of the array shares blocks.
    let new = json!({ "name": "taken", "volume": id });
    let taken = scene.api.create("snapshots", new).await;
    write(&disk, &[0; CONTENT.len()]);
    let new = json!({ "name": "restored", "bytes": BYTES, "snapshot": taken });
    let restored = scene.api.create("volumes", new).await;
    let other = scene.attach(&restored, "host", true).await;
    assert_ne!((other.lun, &other.wwid), (place.lun, &place.wwid));
    host.rescan(&other.target, ONE);
    let restored_disk = disk_of(&other.wwid).await;
    assert_eq!(read(&restored_disk), CONTENT);
    assert_eq!(read(&disk), [0; CONTENT.len()]);
    let device = OpenOptions::new().write(true).open(&restored_disk);
    let written = device.and_then(|it| {
        it.write_all_at(&CONTENT, 0)?;
        it.sync_all()
    });
    assert!(written.is_err(), "it is attached for reading only");
    host.log_out(&place.target, ONE);
    scene.end();
}

#[tokio::test]
async fn on_other_kernel_a_host_sees_only_its_own_volumes() {
    let scene = Scene::start().await;
    let host = Initiator::new("host", HOST);
    let other = Initiator::new("other", OTHER);
    let stranger = Initiator::new("stranger", "iqn.2026-01.io.example:stranger");
    let id = scene.volume("x").await;
    let place = scene.attach(&id, "host", false).await;
    stranger.know(&place.target, ONE);
    assert!(stranger.log_in(&place.target, ONE).is_err());
    // open-iscsi knows a portal of a target for one initiator at a time.
    other.know(&place.target, TWO);
    assert_eq!(other.log_in(&place.target, TWO), Ok(()));
    other.rescan(&place.target, TWO);
    assert_eq!(disks(&place.wwid), [""; 0].map(PathBuf::from));
    host.know(&place.target, ONE);
    assert_eq!(host.log_in(&place.target, ONE), Ok(()));
    disk_of(&place.wwid).await;
    other.rescan(&place.target, TWO);
    assert_eq!(disks(&place.wwid).len(), 1);
    // Detached and deleted, its LUN is that of another volume, with another identity.
    host.log_out(&place.target, ONE);
    scene.detach(&id).await;
    scene
        .api
        .done("DELETE", &format!("/api/volumes/{id}"), Value::Null)
        .await;
    let next = scene.volume("y").await;
    let taken = scene.attach(&next, "other", false).await;
    assert_eq!(taken.lun, place.lun);
    assert_ne!(taken.wwid, place.wwid);
    other.log_out(&place.target, TWO);
    scene.end();
}

#[tokio::test]
async fn on_other_kernel_a_rescan_shows_a_grown_volume() {
    let scene = Scene::start().await;
    let host = Initiator::new("host", HOST);
    let id = scene.volume("x").await;
    let place = scene.attach(&id, "host", false).await;
    host.know(&place.target, ONE);
    assert_eq!(host.log_in(&place.target, ONE), Ok(()));
    let disk = disk_of(&place.wwid).await;
    assert_eq!(size(&disk), BYTES);
    let path = format!("/api/volumes/{id}");
    scene
        .api
        .done("PATCH", &path, json!({ "bytes": 2 * BYTES }))
        .await;
    host.rescan(&place.target, ONE);
    until("the disk grows", async || size(&disk) == 2 * BYTES).await;
    host.log_out(&place.target, ONE);
    scene.end();
}

#[tokio::test]
async fn on_other_kernel_a_portal_goes_down_and_comes_back() {
    let scene = Scene::start().await;
    let host = Initiator::new("host", HOST);
    let id = scene.volume("x").await;
    let place = scene.attach(&id, "host", false).await;
    for portal in [ONE, TWO] {
        host.know(&place.target, portal);
        assert_eq!(host.log_in(&place.target, portal), Ok(()));
    }
    until("both paths are there", async || {
        disks(&place.wwid).len() == 2
    })
    .await;
    for _ in 0..2 {
        let down = json!({ "up": false });
        scene.api.done("PUT", "/faults/portals/0", down).await;
    }
    until("a path is down", async || sessions(ONE) == 0).await;
    assert_eq!(sessions(TWO), 1);
    scene
        .api
        .done("PUT", "/faults/portals/0", json!({ "up": true }))
        .await;
    until("the path is back", async || sessions(ONE) == 1).await;
    for portal in [ONE, TWO] {
        host.log_out(&place.target, portal);
    }
    scene.end();
}

#[tokio::test]
async fn on_other_kernel_a_host_with_a_password_needs_it() {
    let scene = Scene::start().await;
    let host = Initiator::new("host", HOST);
    let chap = json!({ "user": "node", "password": "twelve-bytes" });
    let registered = json!({ "iqn": HOST, "chap": chap });
    scene.api.done("PUT", "/api/hosts/host", registered).await;
    let id = scene.volume("x").await;
    let place = scene.attach(&id, "host", false).await;
    host.know(&place.target, ONE);
    assert!(host.log_in(&place.target, ONE).is_err());
    let set = |name: &str, value: &str| {
        let name = format!("node.session.auth.{name}");
        host.set(&place.target, ONE, &name, value);
    };
    set("authmethod", "CHAP");
    set("username", "node");
    set("password", "wrong-by-far");
    assert!(host.log_in(&place.target, ONE).is_err());
    set("password", "twelve-bytes");
    assert_eq!(host.log_in(&place.target, ONE), Ok(()));
    host.log_out(&place.target, ONE);
    scene.end();
}

#[tokio::test]
async fn on_other_kernel_a_killed_array_is_followed_by_the_same() {
    let mut scene = Scene::start().await;
    let host = Initiator::new("host", HOST);
    let id = scene.volume("x").await;
    let place = scene.attach(&id, "host", false).await;
    host.know(&place.target, ONE);
    assert_eq!(host.log_in(&place.target, ONE), Ok(()));
    let disk = disk_of(&place.wwid).await;
    write(&disk, &CONTENT);
    scene.program.kill();
    scene.program = Program::start(&scene.disk.array(), &OPTIONS).await;
    scene.api = scene.program.log_in().await;
    let again = scene.attach(&id, "host", false).await;
    assert_eq!(
        (&again.target, again.lun, &again.wwid),
        (&place.target, place.lun, &place.wwid)
    );
    // The initiator logs in again by itself.
    until("the session is back", async || sessions(ONE) == 1).await;
    assert_eq!(read(&disk), CONTENT);
    host.log_out(&place.target, ONE);
    scene.end();
}
