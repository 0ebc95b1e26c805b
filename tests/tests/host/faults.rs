//! What goes wrong around a host: its directories vanish or fill up, the node restarts, a second host starts, it gets SIGTERM. Nothing that
//! was answered is lost, nothing that is mounted becomes stuck, and each fault is one clear line.

mod full;
mod late;
mod lost;
mod neighbours;
mod unshared;
