//! Attributes and directories of sysfs: small files of text, which appear and disappear with their devices.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

/// Where it is mounted.
pub(crate) const SYS: &str = "/sys";
/// Maximum number of bytes read of an attribute: sysfs returns one page of text, and a SCSI page of product data has a 16-bit length.
const ATTRIBUTE_BYTES: u64 = 4 + (1 << 16);

/// The text of an attribute, without its padding. `None`: it is empty, or not there.
pub(crate) fn attribute(path: &Path) -> Option<String> {
    plain(&bytes(path)?)
}

/// The bytes of an attribute.
pub(crate) fn bytes(path: &Path) -> Option<Vec<u8>> {
    let file = fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(ATTRIBUTE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// An attribute without its padding. `None`: it is empty.
pub(crate) fn plain(bytes: &[u8]) -> Option<String> {
    let filling = |c: char| c.is_whitespace() || c == '\0';
    let text = std::str::from_utf8(bytes).ok()?.trim_matches(filling);
    (!text.is_empty()).then(|| text.to_owned())
}

/// Writes to an attribute. Where there is none, it makes no file.
pub(crate) fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(value.as_bytes())
}

/// Names in a directory. An unreadable directory counts as empty, because devices appear and disappear while they are listed.
pub(crate) fn entries(folder: &Path) -> impl Iterator<Item = String> + use<> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}
