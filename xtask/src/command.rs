//! Runs other programs: blocking, without standard input (there may be no user to type), and with errors that name the whole command.

use crate::failure::Failure;
use std::process::{Command, Output, Stdio};

/// Runs it; its output goes to our standard output and error.
pub fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|source| start_failure(command, source))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::Command {
        command: describe(command),
        status,
        words: String::new(),
    })
}

/// Runs it and returns its standard output; its standard error becomes part of the failure.
pub fn read(command: &mut Command) -> Result<String, Failure> {
    let output = try_read(command)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Command {
        command: describe(command),
        status: output.status,
        words: format!(": {}", words.trim()),
    })
}

/// Runs it and returns all of its output, whatever its status.
pub fn try_read(command: &mut Command) -> Result<Output, Failure> {
    command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| start_failure(command, source))
}

/// The program and its arguments as a user would type them.
pub fn describe(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The failure of a program that could not be started.
pub fn start_failure(command: &Command, source: std::io::Error) -> Failure {
    Failure::Start {
        command: describe(command),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_program_is_given() {
        assert_eq!(read(Command::new("echo").arg("here")).unwrap(), "here\n");
    }

    #[test]
    fn a_program_that_says_no_is_a_failure_with_its_words() {
        let failure = read(Command::new("sh").args(["-c", "echo gone >&2; exit 3"])).unwrap_err();
        assert_eq!(
            failure.to_string(),
            "`sh -c echo gone >&2; exit 3` failed (exit status: 3): gone"
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failure_with_its_name() {
        let failure = run(&mut Command::new("no-such-program")).unwrap_err();
        assert_eq!(
            failure.to_string(),
            "cannot start `no-such-program`: No such file or directory (os error 2)"
        );
    }
}
