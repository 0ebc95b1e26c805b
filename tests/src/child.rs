//! A compiler as the kernel sees it (proc(5)). Apart because it is reading of tables.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// The word that it is started with.
const SUBCOMMAND: &str = "compile-child";
/// Where `/proc/<id>/stat` has the time that it ran for, and how nice it is, counted from behind the name.
const USER_TICKS: usize = 11;
const NICE: usize = 16;

/// A process that compiles.
#[derive(Debug, Clone)]
pub(crate) struct Child {
    id: String,
}

impl Child {
    /// All that a host has now.
    pub(crate) fn all_of(host: u32) -> Vec<Self> {
        let processes = fs::read_dir("/proc").unwrap();
        processes
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .map(|id| Self { id })
            .filter(|child| child.is_of(host) && child.is_alive())
            .collect()
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// A zombie is not: it waits to be reaped.
    pub(crate) fn is_alive(&self) -> bool {
        self.stat().is_some_and(|stat| stat[0] != "Z")
    }

    pub(crate) fn cpu_ticks(&self) -> u64 {
        self.stat()
            .map_or(0, |stat| stat[USER_TICKS].parse().unwrap())
    }

    pub(crate) fn nice(&self) -> i32 {
        self.stat().unwrap()[NICE].parse().unwrap()
    }

    /// `status`, key by key.
    pub(crate) fn status(&self) -> BTreeMap<String, String> {
        let text = fs::read_to_string(self.file("status")).unwrap();
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs
            .map(|(key, value)| (key.to_owned(), one_space(value)))
            .collect()
    }

    /// Names and soft limits.
    pub(crate) fn limits(&self) -> BTreeMap<String, String> {
        let text = fs::read_to_string(self.file("limits")).unwrap();
        let rows = text.lines().skip(1);
        rows.map(|row| {
            // The name is a column of 26 characters.
            let (name, values) = row.split_at(26);
            let soft = values.split_whitespace().next().unwrap();
            (name.trim().to_owned(), soft.to_owned())
        })
        .collect()
    }

    /// Numbers, and what they lead to.
    pub(crate) fn descriptors(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.file("fd")).unwrap();
        entries
            .map(|entry| {
                let entry = entry.unwrap();
                let to = fs::read_link(entry.path()).unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, to.to_string_lossy().into_owned())
            })
            .collect()
    }

    /// Names of its environment.
    pub(crate) fn variables(&self) -> Vec<String> {
        let text = fs::read_to_string(self.file("environ")).unwrap();
        let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
        let mut names: Vec<_> = pairs.map(|(name, _)| name.to_owned()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn kill(&self, signal: Signal) {
        kill_process(self.number(), signal).unwrap();
    }

    fn is_of(&self, host: u32) -> bool {
        let words = fs::read_to_string(self.file("cmdline")).unwrap_or_default();
        let is_compiler = words.split('\0').nth(1) == Some(SUBCOMMAND);
        is_compiler && self.stat().is_some_and(|stat| stat[1] == host.to_string())
    }

    /// The words of `stat` behind the name, which may hold anything: state, parent, and so on.
    fn stat(&self) -> Option<Vec<String>> {
        let stat = fs::read_to_string(self.file("stat")).ok()?;
        let (_, words) = stat.rsplit_once(") ")?;
        Some(words.split_whitespace().map(str::to_owned).collect())
    }

    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.id))
    }

    fn number(&self) -> Pid {
        Pid::from_raw(self.id.parse().unwrap()).unwrap()
    }
}

fn one_space(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
