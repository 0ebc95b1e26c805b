//! Process ids of a cluster in our PID namespace.

use std::fs;
use xtask::failure::Failure;

/// The id in our PID namespace of the process that is `inside` in the PID namespace of `member`.
pub fn id_of(member: u32, inside: u32) -> Result<Option<u32>, Failure> {
    let namespace = |id: u32| fs::read_link(format!("/proc/{id}/ns/pid")).ok();
    let ours = namespace(member);
    let processes = fs::read_dir("/proc").map_err(Failure::cannot("read /proc"))?;
    let mut ids = processes.flatten().filter_map(|it| {
        let id: u32 = it.file_name().to_str()?.parse().ok()?;
        let status = fs::read_to_string(it.path().join("status")).ok()?;
        (innermost_id(&status)? == inside && namespace(id) == ours).then_some(id)
    });
    Ok(ids.next())
}

/// The last number of `NSpid` (proc_pid_status(5)).
fn innermost_id(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|it| it.strip_prefix("NSpid:"))?;
    ids.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_an_id_in_each_of_its_namespaces() {
        assert_eq!(innermost_id("Pid:\t912\nNSpid:\t912\t7\n"), Some(7));
        assert_eq!(innermost_id("Pid:\t912\nNSpid:\t912\n"), Some(912));
        assert_eq!(innermost_id("Pid:\t912\n"), None);
    }

    #[test]
    fn a_process_of_this_namespace_is_found_by_its_id() {
        let own = std::process::id();
        assert_eq!(id_of(own, own).unwrap(), Some(own));
    }
}
