//! The commands that look inside a plugin, on the real program: what they tell of plugins that are well, of plugins that are not, and of files
//! that are no plugins at all.

mod call;
mod check;
mod every_call;
mod grpc;
mod hostile;
mod inspect;
mod leftovers;
mod plans;
mod program;
mod replay;
