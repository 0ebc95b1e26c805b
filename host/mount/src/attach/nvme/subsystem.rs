//! A subsystem as the kernel shows it in sysfs: controllers, namespaces, and the paths between them.
//!
//! It only reads names and small attributes, so it can be tested on trees of plain files. What vanishes meanwhile is left out.

use super::failure::Missing;
use crate::block::DeviceNumber;
use crate::sysfs::{attribute, entries};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use uuid::Uuid;

/// The state of a controller that carries requests (`nvme_sysfs_show_state` of drivers/nvme/host/core.c).
const LIVE: &str = "live";
/// States of a controller that goes away.
const GOING: [&str; 3] = ["deleting", "deleting (no IO)", "dead"];
/// States of a path by which requests are carried (`nvme_ana_state_names` of drivers/nvme/host/multipath.c). A controller without ANA has none.
const CARRYING: [&str; 2] = ["optimized", "non-optimized"];

/// A subsystem.
#[derive(Debug, Default)]
pub(super) struct Subsystem {
    /// By name, such as `nvme0`.
    pub(super) controllers: BTreeMap<String, Controller>,
    /// By name, such as `nvme0n1`.
    pub(super) namespaces: BTreeMap<String, Namespace>,
}

/// A controller: one connection to the subsystem.
#[derive(Debug)]
pub(super) struct Controller {
    /// None: it is not on the network, or not by TCP.
    pub(super) address: Option<SocketAddr>,
    /// As the kernel calls it, such as `live` and `connecting`.
    pub(super) state: String,
    /// The names of the namespaces to which it is a path, with the state of each path.
    pub(super) paths: BTreeMap<String, Option<String>>,
}

/// A block device that shows a namespace: over all paths, or if the kernel does not join them, over one.
#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) number: DeviceNumber,
    /// NSID.
    pub(super) id: u32,
    /// NGUID and UUID, as far as it has them.
    pub(super) identities: Vec<Uuid>,
}

impl Subsystem {
    /// The subsystem with this NQN. It has nothing if there is none.
    pub(super) fn read(sys: &Path, nqn: &str) -> Self {
        let class = sys.join("class/nvme-subsystem");
        let mut subsystem = Self::default();
        for folder in entries(&class).map(|name| class.join(name)) {
            if attribute(&folder.join("subsysnqn")).as_deref() == Some(nqn) {
                subsystem.add(&folder);
            }
        }
        subsystem
    }

    fn add(&mut self, folder: &Path) {
        for name in entries(folder) {
            match parse_name(&name) {
                Some(Name::Controller) => {
                    let folder = folder.join(&name);
                    let controller = Controller::read(&folder);
                    for device in entries(&folder) {
                        self.add_namespace(&folder, device);
                    }
                    self.controllers.extend(controller.map(|it| (name, it)));
                }
                _ => self.add_namespace(folder, name),
            }
        }
    }

    fn add_namespace(&mut self, folder: &Path, name: String) {
        if let Some(Name::Namespace) = parse_name(&name)
            && let Some(namespace) = Namespace::read(&folder.join(&name))
        {
            self.namespaces.insert(name, namespace);
        }
    }

    /// The controller at an address, unless it goes away.
    pub(super) fn at(&self, address: SocketAddr) -> Option<(&String, &Controller)> {
        let mut controllers = self.controllers.iter();
        controllers.find(|(_, it)| it.address == Some(address) && !it.is_going())
    }

    /// The controllers by which requests to a namespace are carried.
    pub(super) fn paths_to(&self, namespace: &str) -> impl Iterator<Item = (&str, &Controller)> {
        let controllers = self.controllers.iter();
        let paths = controllers.filter(move |(_, it)| it.is_path_to(namespace));
        paths.map(|(name, it)| (name.as_str(), it))
    }

    /// The one device that shows a namespace, if enough paths lead to it.
    pub(super) fn choose(
        &self,
        wanted: Uuid,
        minimum: usize,
    ) -> Result<(&String, &Namespace), Missing> {
        let is_wanted = |it: &&Namespace| it.identities.contains(&wanted);
        let found: Vec<_> = self
            .namespaces
            .iter()
            .filter(|(_, it)| is_wanted(it))
            .collect();
        let (name, namespace) = match found.as_slice() {
            [] if self.controllers.is_empty() => return Err(Missing::NoController),
            [] => {
                return Err(Missing::NoNamespace {
                    controllers: described(self.controllers.values().map(|it| (it, None))),
                });
            }
            [one] => *one,
            several => {
                return Err(Missing::NotJoined {
                    count: several.len(),
                });
            }
        };
        let (live, others): (Vec<_>, Vec<_>) = self
            .controllers
            .values()
            .partition(|it| it.is_path_to(name));
        if live.len() < minimum {
            let others = others
                .into_iter()
                .map(|it| (it, it.paths.get(name).cloned().flatten()));
            return Err(Missing::FewPaths {
                live: live.len(),
                minimum,
                others: match described(others) {
                    others if others.is_empty() => others,
                    others => format!(" (others: {others})"),
                },
            });
        }
        Ok((name, namespace))
    }
}

