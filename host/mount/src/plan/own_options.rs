//! The table of options of each file system, `own_options.txt`.

use super::is_name;

/// One line for each kind of value; the head of the file describes the columns.
const TABLE: &str = include_str!("own_options.txt");
/// Maximum number of digits of a number: those of 2^32.
const DIGITS: usize = 10;
/// Longest string, in bytes: a label of a domain name has 63.
const WORD_BYTES: usize = 64;
/// Permission bits without the set-user and set-group bits.
const MODE_BITS: u32 = 0o1777;
/// Kind of the options that the host sets itself.
const HOST: &str = "host";
/// Kind of the options whose values are secrets of a request.
const SECRET: &str = "secret";

/// Whether an option is harmless. A flag has an empty value.
pub(crate) fn is_harmless(fs_type: &str, name: &str, value: &str) -> bool {
    shapes(fs_type, name).any(|shape| fits(shape, value))
}

/// Whether the host sets an option itself, so that it cannot be granted.
pub(crate) fn is_reserved(fs_type: &str, name: &str) -> bool {
    shapes(fs_type, name).any(|shape| shape == HOST)
}

/// Whether an option needs no grant where its value is a secret of the request.
pub(crate) fn is_harmless_secret(fs_type: &str, name: &str) -> bool {
    shapes(fs_type, name).any(|shape| shape == SECRET)
}

/// The kinds that the table has for an option.
fn shapes<'n>(fs_type: &'n str, name: &'n str) -> impl Iterator<Item = &'static str> + 'n {
    TABLE.lines().filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace();
        let is_of_type = fields
            .next()?
            .split(',')
            .any(|it| it == fs_type || it == "*");
        let shape = fields.next()?;
        (is_of_type && fields.any(|it| it == name)).then_some(shape)
    })
}

fn fits(shape: &str, value: &str) -> bool {
    if let Some(allowed) = shape.strip_prefix("list:") {
        return value.split(':').all(|part| is_one_of(allowed, part));
    }
    if let Some(allowed) = shape.strip_prefix("level:") {
        let (name, level) = value.split_once(':').unwrap_or((value, "0"));
        return is_one_of(allowed, name) && is_number(level);
    }
    match shape {
        HOST | SECRET => false,
        "flag" => value.is_empty(),
        "number" => is_number(value),
        "size" => is_number(
            value
                .strip_suffix(['k', 'K', 'm', 'M', 'g', 'G'])
                .unwrap_or(value),
        ),
        "mode" => value.starts_with('0') && is_mode(value),
        "octal" => is_mode(value),
        "word" => is_name(value, WORD_BYTES),
        allowed => is_one_of(allowed, value),
    }
}

fn is_one_of(allowed: &str, value: &str) -> bool {
    allowed.split('|').any(|it| it == value)
}

fn is_mode(value: &str) -> bool {
    u32::from_str_radix(value, 8).is_ok_and(|mode| mode <= MODE_BITS)
}

fn is_number(value: &str) -> bool {
    !value.is_empty() && value.len() <= DIGITS && value.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
