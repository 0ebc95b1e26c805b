//! The thread that starts children.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// A request to the thread.
struct Order {
    command: Command,
    /// The runtime whose reactor is notified when the child exits.
    runtime: Handle,
    answer: oneshot::Sender<io::Result<Child>>,
}

/// The channel to the thread, once it runs.
static ORDERS: Mutex<Option<Sender<Order>>> = Mutex::new(None);

/// Starts a child on the thread.
pub(crate) async fn spawn(command: Command) -> io::Result<Child> {
    let (answer, started) = oneshot::channel();
    let runtime = Handle::current();
    let gone = || io::Error::other("the thread that starts processes has ended");
    let order = Order {
        command,
        runtime,
        answer,
    };
    orders()?.send(order).map_err(|_| gone())?;
    started.await.map_err(|_| gone())?
}

fn orders() -> io::Result<Sender<Order>> {
    let mut orders = ORDERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(orders) = &*orders {
        return Ok(orders.clone());
    }
    let (sender, taken) = channel();
    thread::Builder::new()
        .name("children".to_owned())
        .spawn(move || start_all(&taken))?;
    *orders = Some(sender.clone());
    Ok(sender)
}

fn start_all(orders: &Receiver<Order>) {
    for mut order in orders {
        let _entered = order.runtime.enter();
        // If the caller is gone, the child is dropped with the answer, and killed.
        let _ = order.answer.send(order.command.spawn());
    }
}
