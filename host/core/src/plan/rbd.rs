//! The source `rbd` of a plan: an image of a Ceph cluster, which the kernel of the node maps as a block device.

use super::Named;
use super::attached::{SecretScope, option};
use serde::{Deserialize, Serialize};

/// An image of a Ceph cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rbd {
    /// Addresses and ports of the monitors.
    pub monitors: Vec<String>,
    /// The id of the cluster (`fsid`).
    pub cluster: String,
    /// The name of the pool.
    pub pool: String,
    /// The name of the namespace. Absent: the default one of the pool.
    pub namespace: Option<String>,
    /// The name of the image.
    pub image: String,
    /// The identity of the image in its pool and namespace.
    pub image_id: String,
    /// How this node uses it.
    pub access: ImageAccess,
    /// Who maps it.
    pub cephx: Option<Cephx>,
}

/// How a node uses an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageAccess {
    /// As other nodes may at the same time.
    Shared,
    /// As the only one.
    Exclusive,
    /// Nothing is written.
    ReadOnly,
}

/// A user and its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cephx {
    /// The user.
    pub user: CephxUser,
    /// Whose secrets the key, and a user that is a secret, are.
    pub scope: SecretScope,
    /// The name of the secret that is the key.
    pub key: String,
}

/// A user of Ceph, without `client.`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CephxUser {
    /// This one.
    Name(String),
    /// The value of the secret of this name.
    Secret(String),
}

impl Rbd {
    pub(super) fn strings(&self) -> Vec<&str> {
        let mut strings: Vec<&str> = self.monitors.iter().map(String::as_str).collect();
        strings.extend([self.cluster.as_str(), &self.pool]);
        strings.extend(self.namespace.as_deref());
        strings.extend([self.image.as_str(), &self.image_id]);
        if let Some(cephx) = &self.cephx {
            let (CephxUser::Name(user) | CephxUser::Secret(user)) = &cephx.user;
            strings.extend([user.as_str(), &cephx.key]);
        }
        strings
    }
}

impl Cephx {
    pub(super) fn named_secrets(&self) -> impl Iterator<Item = Named<'_>> {
        let user = match &self.user {
            CephxUser::Name(_) => None,
            CephxUser::Secret(name) => Some((option::CEPHX_USER, self.scope, name.as_str())),
        };
        let key = (option::CEPHX_KEY, self.scope, self.key.as_str());
        user.into_iter().chain([key])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Source;
    use crate::plan::tests::plan;
    use crate::secrets::Secrets;

    fn image(user: CephxUser) -> Rbd {
        Rbd {
            monitors: vec!["192.0.2.1:6789".to_owned()],
            cluster: "8b0b3a5e-0000-4000-8000-000000000001".to_owned(),
            pool: "kubernetes".to_owned(),
            namespace: Some("tenant".to_owned()),
            image: "csi-vol-a".to_owned(),
            image_id: "10226b8b4567".to_owned(),
            access: ImageAccess::Exclusive,
            cephx: Some(Cephx {
                user,
                scope: SecretScope::Request,
                key: "userKey".to_owned(),
            }),
        }
    }

    fn values_of(image: &Rbd) -> [Option<String>; 2] {
        let secret = |name: &str| (name.to_owned(), format!("{name} of the request"));
        let request = Secrets::from_iter([secret("userID"), secret("userKey")]);
        let plan = plan(Source::Rbd(image.clone()));
        let values = plan.secret_options(&request, &Secrets::default());
        [option::CEPHX_USER, option::CEPHX_KEY].map(|it| values.get(it).map(str::to_owned))
    }

    #[test]
    fn a_user_is_named_or_a_secret() {
        let key = Some("userKey of the request".to_owned());
        let named = image(CephxUser::Name("csi".to_owned()));
        assert_eq!(values_of(&named), [None, key.clone()]);
        assert!(named.strings().contains(&"csi"));
        let secret = image(CephxUser::Secret("userID".to_owned()));
        assert_eq!(
            values_of(&secret),
            [Some("userID of the request".to_owned()), key]
        );
    }

    #[test]
    fn a_key_that_no_secret_has_is_left_out() {
        let mut unknown = image(CephxUser::Secret("none".to_owned()));
        if let Some(cephx) = &mut unknown.cephx {
            cephx.scope = SecretScope::Backend;
        }
        assert_eq!(values_of(&unknown), [None, None]);
        unknown.cephx = None;
        assert_eq!(values_of(&unknown), [None, None]);
        assert_eq!(unknown.strings().len(), 6);
    }
}
