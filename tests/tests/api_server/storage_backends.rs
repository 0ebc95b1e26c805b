//! Backends as objects of a real API server: what it takes is what a file may say, hosts converge and report, one of them summarises, and the
//! loss of the API server stops nothing. One file a subject.

mod cluster;
mod definition;
mod documents;
mod hosts;
mod leaving;
mod overview;
mod reports;
mod rights;
mod rollouts;
mod scene;
mod serving;
mod summary;
mod thousands;
