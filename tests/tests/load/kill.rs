//! `kill -9`: what was answered holds, what was not is wholly there or not at all, the retry succeeds, and nothing is left behind.

mod every_call;
mod step;
mod under_load;
