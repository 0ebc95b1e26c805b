//! A child process of a host, which compiles or fetches, as the kernel shows it (proc(5)).

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use xtask::failure::Failure;
use xtask::files;

/// The subcommand of a compiler.
pub const COMPILER: &str = "compile-child";
/// The subcommand of a fetcher.
pub const FETCHER: &str = "fetch-child";

/// Positions in `/proc/<id>/stat`, counted after the name: state, parent, CPU time, and nice value.
const STATE: usize = 0;
const PARENT: usize = 1;
const USER_TICKS: usize = 11;
const NICE: usize = 16;
/// Width of the column of names in `/proc/<id>/limits`, in characters.
const LIMIT_NAME: usize = 26;
/// The state of a process that has ended and is not reaped yet.
const ZOMBIE: &str = "Z";

/// A child that was found.
#[derive(Debug, Clone)]
pub struct Child {
    id: String,
}

impl Child {
    /// All children of a host that run now with this subcommand.
    pub fn all_of(host: u32, subcommand: &str) -> Result<Vec<Self>, Failure> {
        let entries = files::entries(Path::new("/proc"))?;
        let ids = entries.iter().filter_map(|entry| entry.file_name());
        let ids = ids.map(|id| id.to_string_lossy().into_owned());
        // Not every entry is a process.
        let children = ids.map(|id| Self { id });
        let found = children.filter(|it| it.is_of(host, subcommand) && it.is_alive());
        Ok(found.collect())
    }

    /// Its process id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether it runs. A zombie does not: it waits to be reaped.
    pub fn is_alive(&self) -> bool {
        self.stat(STATE).is_some_and(|state| state != ZOMBIE)
    }

    /// Its CPU time, in hundredths of a second.
    pub fn cpu_ticks(&self) -> u64 {
        let ticks = self.stat(USER_TICKS).and_then(|ticks| ticks.parse().ok());
        ticks.unwrap_or_default()
    }

    /// Its nice value; `None` if it is gone.
    pub fn nice(&self) -> Option<i32> {
        self.stat(NICE)?.parse().ok()
    }

    /// `status`, key by key.
    pub fn status(&self) -> Result<BTreeMap<String, String>, Failure> {
        let text = self.read("status")?;
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        Ok(pairs
            .map(|(key, value)| (key.to_owned(), one_space(value)))
            .collect())
    }

    /// Names and soft limits of its resources.
    pub fn limits(&self) -> Result<BTreeMap<String, String>, Failure> {
        let text = self.read("limits")?;
        let rows = text.lines().skip(1);
        Ok(rows
            .filter_map(|row| {
                let (name, values) = row.split_at_checked(LIMIT_NAME)?;
                let soft = values.split_whitespace().next()?;
                Some((name.trim().to_owned(), soft.to_owned()))
            })
            .collect())
    }

    /// The numbers of its descriptors, and their targets.
    pub fn descriptors(&self) -> Result<BTreeMap<String, String>, Failure> {
        descriptors(&self.id)
    }

    /// The names of its environment variables.
    pub fn variables(&self) -> Result<Vec<String>, Failure> {
        let text = self.read("environ")?;
        let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
        let mut names: Vec<_> = pairs.map(|(name, _)| name.to_owned()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Sends it a signal.
    pub fn kill(&self, signal: Signal) -> Result<(), Failure> {
        let pid = self.id.parse().ok().and_then(Pid::from_raw);
        let sent = pid.map_or(Err(io::ErrorKind::NotFound.into()), |pid| {
            kill_process(pid, signal).map_err(io::Error::from)
        });
        sent.map_err(Failure::cannot(format!("kill {}", self.id)))
    }

    fn is_of(&self, host: u32, subcommand: &str) -> bool {
        let words = self.read("cmdline").unwrap_or_default();
        let parent = host.to_string();
        words.split('\0').nth(1) == Some(subcommand) && self.stat(PARENT) == Some(parent)
    }

    /// A field of `stat` after the name, which may contain any character.
    fn stat(&self, number: usize) -> Option<String> {
        let stat = self.read("stat").ok()?;
        let (_, words) = stat.rsplit_once(") ")?;
        words.split_whitespace().nth(number).map(str::to_owned)
    }

    fn read(&self, name: &str) -> Result<String, Failure> {
        files::read_text(Path::new(&format!("/proc/{}/{name}", self.id)))
    }
}

/// The descriptors of any process, and their targets. A descriptor that is closed meanwhile is left out.
pub fn descriptors(id: &str) -> Result<BTreeMap<String, String>, Failure> {
    let entries = files::entries(Path::new(&format!("/proc/{id}/fd")))?;
    let descriptor = |entry: &PathBuf| {
        let to = fs::read_link(entry).ok()?;
        let name = entry.file_name()?.to_string_lossy().into_owned();
        Some((name, to.to_string_lossy().into_owned()))
    };
    Ok(entries.iter().filter_map(descriptor).collect())
}

fn one_space(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
