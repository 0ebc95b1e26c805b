//! The settings of the administrator: which pool is which share of which server, and what csi-driver-nfs has as flags.
use crate::class::{self, OnDelete};
use crate::volume_id::segments;
use wasmount_guest::*;

/// Prefix of the settings that name the share of a pool: `share.nas: nas.example.com:/export`.
const SHARE: &str = "share.";

/// The settings.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    shares: Vec<Share>,
    /// Of classes that do not say.
    pub(crate) on_delete: OnDelete,
    /// Of classes that do not say; none: as the directory was created.
    pub(crate) mode: Option<u32>,
    /// Whether the size of a volume is reserved in the share.
    pub(crate) reserve: bool,
}

/// The share of a pool.
#[derive(Debug)]
struct Share {
    pool: Pool,
    server: String,
    /// Parts of the path.
    path: Vec<String>,
}

/// A place in a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pool: Pool,
    pub(crate) path: String,
}

impl Settings {
    pub(crate) fn read() -> Result<Self, Error> {
        let mut settings = Self::default();
        for (key, value) in call::settings() {
            match (key.strip_prefix(SHARE), key.as_str()) {
                (Some(pool), _) => settings.shares.push(Share::parse(pool, &value)?),
                (None, "onDelete") => settings.on_delete = OnDelete::parse(&value)?,
                (None, "mountPermissions") => settings.mode = class::mode(&value)?,
                (None, "reserve") => {
                    settings.reserve = value.parse().map_err(|_| {
                        Error::invalid_argument(format!(
                            "setting `reserve` cannot be `{value}`: it is true or false"
                        ))
                    })?;
                }
                (None, _) => {
                    return Err(Error::invalid_argument(format!(
                        "unknown setting `{key}`: known are share.POOL, onDelete, mountPermissions and reserve"
                    )));
                }
            }
        }
        Ok(settings)
    }

    /// Compares the shares with the granted pools; returns warnings.
    pub(crate) fn check(&self) -> Result<Vec<String>, Error> {
        let granted = Pool::granted();
        let has_share = |pool: &Pool| self.shares.iter().any(|share| share.pool == *pool);
        if let Some(share) = self.shares.iter().find(|it| !granted.contains(&it.pool)) {
            return Err(Error::failed_precondition(format!(
                "setting `{SHARE}{0}` names a pool that is not granted: add `{0}` to grants.pools",
                share.pool.name()
            )));
        }
        let unnamed = granted.iter().filter(|pool| !has_share(pool));
        let warning = |pool: &Pool| {
            format!(
                "pool `{0}` is not used: say in setting `{SHARE}{0}` which share it is",
                pool.name()
            )
        };
        Ok(unnamed.map(warning).collect())
    }

    /// The place of a directory of a share. The share is that of a pool, or a directory in it.
    pub(crate) fn place(&self, server: &str, share: &str, sub_dir: &str) -> Result<Place, Error> {
        let below = format!("{share}/{sub_dir}");
        let parts = segments(&below).ok_or_else(|| {
            Error::invalid_argument("a path on the server has a part `.` or `..`: name it without")
        })?;
        let shares = self.shares.iter().filter(|it| it.server == server);
        // The longest one, if one share lies in another.
        let found = shares.filter_map(|it| Some((it, parts.strip_prefix(it.path.as_slice())?)));
        let (share, rest) = found.max_by_key(|(it, _)| it.path.len()).ok_or_else(|| {
            Error::failed_precondition(format!(
                "no pool is the share {server}:/{}: grant one and name its share in a setting `{SHARE}POOL`",
                share.trim_matches('/')
            ))
        })?;
        Ok(Place {
            pool: share.pool.clone(),
            path: rest.join("/"),
        })
    }
}

impl Share {
    fn parse(pool: &str, source: &str) -> Result<Self, Error> {
        let parsed = source.rsplit_once(":/").and_then(|(server, path)| {
            let server = server.trim_matches(['[', ']']);
            Some((server, segments(path)?)).filter(|_| !server.is_empty())
        });
        let (server, path) = parsed.ok_or_else(|| {
            Error::invalid_argument(format!(
                "setting `{SHARE}{pool}` must be of the form server:/path"
            ))
        })?;
        Ok(Self {
            pool: Pool::from(pool.to_owned()),
            server: server.to_owned(),
            path,
        })
    }
}
