//! The tests on another kernel: those named for it, and some that also run on this machine's. Each program with such tests has a VM of its own
//! (`cargo xtask vm`), as a job among the other test programs; tests about SELinux have one with a policy, and those with a Ceph another one.

use super::programs::Program;
use super::schedule::{ALLOW_UNSTABLE, Job, OWN_MAIN, THOROUGH};
use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::workspace::Workspace;
use std::ffi::OsString;
use std::process::Command;

/// The prefix of names of tests that are for another kernel only.
pub(super) const PREFIX: &str = "on_other_kernel_";

/// Tests that run on this machine's kernel too, by their program, as the last word of a name or as a module: the whole of csi-sanity, the life of each
/// kind of volume, and what the mounter asks of a kernel. The other tests of the mounter are about its own work, and would take minutes.
const ALSO: [(&str, &[&str]); 3] = [
    (
        "mount/lib",
        &[
            "block::",
            "format::tests::shared::",
            "freeze::",
            "many_run_at_a_time_and_a_slow_one_delays_no_other",
            "pool::tests::attacks::",
            "privileged_a_device_that_cannot_be_read_is_not_blank",
            "privileged_a_dirty_journal_is_replayed_only_by_a_writer",
            "privileged_a_disk_turned_read_only_is_still_read",
            "privileged_a_mounted_ext4_grows_or_names_the_next_stage",
            "privileged_a_rejected_option_prevents_formatting",
            "privileged_a_tree_written_once_is_copied_as_it_is_after",
            "privileged_an_xfs_that_the_kernel_finds_damaged_is_damaged",
            "privileged_btrfs_shares_blocks_and_needs_no_full_copies",
            "privileged_files_are_kept_out_of_swap_space",
            "privileged_xfs_and_btrfs_grow_online_once",
            "source::filesystem::",
        ],
    ),
    (
        "mount/mounts",
        &[
            "privileged_a_device_lives_with_each_file_system_and_raw",
            "privileged_a_file_system_mounted_by_name_works",
            "privileged_a_tree_lives",
            "privileged_an_ext4_grows_at_the_next_stage",
            "privileged_an_image_lives_with_each_file_system_and_raw",
        ],
    ),
    (
        "tests/volumes",
        &[
            "privileged_sanity_5_4_hostpath_directories_split",
            "privileged_sanity_5_4_hostpath_images_split",
            "privileged_sanity_5_4_hostpath_raw_block",
            "privileged_sanity_5_6_hostpath_images_as_csi_1_13",
            "privileged_sanity_local_images",
        ],
    ),
];

/// A part of the names of tests that need a VM with SELinux. Others run without, since the labels of a policy appear in mount tables.
const SELINUX: &str = "selinux";

/// A part of the names of tests that run in two VMs at once, as one program on each.
const TWO: &str = "two_kernels";

/// A part of the names of tests that run twice, since their VM is killed and another one has its disk.
const POWER_CUT: &str = "power_cut";

/// A part of the names of tests that start a Ceph, which takes half a minute: they have a VM of their own beside the others.
const CEPH: &str = "ceph";

/// Tests of a VM run one after another: it has one processor, and one NFS server.
const TESTS_AT_ONCE: &str = "1";

