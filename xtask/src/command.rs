//! Runs other programs: blocking, without standard input (there may be no user to type), and with errors that name the whole command.

use crate::failure::Failure;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Output, Stdio};

/// Runs it; its output goes to our standard output and error.
pub fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(cannot_start(command))?;
    if status.success() {
        return Ok(());
    }
    Err(failed(command, status, ""))
}

/// Runs it and returns its standard output; its standard error becomes part of the failure.
pub fn read(command: &mut Command) -> Result<String, Failure> {
    Ok(String::from_utf8_lossy(&read_bytes(command)?).into_owned())
}

/// The same for output that is no text.
pub fn read_bytes(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let output = try_read(command)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    Err(failed(command, output.status, reason.trim()))
}

/// Runs it and returns all of its output, whatever its status.
pub fn try_read(command: &mut Command) -> Result<Output, Failure> {
    command
        .stdin(Stdio::null())
        .output()
        .map_err(cannot_start(command))
}

/// Becomes it, so that signals reach it directly: returns only if that fails.
pub fn become_program(command: &mut Command) -> Result<(), Failure> {
    let error = command.exec();
    Err(cannot_start(command)(error))
}

/// The program and its arguments as a user would type them.
fn describe(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|argument| argument.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The failure of a program that could not be started, for `map_err`.
pub fn cannot_start(command: &Command) -> impl FnOnce(io::Error) -> Failure + use<> {
    Failure::cannot(format!("start `{}`", describe(command)))
}

/// The failure of a program that ran; `reason` is the end of its error output, empty if it went to the terminal.
pub fn failed(command: &Command, status: ExitStatus, reason: &str) -> Failure {
    let command = describe(command);
    let separator = if reason.is_empty() { "" } else { ": " };
    Failure::Unexpected(format!("`{command}` failed ({status}){separator}{reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_program_is_given() {
        assert_eq!(read(Command::new("echo").arg("here")).unwrap(), "here\n");
    }

    #[test]
    fn a_failed_program_is_an_error_with_its_output() {
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
