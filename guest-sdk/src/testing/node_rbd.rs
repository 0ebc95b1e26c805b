//! The interface `node-rbd` in memory.

use super::node_plan::{Source, add_to_source, take};
use crate::error::Error;
use crate::plan::{CephxUser, ImageAccess, RbdImage};
use crate::secrets::Scope;

/// An image of a Ceph cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rbd {
    /// Addresses and ports of the monitors.
    pub monitors: Vec<String>,
    /// The image.
    pub image: RbdImage,
    /// How the node uses it.
    pub access: ImageAccess,
    /// Who maps it.
    pub cephx: Option<Cephx>,
}

/// A user, and its key by the name of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cephx {
    /// The user.
    pub user: CephxUser,
    /// Whose secret the key is.
    pub scope: Scope,
    /// The name of the secret that is the key.
    pub key: String,
}

pub(crate) fn rbd(monitors: &[String], image: &RbdImage, access: ImageAccess) -> Result<(), Error> {
    take(Source::Rbd(Rbd {
        monitors: monitors.to_vec(),
        image: image.clone(),
        access,
        cephx: None,
    }))
}

pub(crate) fn cephx(user: &CephxUser, scope: Scope, key: &str) -> Result<(), Error> {
    let secret = match user {
        CephxUser::Name(_) => None,
        CephxUser::Secret(name) => Some(name.as_str()),
    };
    let names: Vec<&str> = secret.into_iter().chain([key]).collect();
    add_to_source(["cephx", "rbd"], scope, &names, |source| match source {
        Source::Rbd(rbd) => {
            rbd.cephx = Some(Cephx {
                user: user.clone(),
                scope,
                key: key.to_owned(),
            });
            Some(())
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::testing;

    fn image() -> RbdImage {
        RbdImage {
            cluster: "8b0b3a5e-0000-4000-8000-000000000001".to_owned(),
            pool: "kubernetes".to_owned(),
            namespace: None,
            name: "csi-vol-a".to_owned(),
            id: "10226b8b4567".to_owned(),
        }
    }

    #[test]
    fn an_image_is_recorded_with_its_user() {
        testing::reset();
        testing::set_secret(Scope::Backend, "key", "AQBn");
        let user = CephxUser::Name("csi".to_owned());
        let plan = testing::record(|plan| {
            plan.rbd(&["192.0.2.1:6789"], &image(), ImageAccess::Exclusive)?;
            plan.cephx(&user, Scope::Backend, "key")
        });
        let cephx = Cephx {
            user,
            scope: Scope::Backend,
            key: "key".to_owned(),
        };
        let source = plan.unwrap().source;
        assert!(matches!(source, Source::Rbd(rbd) if rbd.cephx == Some(cephx)));
    }

    #[test]
    fn a_user_that_no_secret_has_is_refused() {
        testing::reset();
        testing::set_secret(Scope::Request, "userKey", "AQBn");
        let refused = testing::record(|plan| {
            plan.rbd(&["192.0.2.1:6789"], &image(), ImageAccess::Shared)?;
            let user = CephxUser::Secret("userID".to_owned());
            plan.cephx(&user, Scope::Request, "userKey")
        });
        let code = refused.map_err(|error| error.code).map(drop);
        assert_eq!(code, Err(Code::InvalidArgument));
    }
}
