//! NVMe over TCP by the kernel's own target, nvmet, through configfs (Linux, drivers/nvme/target/configfs.c). The target masks whole subsystems, so a
//! volume is a subsystem with one namespace for each host that it is attached to, and only this host may connect. A portal that is down has no port in
//! the kernel.

use super::{DataPath, ID_DIGITS};
use crate::configfs;
use crate::loops;
use crate::records::{Attachment, Connection, Host, Target};
use crate::secret::Secret;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use uuid::Uuid;
use xtask::failure::Failure;
use xtask::files;

/// Where nvmet is configured.
const NVMET: &str = "/sys/kernel/config/nvmet";

/// The kernel's modules, for kernels that have them apart.
const MODULES: [&str; 3] = ["loop", "nvmet", "nvmet-tcp"];

/// What all names of subsystems begin with (NVM Express Base 2.0 §4.5).
const NAME: &str = "nqn.2026-01.io.wasmount:array";

/// The only namespace of a subsystem.
const NAMESPACE: u16 = 1;

/// The longest serial number of a subsystem, in bytes (NVM Express Base 2.0 §5.17.2.1).
const SERIAL_BYTES: usize = 20;

/// Ports of the kernel that belong to one array, and so its portals at most.
const PORTS: u16 = 16;

/// The first of the ports that arrays share out: administrators begin with 1.
const FIRST_PORT: u16 = 1 << 15;

/// The target of one array.
#[derive(Debug)]
pub(crate) struct Nvmet {
    /// What the names of its subsystems begin with.
    prefix: String,
    /// The number of its first port in the kernel, which other targets may use, too.
    first_port: u16,
    portals: Vec<SocketAddr>,
    contents: PathBuf,
}

impl Nvmet {
    /// The target of the array with this id; `contents` holds the files of its volumes.
    pub(crate) fn new(id: &str, portals: Vec<SocketAddr>, contents: PathBuf) -> Self {
        let short: String = id.chars().take(ID_DIGITS).collect();
        // The kernel numbers ports by 16 bits.
        let number = u16::from_str_radix(id.get(..3).unwrap_or_default(), 16).unwrap_or_default();
        Self {
            prefix: format!("{NAME}-{short}:"),
            first_port: FIRST_PORT + number % (FIRST_PORT / PORTS) * PORTS,
            portals,
            contents,
        }
    }

    /// The name of the subsystem by which a host has a volume.
    fn name(&self, id: &str, lun: u16) -> String {
        format!("{}{id}:{lun}", self.prefix)
    }

    fn subsystem(&self, id: &str, lun: u16) -> PathBuf {
        let name = self.name(id, lun);
        Path::new(NVMET).join("subsystems").join(name)
    }

    /// The subsystems of a volume.
    fn subsystems_of(&self, id: &str) -> Result<Vec<PathBuf>, Failure> {
        let start = format!("{}{id}:", self.prefix);
        let mut all = self.subsystems()?;
        all.retain(|path| name_of(path).starts_with(&start));
        Ok(all)
    }

    fn subsystems(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut all = configfs::directories(&Path::new(NVMET).join("subsystems"))?;
        all.retain(|path| name_of(path).starts_with(&self.prefix));
        Ok(all)
    }

    /// The port of a portal.
    fn port(&self, index: u16) -> PathBuf {
        let number = self.first_port + index;
        Path::new(NVMET).join("ports").join(number.to_string())
    }

    /// Those that are there.
    fn ports(&self) -> impl Iterator<Item = PathBuf> {
        let all = (0..PORTS).map(|index| self.port(index));
        all.filter(|port| port.exists())
    }
}

impl DataPath for Nvmet {
    fn start(&self) -> Result<(), Failure> {
        if self.portals.len() > usize::from(PORTS) {
            return Err(Failure::Unexpected(format!(
                "{} portals are more than {PORTS}: start with fewer",
                self.portals.len()
            )));
        }
        configfs::mount(&MODULES)?;
        if !Path::new(NVMET).is_dir() {
            return Err(Failure::missing(
                "the kernel's NVMe target",
                "load the modules nvmet and nvmet-tcp, or start with `--protocol none`",
            ));
        }
        self.stop()
    }

