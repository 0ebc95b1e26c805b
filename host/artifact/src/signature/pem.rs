//! PEM with any label.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// Begins and ends the first line (RFC 7468, section 3).
const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";
/// Characters of a line of base64 (RFC 7468, section 2).
const LINE: usize = 64;

/// One block.
#[derive(Debug)]
pub(super) struct Pem {
    /// What stands in its first line.
    pub(super) label: String,
    /// Its content, which may be a secret.
    pub(super) bytes: Zeroizing<Vec<u8>>,
}

/// Why a text is no PEM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotPem {
    /// There is no block.
    #[error("it has no line `-----BEGIN ..-----`")]
    NoBegin,
    /// The block is cut off.
    #[error("`-----END {0}-----` is missing; is the file whole?")]
    NoEnd(String),
    /// Not base64.
    #[error("what stands between the dashes is not base64")]
    NotBase64,
    /// Several blocks: which one is meant?
    #[error("it has more than one block; give one key a file")]
    Several,
}

/// Reads the only block of a text. What stands before and after it is a remark.
pub(super) fn parse(text: &str) -> Result<Pem, NotPem> {
    let (_, rest) = text.split_once(BEGIN).ok_or(NotPem::NoBegin)?;
    let (label, rest) = rest.split_once(DASHES).ok_or(NotPem::NoBegin)?;
    let end = format!("{END}{label}{DASHES}");
    let (body, rest) = rest
        .split_once(&end)
        .ok_or_else(|| NotPem::NoEnd(label.to_owned()))?;
    if rest.contains(BEGIN) {
        return Err(NotPem::Several);
    }
    let packed: Zeroizing<String> =
        Zeroizing::new(body.chars().filter(|c| !c.is_ascii_whitespace()).collect());
    let bytes = STANDARD
        .decode(packed.as_bytes())
        .map_err(|_| NotPem::NotBase64)?;
    Ok(Pem {
        label: label.to_owned(),
        bytes: Zeroizing::new(bytes),
    })
}

/// Writes a block.
pub(super) fn write(label: &str, bytes: &[u8]) -> Zeroizing<String> {
    let packed = Zeroizing::new(STANDARD.encode(bytes));
    let mut text = Zeroizing::new(format!("{BEGIN}{label}{DASHES}\n"));
    let mut rest = packed.as_str();
    while !rest.is_empty() {
        // Base64 is ASCII: every position is one between characters.
        let (line, more) = rest.split_at_checked(LINE).unwrap_or((rest, ""));
        text.push_str(line);
        text.push('\n');
        rest = more;
    }
    text.push_str(END);
    text.push_str(label);
    text.push_str(DASHES);
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_whatever_its_length() {
        for length in [0, 1, 47, 48, 49, 96, 97, 500] {
            let bytes: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let text = write("SOME KEY", &bytes);
            assert!(text.lines().all(|line| line.len() <= LINE), "{length}");
            let read = parse(&format!("a remark\r\n{}", *text)).unwrap();
            assert_eq!((read.label.as_str(), &*read.bytes), ("SOME KEY", &bytes));
        }
    }

    #[test]
    fn what_is_no_single_block_is_refused() {
        let whole = write("KEY", b"12345");
        let twice = format!("{}{}", *whole, *whole);
        let cut = whole.split_once("-----END").unwrap().0.to_owned();
        for (text, refusal) in [
            ("ssh-ed25519 AAAA", NotPem::NoBegin),
            ("-----BEGIN KEY", NotPem::NoBegin),
            (cut.as_str(), NotPem::NoEnd("KEY".to_owned())),
            (
                "-----BEGIN KEY-----\n%%\n-----END KEY-----",
                NotPem::NotBase64,
            ),
            (
                "-----BEGIN A-----\n-----END B-----",
                NotPem::NoEnd("A".to_owned()),
            ),
            (&twice, NotPem::Several),
        ] {
            assert_eq!(parse(text).unwrap_err(), refusal, "{text}");
        }
    }
}
