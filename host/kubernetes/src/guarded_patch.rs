//! JSON patches (RFC 6902) that apply only to what was read. Field by field, so that nothing is lost that this build does not know, and after a test,
//! so that nothing is lost that others wrote since.
//!
//! It knows no field of Kubernetes but `metadata.resourceVersion`.

use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, Patch as JsonPatch, PatchOperation, RemoveOperation, TestOperation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Patch;
use serde_json::Value;

/// Such a patch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GuardedPatch(Vec<PatchOperation>);

impl GuardedPatch {
    /// Applies to this very version of an object.
    pub(crate) fn of_version(metadata: &ObjectMeta) -> Self {
        let mut patch = Self(Vec::new());
        let version = metadata.resource_version.as_deref();
        patch.test(["metadata", "resourceVersion"], version.into());
        patch
    }

    /// Applies where these fields have these values.
    pub(crate) fn where_fields<'a, const N: usize>(
        tests: impl IntoIterator<Item = ([&'a str; N], Value)>,
    ) -> Self {
        let mut patch = Self(Vec::new());
        for (path, value) in tests {
            patch.test(path, value);
        }
        patch
    }

    fn test<const N: usize>(&mut self, path: [&str; N], value: Value) {
        let path = PointerBuf::from_tokens(path);
        let test = TestOperation { path, value };
        self.0.push(PatchOperation::Test(test));
    }

    /// Sets a field, or puts a value into a list (at `-`: at its end).
    pub(crate) fn add<const N: usize>(&mut self, path: [&str; N], value: Value) {
        let path = PointerBuf::from_tokens(path);
        self.0
            .push(PatchOperation::Add(AddOperation { path, value }));
    }

    /// Takes a field away, or a value out of a list.
    pub(crate) fn remove<const N: usize>(&mut self, path: [&str; N]) {
        let path = PointerBuf::from_tokens(path);
        self.0
            .push(PatchOperation::Remove(RemoveOperation { path }));
    }

    /// Itself, if it does more than test.
    pub(crate) fn if_any(self) -> Option<Self> {
        let changes = |it: &PatchOperation| !matches!(it, PatchOperation::Test(_));
        self.0.iter().any(changes).then_some(self)
    }

    /// For the API server.
    pub(crate) fn into_patch(self) -> Patch<()> {
        Patch::Json(JsonPatch(self.0))
    }

    /// As the API server applies it.
    #[cfg(test)]
    pub(crate) fn applied<K>(&self, object: &K) -> Result<K, json_patch::PatchError>
    where
        K: serde::Serialize + serde::de::DeserializeOwned,
    {
        let mut json = serde_json::to_value(object).unwrap();
        json_patch::patch(&mut json, &self.0)?;
        Ok(serde_json::from_value(json).unwrap())
    }
}

/// Whether somebody else wrote first. A failed test is `Invalid`, as other refusals are; those come again after a new reading.
pub(crate) fn somebody_else_wrote(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() || status.is_already_exists() || status.is_invalid() || status.is_not_found())
}
