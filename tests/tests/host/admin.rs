//! A running host as its administrator meets it: commands that look and change, files that are replaced, documents that are broken, backends that
//! go. Whatever is done, what serves goes on, and what was refused is said.

mod commands;
mod documents;
mod files;
mod names;
mod refusals;
mod removal;
mod scene;
mod socket;
mod untouched;
mod versions;
