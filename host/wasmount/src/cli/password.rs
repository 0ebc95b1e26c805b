//! Where the password of a private key comes from: the environment, as cosign has it, or whoever sits at the terminal.
//!
//! Never a flag: every process of the machine can read those.

use crate::fault::Fault;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use wasmount_artifact::signature::Password;

/// Read in this order. The second is cosign's, so that one set-up serves both. Set and empty is an empty password.
const VARIABLES: [&str; 2] = ["WASMOUNT_KEY_PASSWORD", "COSIGN_PASSWORD"];
/// Of the process, wherever its input and output go.
const TERMINAL: &str = "/dev/tty";
/// Longest password that is read, in bytes.
const PASSWORD_BYTES: usize = 1024;

/// A terminal that does not show what is typed until it is dropped.
struct Silent<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Silent<'a> {
    fn new(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        // The end of the line is shown, or else the next line of output continues the question.
        silent.local_modes.insert(LocalModes::ECHONL);
        // What was typed before the question was no answer to it.
        tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no echo.
        let _ = tcsetattr(self.terminal, OptionalActions::Drain, &self.before);
    }
}

/// Of a key that exists.
pub(super) fn of_key() -> Result<Password, Fault> {
    match from_environment() {
        Some(password) => Ok(password),
        None => ask(&["Password of the private key: "]).map(|(password, _)| password),
    }
}

/// Of a key that is being made: asked for twice, since a mistyped one would be lost.
pub(super) fn of_new_key() -> Result<Password, Fault> {
    if let Some(password) = from_environment() {
        return Ok(password);
    }
    let (first, second) = ask(&[
        "Password for the private key (empty for none): ",
        "The same again: ",
    ])?;
    if second.is_some_and(|second| second != first) {
        return Err(Fault::room("no key is made")("the two passwords differ"));
    }
    Ok(first)
}

fn from_environment() -> Option<Password> {
    let value = VARIABLES.into_iter().find_map(env::var_os)?;
    Some(Password::new(value.into_vec()))
}

/// The answer to one question, or to two.
fn ask(questions: &[&str]) -> Result<(Password, Option<Password>), Fault> {
    let impossible = format!(
        "the password cannot be asked for; set {} instead",
        VARIABLES.join(" or ")
    );
    let answers = answers(questions).map_err(Fault::room(impossible))?;
    let mut answers = answers.into_iter();
    Ok((answers.next().unwrap_or_default(), answers.next()))
}

fn answers(questions: &[&str]) -> io::Result<Vec<Password>> {
    let terminal = OpenOptions::new().read(true).write(true).open(TERMINAL)?;
    let _silent = Silent::new(&terminal)?;
    let mut answers = Vec::new();
    for question in questions {
        (&terminal).write_all(question.as_bytes())?;
        answers.push(line(&terminal)?);
    }
    Ok(answers)
}

/// A line without its end. Read byte by byte: what follows may be the answer to the next question.
fn line(mut from: impl Read) -> io::Result<Password> {
    // All of it at once, so that no copy is left behind by a vector that grew.
    let mut line = Vec::with_capacity(PASSWORD_BYTES);
    let mut byte = [0];
    loop {
        match from.read(&mut byte)? {
            0 if line.is_empty() => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "nothing was typed",
                ));
            }
            0 => break,
            _ if byte == *b"\n" => break,
            _ if line.len() == PASSWORD_BYTES => {
                return Err(io::Error::other(format!(
                    "it is longer than {PASSWORD_BYTES} bytes"
                )));
            }
            _ => line.extend(byte),
        }
    }
    Ok(Password::new(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_where_the_next_answer_begins() {
        let mut typed: &[u8] = b"first\n\nthird";
        for answer in ["first", "", "third"] {
            let expected = Password::new(answer.as_bytes().to_vec());
            assert_eq!(line(&mut typed).unwrap(), expected);
        }
        let ended = line(&mut typed).unwrap_err();
        assert_eq!(ended.to_string(), "nothing was typed");
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let whole = [b'x'; PASSWORD_BYTES];
        assert_eq!(line(&whole[..]).unwrap(), Password::new(whole.to_vec()));
        let refused = line(io::repeat(b'x')).unwrap_err();
        assert_eq!(refused.to_string(), "it is longer than 1024 bytes");
    }
}
