//! Helpers of the unit tests.

pub(crate) mod api_double;