/// The jobs of these programs. `arguments` are those of all test programs, such as a filter; `thorough` is for loops at full length.
pub(super) fn jobs(
    workspace: &Workspace,
    programs: &[Program],
    arguments: &[OsString],
    thorough: bool,
) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    for program in programs.iter().filter(|it| it.name != OWN_MAIN) {
        let mut list = Command::new(&program.file);
        list.args(arguments).args(["--list", "--format", "terse"]);
        let listed = command::read(list.current_dir(&program.directory))?;
        let also = also(&program.name);
        let chosen = chosen(&listed, also);
        // A filter may leave out some of them. Without one, a name that was changed must be changed here too.
        if let Some(missing) = missing(&chosen, also)
            && arguments.is_empty()
        {
            return Err(Failure::Unexpected(format!(
                "{} has no test {missing}: name another one in xtask/src/test/other_kernel.rs",
                program.name
            )));
        }
        let mut plain = chosen;
        let mut take = |part: &str| -> Vec<_> {
            let taken = plain.extract_if(.., |name| name.contains(part));
            taken.collect()
        };
        let (two, selinux, ceph, cut) = (take(TWO), take(SELINUX), take(CEPH), take(POWER_CUT));
        for (names, kind, option) in [
            (plain, "vm", None),
            (ceph, "vm+ceph", None),
            (cut, "vm+power-cut", Some("--power-cut")),
            (selinux, "vm+selinux", Some("--selinux")),
            (two, "vm+two", Some("--two")),
        ] {
            if !names.is_empty() {
                let name = format!("{kind}/{}", program.name);
                let command = vm(workspace, program, &names, option, thorough)?;
                jobs.push(Job {
                    name,
                    command,
                    // It has its arguments already.
                    has_tests: false,
                });
            }
        }
    }
    Ok(jobs)
}

/// `cargo xtask vm` with a program and the names of its tests.
fn vm(
    workspace: &Workspace,
    program: &Program,
    names: &[&str],
    option: Option<&str>,
    thorough: bool,
) -> Result<Command, Failure> {
    let compiled = workspace.compiled();
    files::create_directory(&compiled)?;
    let mut command = Command::new(workspace.own_program());
    command.current_dir(&program.directory).arg("vm");
    command.arg("--share-writable").arg(compiled);
    command.args(option);
    let variables = [
        ALLOW_UNSTABLE,
        ("RUST_TEST_THREADS", TESTS_AT_ONCE),
        (
            "CARGO_MANIFEST_DIR",
            &program.directory.display().to_string(),
        ),
    ];
    let variables = variables.map(|(name, value)| format!("{name}={value}"));
    command.args(["--", "env"]).args(variables);
    command.args(thorough.then(|| format!("{THOROUGH}=1")));
    command.arg(&program.file);
    command.args(["-Z", "unstable-options", "--report-time", "--exact"]);
    command.args(names);
    Ok(command)
}

fn also(program: &str) -> &'static [&'static str] {
    let entry = ALSO.iter().find(|(name, _)| *name == program);
    entry.map_or(&[], |(_, names)| names)
}

/// The whole names of the tests to run, from a list as Rust's test runner prints it: `module::name: test`.
fn chosen<'a>(listed: &'a str, also: &[&str]) -> Vec<&'a str> {
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    names
        .filter(|name| {
            last(name).starts_with(PREFIX) || also.iter().any(|entry| selects(entry, name))
        })
        .collect()
}

fn missing<'a>(chosen: &[&str], also: &[&'a str]) -> Option<&'a str> {
    let is_used = |entry: &&str| chosen.iter().any(|name| selects(entry, name));
    also.iter().copied().find(|entry| !is_used(entry))
}

/// Whether an entry of [`ALSO`] means a test: all of a module, or one by the last word of its name.
fn selects(entry: &str, name: &str) -> bool {
    match entry.ends_with("::") {
        true => name.starts_with(entry),
        false => last(name) == entry,
    }
}

fn last(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "\
a::on_other_kernel_grows: test
a::on_other_kernel_grows_slowly: bench
b::c::privileged_lives: test
b::lives_on_other_kernel_: test
privileged_dies: test
";

    #[test]
    fn tests_are_chosen_by_prefix_and_by_name() {
        let expected = ["a::on_other_kernel_grows", "b::c::privileged_lives"];
        assert_eq!(chosen(LISTED, &["privileged_lives"]), expected);
        assert_eq!(chosen(LISTED, &["b::c::"]), expected);
        assert_eq!(chosen(LISTED, &["b::d::"]), expected[..1]);
        assert_eq!(chosen(LISTED, &[]), expected[..1]);
    }

    #[test]
    fn a_chosen_test_that_is_gone_is_missed() {
        let also = ["privileged_lives", "privileged_leaves"];
        let chosen = chosen(LISTED, &also);
        assert_eq!(missing(&chosen, &also), Some("privileged_leaves"));
        assert_eq!(missing(&chosen, &also[..1]), None);
    }
}
