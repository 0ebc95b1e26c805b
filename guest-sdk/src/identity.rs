//! The identity of the backend.
//!
//! It does not list capabilities: the driver advertises what is exported; a feature is only what no export can show.

use crate::bindings::identity::interface::Guest;
use crate::error::Error;

pub use crate::bindings::identity::interface::PluginInfo;

/// The interface `identity`. Serves `GetPluginInfo` and `Probe`, and the admission of a new version.
pub trait Identity: 'static {
    /// Name, version and features; read once, when this version is admitted.
    fn get_plugin_info() -> PluginInfo;

    /// Whether the backend is ready; false: it is still starting. The default is ready.
    fn probe() -> Result<bool, Error> {
        Ok(true)
    }

    /// Checks [`crate::call::settings`] and the grants before this version is activated: an error keeps the previous version. Returns warnings for
    /// the administrator. The default accepts everything.
    fn check_settings() -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
}

impl<T: Identity> Guest for T {
    fn get_plugin_info() -> PluginInfo {
        <T as Identity>::get_plugin_info()
    }

    fn probe() -> Result<bool, Error> {
        <T as Identity>::probe()
    }

    fn check_settings() -> Result<Vec<String>, Error> {
        <T as Identity>::check_settings()
    }
}

impl PluginInfo {
    /// A backend without features. `name` in domain name notation, such as `nfs.example.com`; the administrator may serve it under another.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            manifest: Vec::new(),
            features: Vec::new(),
        }
    }

    /// Adds a feature: an ability inside of a service that no export can show. The contract lists those that are known.
    #[must_use]
    pub fn with_feature(self, feature: impl AsRef<str>) -> Self {
        self.with_features(&[feature.as_ref()])
    }

    /// Adds several features.
    #[must_use]
    pub fn with_features(mut self, features: &[&str]) -> Self {
        self.features
            .extend(features.iter().map(|it| (*it).to_owned()));
        self
    }
}
