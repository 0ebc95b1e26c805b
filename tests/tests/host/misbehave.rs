//! A plugin that breaks every rule, and a host that stays whole: the call fails with the right code and says whose fault it was, the next
//! call works, another driver notices nothing, and nothing is left: no mount, no memory, no secret.
//!
//! What the plugin can do is in tables, a row each. `known` checks that no row is missing.

mod admission;
mod answers;
mod call;
mod crowd;
mod deletions;
mod effects;
mod facts;
mod known;
mod lists;
mod memory;
mod neighbour;
mod plans;
mod resources;
mod row;
mod scene;
mod second;
mod secrets;
mod state;
mod traps;
mod unstage;
