//! Bytes as text. Apart because names of files, tags of loop devices and hashes of flags are written alike.

/// Bytes as lower case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
