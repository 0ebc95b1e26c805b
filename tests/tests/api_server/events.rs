//! What a plugin does wrong becomes an event on the object of whom it hurts, in a real API server: once, however often the call is tried; what
//! a user does wrong becomes none; and no call waits for the API server.

mod faults;
mod scene;
mod versions;
