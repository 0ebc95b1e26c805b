//! The registration of drivers, with the real host and a kubelet of the tests' own: for what the real one will not do on demand. It refuses,
//! hangs, comes late, loses its directory; and others meddle with the socket.

mod hosts;
mod meddling;
mod moods;
mod places;
mod process;
mod scene;
