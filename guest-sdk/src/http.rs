//! Requests to storage systems on the network: a typed client over `wasi:http/outgoing-handler`.
//!
//! A request names a grant (`grants.network` of the backend's document) and a path. Address, TLS, credentials, sessions, connections and limits of the
//! grant are the host's, so a backend holds no password and logs in nowhere.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use wasmount_guest::{Error, http, testing};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Lun {
//!     name: String,
//!     bytes: u64,
//! }
//!
//! fn find(name: &str) -> Result<Option<Lun>, Error> {
//!     let answer = http::get("array", "/api/luns").segment(name).send()?;
//!     answer.found()?.map(|answer| answer.json()).transpose()
//! }
//!
//! fn create(lun: &Lun) -> Result<Lun, Error> {
//!     http::post("array", "/api/luns").json(lun).load()
//! }
//!
//! // In a test the storage system is a function.
//! testing::reset();
//! testing::http(|request| match request.method() {
//!     http::Method::Get => http::Response::new(404),
//!     _ => http::Response::new(201).with_json(&request.read_json::<Lun>().unwrap()),
//! });
//! assert!(find("a")?.is_none());
//! let lun = Lun { name: "a".to_owned(), bytes: 1 << 30 };
//! assert_eq!(create(&lun)?.bytes, 1 << 30);
//! # Ok::<(), Error>(())
//! ```
//!
//! The host repeats what is safe to repeat ([`Request::idempotent`]) and never anything else. A request that changes something may have been carried
//! out although the caller got an error: the next call with the same arguments must look before it acts.

mod failure;
mod pages;
mod request;
mod response;
#[cfg(target_arch = "wasm32")]
pub(crate) mod wire;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use failure::Failure;
pub use request::{Method, Request};
pub use response::Response;

/// A GET request: `http::get("array", "/api/volumes/1")`.
pub fn get(grant: &str, path: &str) -> Request {
    Request::new(Method::Get, grant, path)
}

/// A HEAD request.
pub fn head(grant: &str, path: &str) -> Request {
    Request::new(Method::Head, grant, path)
}

/// A POST request. If it only reads, such as a search, say so by [`Request::read`].
pub fn post(grant: &str, path: &str) -> Request {
    Request::new(Method::Post, grant, path)
}

/// A PUT request.
pub fn put(grant: &str, path: &str) -> Request {
    Request::new(Method::Put, grant, path)
}

/// A PATCH request.
pub fn patch(grant: &str, path: &str) -> Request {
    Request::new(Method::Patch, grant, path)
}

/// A DELETE request.
pub fn delete(grant: &str, path: &str) -> Request {
    Request::new(Method::Delete, grant, path)
}
