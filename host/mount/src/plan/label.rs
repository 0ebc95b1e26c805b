//! The SELinux label that a request demands for a whole mount, in the form that kubelet sends if CSIDriver has `seLinuxMount`: one mount flag,
//! `context="system_u:object_r:container_file_t:s0:c10,c20"` (`AddSELinuxMountOption` in its `pkg/volume/util/selinux.go`).
//!
//! It is the only option whose value may contain commas. It is parsed here, and from then on is a name and a value, which `fsconfig(2)` takes
//! unchanged.

use super::is_of_name;

/// The name of the option. It labels all files of a mount; kubelet never sends `fscontext` and similar options.
pub(crate) const CONTEXT: &str = "context";
/// Longest label, in bytes: `fsconfig(2)` takes strings of 256 bytes with their NUL.
const LABEL_BYTES: usize = 255;
/// Components that a label always has: user, role and type. A level may follow, which contains colons itself.
const PARTS: usize = 3;
/// Reason why most invalid labels are invalid.
const NO_LABEL: &str =
    "is not an SELinux label, which is `user:role:type` or `user:role:type:level`";

/// A label of the form `user:role:type` or `user:role:type:level`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label(String);

impl Label {
    /// The label among mount flags, if there is one. The error says what is wrong with the value but does not repeat it, since mount flags are
    /// sensitive.
    pub(crate) fn of_flags(flags: &[String]) -> Result<Option<Self>, &'static str> {
        let mut found = None;
        for value in flags.iter().filter_map(|flag| value(flag)) {
            let label = Self::parse(value)?;
            if found.as_ref().is_some_and(|other| *other != label) {
                return Err("is given twice with different labels");
            }
            found = Some(label);
        }
        Ok(found)
    }

    /// Quotes protect commas, as for mount(8). The position of the quotes is not part of the label.
    fn parse(value: &str) -> Result<Self, &'static str> {
        let quoted = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        let label = quoted.unwrap_or(value);
        if label.len() > LABEL_BYTES {
            return Err("is longer than the kernel's limit of 255 bytes");
        }
        if quoted.is_none() && label.contains(',') {
            return Err("has a comma outside of quotes; give one option an entry");
        }
        let parts: Vec<&str> = label.splitn(PARTS + 1, ':').collect();
        let (names, level) = parts.split_at_checked(PARTS).ok_or(NO_LABEL)?;
        let is_level = |c: char| is_of_name(c) || matches!(c, ':' | ',');
        let are_of = |fields: &[&str], allowed: fn(char) -> bool| {
            let mut fields = fields.iter();
            fields.all(|field| !field.is_empty() && field.chars().all(allowed))
        };
        if are_of(names, is_of_name) && are_of(level, is_level) {
            return Ok(Self(label.to_owned()));
        }
        Err(NO_LABEL)
    }

    /// The form that the kernel takes.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a mount flag specifies a label.
pub(crate) fn is_label(flag: &str) -> bool {
    value(flag).is_some()
}

fn value(flag: &str) -> Option<&str> {
    flag.strip_prefix(CONTEXT)?.strip_prefix('=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(flags: &[&str]) -> Result<Option<String>, &'static str> {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let label = Label::of_flags(&flags)?;
        Ok(label.map(|label| label.as_str().to_owned()))
    }

    #[test]
    fn an_selinux_label_keeps_commas_and_loses_quotes() {
        for (flag, label) in [
            (
                r#"context="system_u:object_r:container_file_t:s0:c10,c20""#,
                "system_u:object_r:container_file_t:s0:c10,c20",
            ),
            (
                r#"context="system_u:object_r:container_file_t:s0-s15:c0.c1023""#,
                "system_u:object_r:container_file_t:s0-s15:c0.c1023",
            ),
            (
                "context=system_u:object_r:nfs_t:s0",
                "system_u:object_r:nfs_t:s0",
            ),
            (r#"context="user_u:role_r:type_t""#, "user_u:role_r:type_t"),
        ] {
            assert_eq!(of(&["noatime", flag]), Ok(Some(label.to_owned())));
            assert_eq!(of(&[flag, flag]), Ok(Some(label.to_owned())));
            assert!(is_label(flag));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let long = format!("context=u:r:{}", "t".repeat(LABEL_BYTES));
        for flag in [
            "context=",
            r#"context="""#,
            r#"context=""#,
            "context=u:r",
            "context=u:r:",
            "context=u::t",
            "context=u:r:t:",
            r#"context="u:r:t:s0"#,
            r#"context=u:r:t:s0""#,
            r#"context="u:r:t",suid""#,
            r#"context="u:r,x:t""#,
            "context=u:r:t:s0:c1,c2",
            "context=u:r:t,suid",
            r#"context="u:r:t:s0 suid""#,
            r#"context="u:r:t:s0\"""#,
            "context=u:r:t:\u{e9}",
            &long,
        ] {
            assert!(of(&[flag]).is_err(), "{flag}");
        }
        let other = ["context=u:r:t", "context=u:r:other"];
        assert_eq!(of(&other), Err("is given twice with different labels"));
    }

    #[test]
    fn other_options_are_not_looked_at() {
        for flag in [
            "context",
            "fscontext=u:r:t",
            "contexts=u",
            "noatime",
            "a,context=u",
            "",
        ] {
            assert_eq!(of(&[flag]), Ok(None), "{flag}");
            assert!(!is_label(flag), "{flag}");
        }
    }

    proptest! {
        #[test]
        fn an_accepted_label_is_one_mount_option(value in "[\"a-c:,.= \\\\\0\n]{0,16}") {
            if let Ok(Some(label)) = of(&[&format!("context={value}")]) {
                let is_quoted = value.starts_with('"');
                prop_assert!(is_quoted || !label.contains(','));
                prop_assert!(!label.contains(['"', '=', ' ', '\\', '\0', '\n']));
            }
        }
    }
}