impl Controller {
    fn read(folder: &Path) -> Option<Self> {
        let is_tcp = attribute(&folder.join("transport")).as_deref() == Some("tcp");
        let address = attribute(&folder.join("address")).filter(|_| is_tcp);
        let paths = entries(folder).filter_map(|name| match parse_name(&name)? {
            Name::Path(namespace) => {
                Some((namespace, attribute(&folder.join(&name).join("ana_state"))))
            }
            // Without multipath, the namespace itself is there.
            Name::Namespace => Some((name, None)),
            Name::Controller => None,
        });
        Some(Self {
            address: address.and_then(|address| parse_address(&address)),
            state: attribute(&folder.join("state"))?,
            paths: paths.collect(),
        })
    }

    pub(super) fn is_live(&self) -> bool {
        self.state == LIVE
    }

    /// Where it is, for messages.
    pub(super) fn at(&self) -> String {
        let at = self.address.map(|it| it.to_string());
        at.unwrap_or_else(|| "a local controller".to_owned())
    }

    fn is_going(&self) -> bool {
        GOING.contains(&self.state.as_str())
    }

    fn is_path_to(&self, namespace: &str) -> bool {
        let carries = |state: &Option<String>| {
            let state = state.as_deref();
            state.is_none_or(|state| CARRYING.contains(&state))
        };
        self.is_live() && self.paths.get(namespace).is_some_and(carries)
    }
}

impl Namespace {
    fn read(folder: &Path) -> Option<Self> {
        let number = DeviceNumber::parse(&attribute(&folder.join("dev"))?)?;
        // Not `uuid`: of a namespace with an NGUID alone, the kernel writes a line to its log each time it is read.
        let wwid = attribute(&folder.join("wwid"));
        let wwid = wwid.as_deref().and_then(|it| it.strip_prefix("uuid."));
        let nguid = attribute(&folder.join("nguid"));
        let identities = [wwid, nguid.as_deref()].into_iter().flatten();
        Some(Self {
            number,
            id: attribute(&folder.join("nsid"))?.parse().ok()?,
            identities: identities
                .filter_map(|it| Uuid::parse_str(it).ok())
                .collect(),
        })
    }
}

/// What a name in sysfs means (`nvme_init_ctrl` of drivers/nvme/host/core.c, `nvme_mpath_set_disk_name` of multipath.c).
#[derive(Debug, PartialEq, Eq)]
enum Name {
    /// `nvme0`.
    Controller,
    /// `nvme0n1`.
    Namespace,
    /// `nvme0c1n1`: the path of controller 1 to a namespace, whose name is this.
    Path(String),
}

fn parse_name(name: &str) -> Option<Name> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let rest = name.strip_prefix("nvme")?;
    if is_number(rest) {
        return Some(Name::Controller);
    }
    let (before, namespace) = rest.split_once('n')?;
    let (subsystem, controller) = match before.split_once('c') {
        Some((subsystem, controller)) => (subsystem, Some(controller)),
        None => (before, None),
    };
    let all = [Some(subsystem), controller, Some(namespace)];
    if !all.into_iter().flatten().all(is_number) {
        return None;
    }
    Some(match controller {
        Some(_) => Name::Path(format!("nvme{subsystem}n{namespace}")),
        None => Name::Namespace,
    })
}

/// `traddr=10.1.2.3,trsvcid=4420`, and more in newer kernels (`nvmf_get_address` of drivers/nvme/host/fabrics.c).
fn parse_address(text: &str) -> Option<SocketAddr> {
    let option = |name: &str| {
        let mut options = text.split(',').filter_map(|it| it.split_once('='));
        options
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    };
    let ip: IpAddr = option("traddr")?.parse().ok()?;
    Some(SocketAddr::new(ip, option("trsvcid")?.parse().ok()?))
}

/// Controllers with their states, for a message.
fn described<'c>(controllers: impl Iterator<Item = (&'c Controller, Option<String>)>) -> String {
    let each = controllers.map(|(controller, path)| {
        let at = controller.at();
        let path = path.map(|it| format!(", {it}")).unwrap_or_default();
        format!("{at} {}{path}", controller.state)
    });
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