    fn initiator<'a>(&self, host: &'a Host) -> Option<&'a str> {
        host.nqn.as_deref()
    }

    /// The kernel has a host only while a volume is attached to it.
    fn admit(&self, initiator: &str, host: &Host) -> Result<(), Failure> {
        let known = of_host(initiator);
        match &host.dhchap_key {
            Some(key) if known.exists() => ask_for(&known, key),
            _ => Ok(()),
        }
    }

    fn dismiss(&self, _initiator: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn attach(&self, file: &Path, attachment: &Attachment<'_>) -> Result<(), Failure> {
        // Hosts that share a volume have it by one device.
        let device = match self.subsystems_of(attachment.id)?.first() {
            Some(other) => device_of(other)?,
            None => loops::attach(file)?,
        };
        let subsystem = self.subsystem(attachment.id, attachment.lun);
        let namespace = namespace(&subsystem);
        configfs::make(&subsystem)?;
        let serial: String = attachment.serial.chars().take(SERIAL_BYTES).collect();
        configfs::write(&subsystem.join("attr_serial"), &serial)?;
        configfs::make(&namespace)?;
        configfs::write(&namespace.join("device_path"), &device)?;
        configfs::write(&namespace.join("device_uuid"), &uuid(attachment.serial))?;
        configfs::write(&namespace.join("enable"), "1")?;
        let host = of_host(attachment.initiator);
        configfs::make(&host)?;
        if let Some(key) = attachment.dhchap_key {
            ask_for(&host, key)?;
        }
        let allowed = subsystem.join("allowed_hosts").join(attachment.initiator);
        configfs::link(&host, &allowed)?;
        self.ports().try_for_each(|port| show(&subsystem, &port))
    }

    fn detach(&self, id: &str, lun: u16, is_last: bool) -> Result<(), Failure> {
        for port in self.ports() {
            configfs::unlink(&port.join("subsystems").join(self.name(id, lun)))?;
        }
        remove_subsystem(&self.subsystem(id, lun))?;
        match is_last {
            true => loops::detach(&self.contents.join(id)),
            false => Ok(()),
        }
    }

    fn grow(&self, id: &str) -> Result<(), Failure> {
        loops::grow(&self.contents.join(id))?;
        let all = self.subsystems_of(id)?;
        let mut sizes = all.iter().map(|it| namespace(it).join("revalidate_size"));
        sizes.try_for_each(|size| configfs::write(&size, "1"))
    }

    fn connection(&self, id: &str, serial: &str, lun: u16) -> Connection {
        Connection {
            protocol: Target::NvmeTcp,
            portals: self.portals.clone(),
            target: self.name(id, lun),
            lun: NAMESPACE,
            wwid: uuid(serial),
        }
    }

    fn portals(&self) -> usize {
        self.portals.len()
    }

    /// The whole port: a host that finds it without the subsystem gives up (Linux 6.10 and later), and one that finds no port tries again.
    fn set_portal(&self, index: usize, is_up: bool) -> Result<(), Failure> {
        let number = u16::try_from(index).unwrap_or_default();
        let port = self.port(number);
        match self.portals.get(index) {
            Some(portal) if is_up && !port.exists() => {
                make_port(&port, *portal)?;
                let all = self.subsystems()?;
                all.iter().try_for_each(|subsystem| show(subsystem, &port))
            }
            Some(_) if !is_up => remove_port(&port),
            _ => Ok(()),
        }
    }

    /// Also removes what an array with other portals left.
    fn stop(&self) -> Result<(), Failure> {
        self.ports().try_for_each(|port| remove_port(&port))?;
        for subsystem in self.subsystems()? {
            remove_subsystem(&subsystem)?;
        }
        loops::detach_all(&self.contents)
    }
}

fn make_port(port: &Path, portal: SocketAddr) -> Result<(), Failure> {
    let family = if portal.is_ipv4() { "ipv4" } else { "ipv6" };
    configfs::make(port)?;
    let values = [
        ("addr_trtype", "tcp".to_owned()),
        ("addr_adrfam", family.to_owned()),
        ("addr_traddr", portal.ip().to_string()),
        ("addr_trsvcid", portal.port().to_string()),
    ];
    let mut values = values.into_iter();
    values.try_for_each(|(name, value)| configfs::write(&port.join(name), &value))
}

/// Breaks all its connections, and listens no more.
fn remove_port(port: &Path) -> Result<(), Failure> {
    if port.exists() {
        configfs::unlink_all(&port.join("subsystems"))?;
    }
    configfs::remove(port)
}

/// Offers a subsystem at a port, which listens from its first one on.
fn show(subsystem: &Path, port: &Path) -> Result<(), Failure> {
    let link = port.join("subsystems").join(name_of(subsystem));
    configfs::link(subsystem, &link)
}

/// Removes a subsystem that is at no port, and its host, unless something else is for that host, too.
fn remove_subsystem(subsystem: &Path) -> Result<(), Failure> {
    if !subsystem.exists() {
        return Ok(());
    }
    for allowed in files::entries(&subsystem.join("allowed_hosts"))? {
        configfs::unlink(&allowed)?;
        let _ = configfs::remove(&of_host(&name_of(&allowed)));
    }
    configfs::remove(&namespace(subsystem))?;
    configfs::remove(subsystem)
}

/// The device behind a subsystem.
fn device_of(subsystem: &Path) -> Result<String, Failure> {
    let path = files::read(&namespace(subsystem).join("device_path"))?;
    Ok(String::from_utf8_lossy(path.trim_ascii()).into_owned())
}

fn namespace(subsystem: &Path) -> PathBuf {
    subsystem.join("namespaces").join(NAMESPACE.to_string())
}

fn of_host(initiator: &str) -> PathBuf {
    Path::new(NVMET).join("hosts").join(initiator)
}

/// Has the kernel ask a host for its key at each connection.
fn ask_for(host: &Path, key: &Secret) -> Result<(), Failure> {
    let attribute = host.join("dhchap_key");
    match attribute.exists() {
        true => configfs::write_secret(&attribute, key.reveal()),
        false => Err(Failure::missing(
            "DH-HMAC-CHAP",
            "use a kernel with CONFIG_NVME_TARGET_AUTH, or a host without `dhchapKey`",
        )),
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A serial number of a volume as NVMe has it.
fn uuid(serial: &str) -> String {
    Uuid::try_parse(serial).unwrap_or_default().to_string()
}
