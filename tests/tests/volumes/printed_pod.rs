//! A pod as `wasmount manifests` prints it: its containers run with their printed arguments, volumes, users and capabilities, each in a root file system of
//! its own. What they have of the API server is left out, since there is none.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use wasmount_tests::compiled::CommandCache;
use xtask::process::Process;
use xtask::workspace::Workspace;

/// Printed arguments for an API server.
const API_SERVER: [&str; 2] = ["--state=kubernetes", "--leader-election"];

/// A root file system over that of the VM, which a container cannot write to in the end. What is mounted there is not seen by others. Links in it do not
/// lead out of it while it is made. Of the devices it has some that every container has (OCI runtime specification, "Default Devices").
const ROOT: &str = "\
set -e
mount --make-slave /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cd /mnt/root
ln -sfn ../run var/run
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs tmpfs dev
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/urandom c 1 9
";

/// What of the node's packages Wasmount's image does not have, with their configuration.
const NOT_IN_IMAGE: &str = "\
rm -rf etc/iscsi etc/multipath.conf etc/nvme usr/sbin/iscsiadm usr/sbin/iscsid usr/sbin/multipath usr/sbin/multipathd usr/sbin/nvme
";

/// Becomes the container. The VM must keep what is unmounted with the old root, as with a container's runtime.
const ENTER: &str = "\
mount -o remount,bind,ro .
pivot_root . mnt
cd /
mount --make-rslave /mnt
umount -l /mnt
exec \"$0\" \"$@\"
";

/// Where the host's program is in a container.
const PROGRAM: &str = "/wasmount";

/// The pods of a printed kind, and their volumes as directories.
pub(crate) struct Pod {
    folder: TempDir,
    /// The image has it, at the same path.
    plugin: PathBuf,
    containers: Vec<Value>,
    volumes: Vec<Value>,
}

impl Pod {
    /// The pod of the only object of this kind, with volumes in a folder. `arguments` are further ones of `wasmount manifests`.
    pub(crate) fn printed(
        folder: TempDir,
        kind: &str,
        document: &Path,
        plugin: &str,
        arguments: &[&str],
    ) -> Self {
        let workspace = Workspace::locate().unwrap();
        let mut manifests = Command::new(workspace.host_program());
        manifests.args(["manifests", "--topology=network", "--backend"]);
        let plugin = workspace.component(plugin);
        manifests.arg(document).arg("--plugin-in-image");
        manifests.arg(&plugin).args(arguments);
        let cache = CommandCache::of(&[document]).unwrap();
        manifests.env("WASMOUNT_CACHE", cache.path());
        let printed = manifests.output().unwrap();
        let said = String::from_utf8_lossy(&printed.stderr);
        assert!(printed.status.success(), "{said}");
        let printed = String::from_utf8(printed.stdout).unwrap();
        let parts = printed.split("---\n").filter(|part| !part.is_empty());
        let objects: Vec<Value> = parts
            .map(|part| serde_saphyr::from_str(part).unwrap())
            .collect();
        let one = |kind: &str| objects.iter().find(|it| it["kind"] == kind).unwrap();
        let config = folder.path().join("config");
        fs::create_dir(&config).unwrap();
        let files = one("ConfigMap")["data"].as_object().unwrap();
        for (name, content) in files {
            fs::write(config.join(name), content.as_str().unwrap()).unwrap();
        }
        let spec = &one(kind)["spec"]["template"]["spec"];
        let list = |name: &str| spec[name].as_array().unwrap().clone();
        Self {
            containers: list("containers"),
            volumes: list("volumes"),
            plugin,
            folder,
        }
    }

    /// Where its volumes are that are no directories of the node.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The directory of a volume.
    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        let mut volumes = self.volumes.iter();
        let volume = volumes.find(|it| it["name"] == name);
        let of_node = volume.and_then(|it| it["hostPath"]["path"].as_str());
        match of_node {
            Some(path) => path.into(),
            None => self.folder.path().join(name),
        }
    }

    pub(crate) fn container(&self, name: &str) -> Value {
        let mut containers = self.containers.iter();
        containers.find(|it| it["name"] == name).unwrap().clone()
    }

    pub(crate) fn log(&self, container: &Value) -> PathBuf {
        let name = format!("{}.log", word(&container["name"]));
        self.folder.path().join(name)
    }

    /// Starts a container: namespaces with its root file system and its volumes, and the rights that it gets.
    pub(crate) fn start(&self, container: &Value) -> Process {
        let program = Workspace::locate().unwrap().host_program();
        let mut script = format!("{ROOT}{NOT_IN_IMAGE}");
        script += &copied(&program, Path::new(PROGRAM));
        script += &copied(&self.plugin, &self.plugin);
        for mount in container["volumeMounts"].as_array().unwrap() {
            let volume = self.volume(word(&mount["name"]));
            fs::create_dir_all(&volume).unwrap();
            script += &mounted(&volume, mount);
        }
        script += ENTER;
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], true);
        let mut command = Process::command();
        command.args(["unshare", "--mount", "--propagation=unchanged"]);
        command.args(["--ipc", "--uts", "--", "sh", "-c", &script]);
        command.args(rights(security));
        command.arg(PROGRAM);
        let arguments = container["args"].as_array().unwrap().iter().map(word);
        command.args(arguments.filter(|argument| !API_SERVER.contains(argument)));
        Process::start(command, &self.log(container)).unwrap()
    }
}

/// Lines that show a file of the machine in a container.
fn copied(file: &Path, at: &Path) -> String {
    let (file, at) = (file.display(), at.display());
    format!("mkdir -p $(dirname .{at})\n: >.{at}\nmount --bind {file} .{at}\n")
}

/// Lines that mount a volume where a container has it.
fn mounted(volume: &Path, mount: &Value) -> String {
    let at = format!(".{}", word(&mount["mountPath"]));
    let mut lines = format!("mkdir -p {at}\nmount --rbind {} {at}\n", volume.display());
    // Where nothing is said, neither side sees what the other one mounts. Bidirectional is what the mount of the node has (mount_namespaces(7)).
    match mount["mountPropagation"].as_str() {
        Some("Bidirectional") => {}
        Some("HostToContainer") => lines += &format!("mount --make-rslave {at}\n"),
        _ => lines += &format!("mount --make-rprivate {at}\n"),
    }
    if mount["readOnly"] == true {
        lines += &format!("mount -o remount,bind,ro {at}\n");
    }
    lines
}

/// The command that gives a container the rights of its security context.
fn rights(security: &Value) -> Vec<String> {
    let user = security["runAsUser"].to_string();
    let mut words = vec!["setpriv", "--reuid", &user, "--clear-groups"];
    let mut capabilities = "-all".to_owned();
    if security["privileged"] != true {
        assert_eq!(security["capabilities"]["drop"], serde_json::json!(["ALL"]));
        let added = security["capabilities"]["add"].as_array();
        for added in added.into_iter().flatten() {
            capabilities += &format!(",+{}", word(added).to_lowercase());
        }
        words.extend(["--inh-caps=-all", "--bounding-set", &capabilities]);
    }
    if security["allowPrivilegeEscalation"] == false {
        words.push("--no-new-privs");
    }
    words.extend(["--pdeathsig=TERM", "--"]);
    words.into_iter().map(ToOwned::to_owned).collect()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap()
}
