//! What unit tests of several modules need.

pub(crate) mod api_double;
