//! JSON patches (RFC 6902) that apply only to the object that was read. They change single fields, so that fields unknown to this build are kept, and
//! begin with a test, so that changes of others since are kept.
//!
//! The only field of Kubernetes that it knows is `metadata.resourceVersion`.

use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, Patch as JsonPatch, PatchOperation, RemoveOperation, TestOperation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Patch;
use serde_json::{Value, json};

/// A patch with tests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GuardedPatch(Vec<PatchOperation>);

impl GuardedPatch {
    /// A patch that applies to this version of an object only.
    pub(crate) fn of_version(metadata: &ObjectMeta) -> Self {
        let version = metadata.resource_version.as_deref().into();
        Self::where_fields([(["metadata", "resourceVersion"], version)])
    }

    /// A patch that applies if these fields have these values.
    pub(crate) fn where_fields<'a, const N: usize>(
        tests: impl IntoIterator<Item = ([&'a str; N], Value)>,
    ) -> Self {
        let tests = tests.into_iter().map(|(path, value)| {
            let path = PointerBuf::from_tokens(path);
            PatchOperation::Test(TestOperation { path, value })
        });
        Self(tests.collect())
    }

    /// Sets a field, or inserts a value into a list (at `-`: at its end).
    pub(crate) fn add<const N: usize>(&mut self, path: [&str; N], value: Value) {
        let path = PointerBuf::from_tokens(path);
        self.0
            .push(PatchOperation::Add(AddOperation { path, value }));
    }

    /// Sets an annotation of the object with this metadata.
    pub(crate) fn annotate(&mut self, metadata: &ObjectMeta, key: &str, value: &str) {
        if metadata.annotations.is_none() {
            self.add(["metadata", "annotations"], json!({}));
        }
        self.add(["metadata", "annotations", key], json!(value));
    }

    /// Removes a field, or a value of a list.
    pub(crate) fn remove<const N: usize>(&mut self, path: [&str; N]) {
        let path = PointerBuf::from_tokens(path);
        self.0
            .push(PatchOperation::Remove(RemoveOperation { path }));
    }

    /// The patch, if it does more than test.
    pub(crate) fn if_any(self) -> Option<Self> {
        let changes = |it: &PatchOperation| !matches!(it, PatchOperation::Test(_));
        self.0.iter().any(changes).then_some(self)
    }

    /// The patch for a request.
    pub(crate) fn into_patch(self) -> Patch<()> {
        Patch::Json(JsonPatch(self.0))
    }

    /// The result, as the API server computes it.
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
