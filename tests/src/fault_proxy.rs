//! A proxy of HTTP/1.1 that treats requests as a bad network and a sick server do: it refuses, drops before and after forwarding, delays, truncates,
//! duplicates, reorders, and answers errors of its own. What it does follows from a seed, which a failing test shows.
//!
//! ```no_run
//! # async fn example() -> Result<(), xtask::failure::Failure> {
//! use wasmount_tests::fault_proxy::{FaultProxy, FaultRate};
//! let array = ([127, 0, 0, 1], 8080).into();
//! let proxy = FaultProxy::start(array, FaultRate { of: 3, seed: 7 }).await?;
//! proxy.mend();
//! println!("{proxy}");
//! # Ok(())
//! # }
//! ```

mod message;

use fastrand::Rng;
use message::{Message, read};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use wasmount_core::mutex::lock;
use xtask::failure::Failure;

/// The longest delay of a request: long beside one, short beside the time of a call.
const LONGEST_DELAY: Duration = Duration::from_millis(300);

/// How long a request is held back for another one to overtake it: if there is none, it goes on.
const OVERTAKEN_WITHIN: Duration = Duration::from_millis(200);

/// Answers of the proxy itself. `Retry-After` 0: at once.
const BUSY: &[u8] = b"HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
const TOO_MANY: &[u8] = b"HTTP/1.1 429 Slow Down\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
const BROKEN: &[u8] = b"HTTP/1.1 500 Broken\r\ncontent-length: 0\r\n\r\n";

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The connection is closed before the request is read.
    Refuse,
    /// The request is read and not forwarded.
    DropBefore,
    /// The request is forwarded and its answer dropped.
    DropAfter,
    /// The request is forwarded late.
    Delay,
    /// Half of the answer arrives, then the connection ends.
    Truncate,
    /// The request is forwarded twice; the answer to the second arrives.
    DuplicateAnsweredLast,
    /// The request is forwarded twice; the answer to the first arrives.
    DuplicateAnsweredFirst,
    /// Another request overtakes it.
    Reorder,
    /// 503, not forwarded.
    Busy,
    /// 429, not forwarded.
    TooMany,
    /// 500, though it was forwarded and done.
    BrokenAfter,
}

/// All of them.
pub const FAULTS: [Fault; 11] = [
    Fault::Refuse,
    Fault::DropBefore,
    Fault::DropAfter,
    Fault::Delay,
    Fault::Truncate,
    Fault::DuplicateAnsweredLast,
    Fault::DuplicateAnsweredFirst,
    Fault::Reorder,
    Fault::Busy,
    Fault::TooMany,
    Fault::BrokenAfter,
];

/// How many requests meet a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultRate {
    /// One request of so many; 0: none.
    pub of: usize,
    /// Which ones, and which faults.
    pub seed: u64,
}

/// Connections of clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    /// Those that were accepted.
    pub accepted: usize,
    /// Those that are open.
    pub open: usize,
    /// The most that were open at a time.
    pub most: usize,
}

/// A running proxy; it stops when dropped. `{}` shows its seed and what it did.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    plan: Arc<Plan>,
    _accepting: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Plan {
    to: SocketAddr,
    seed: u64,
    chance: Mutex<Chance>,
    /// Told of each request that was forwarded.
    forwarded: Notify,
}

#[derive(Debug, Default)]
struct Chance {
    rng: Rng,
    one_of: usize,
    /// The next faults, before any random one.
    forced: Vec<Fault>,
    done: BTreeMap<Fault, usize>,
    /// Requests that the server answered, by method and path; and those that the client did not hear of.
    answered: BTreeMap<String, usize>,
    unheard: BTreeMap<String, usize>,
    connections: Connections,
}

impl Connections {
    fn opened(&mut self) {
        self.accepted += 1;
        self.open += 1;
        self.most = self.most.max(self.open);
    }
}

impl FaultProxy {
    /// Starts a proxy to a server.
    pub async fn start(to: SocketAddr, rate: FaultRate) -> Result<Self, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        Self::behind(
            listener.map_err(Failure::cannot("listen for a proxy"))?,
            to,
            rate,
        )
    }

    /// The same at a socket that listens already, such as one of another network namespace.
    pub fn behind(listener: TcpListener, to: SocketAddr, rate: FaultRate) -> Result<Self, Failure> {
        let address = listener.local_addr();
        let address = address.map_err(Failure::cannot("ask for the address of a proxy"))?;
        let plan = Arc::new(Plan {
            to,
            seed: rate.seed,
            chance: Mutex::new(Chance {
                rng: Rng::with_seed(rate.seed),
                one_of: rate.of,
                ..Chance::default()
            }),
            forwarded: Notify::new(),
        });
        let shared = Arc::clone(&plan);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let plan = Arc::clone(&shared);
                plan.chance(|chance| chance.connections.opened());
                tokio::spawn(async move {
                    plan.serve(client).await;
                    plan.chance(|chance| chance.connections.open -= 1);
                });
            }
        });
        Ok(Self {
            address,
            plan,
            _accepting: AbortOnDropHandle::new(accepting),
        })
    }

    /// The address of the proxy.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on requests pass unharmed.
    pub fn mend(&self) {
        self.plan.chance(|chance| {
            chance.one_of = 0;
            chance.forced.clear();
        });
    }

    /// The next request meets this fault.
    pub fn force(&self, fault: Fault) {
        self.plan.chance(|chance| chance.forced.insert(0, fault));
    }

    /// How many requests the server answered without the client hearing of it: `POST /api/sessions`.
    pub fn unheard(&self, request: &str) -> usize {
        self.plan
            .chance(|chance| chance.unheard.get(request).copied().unwrap_or(0))
    }

    /// How often the server answered a request, the client having heard of it or not.
    pub fn answered(&self, request: &str) -> usize {
        self.plan
            .chance(|chance| chance.answered.get(request).copied().unwrap_or(0))
    }

    /// The connections of its clients.
    pub fn connections(&self) -> Connections {
        self.plan.chance(|chance| chance.connections)
    }

    /// How often each fault happened.
    pub fn done(&self) -> BTreeMap<Fault, usize> {
        self.plan.chance(|chance| chance.done.clone())
    }
}

impl fmt::Display for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {:?}", self.plan.seed, self.done())
    }
}

impl Plan {
    fn chance<R>(&self, change: impl FnOnce(&mut Chance) -> R) -> R {
        let mut chance = lock(&self.chance);
        change(&mut chance)
    }

    /// One connection, until either end closes it or a fault does.
    async fn serve(&self, mut client: TcpStream) {
        loop {
            // Only then is there a request to refuse: an idle connection of a pool is left alone, and a closed one is no request.
            if !matches!(client.peek(&mut [0]).await, Ok(1)) {
                return;
            }
            let fault = self.chance(Chance::next);
            if fault == Some(Fault::Refuse) {
                return;
            }
            let Some(request) = read(&mut client).await else {
                return;
            };
            let Outcome { answer, unheard } = self.answer(fault, &request).await;
            let is_cut = fault == Some(Fault::Truncate);
            let bytes = answer.as_ref().map(|answer| match is_cut {
                true => answer.half(),
                false => answer.bytes(),
            });
            let is_sent = match bytes {
                Some(bytes) => client.write_all(bytes).await.is_ok(),
                None => false,
            };
            let lost = usize::from(answer.is_some() && (is_cut || !is_sent));
            if unheard + lost > 0 {
                let line = request.target();
                self.chance(|chance| *chance.unheard.entry(line).or_default() += unheard + lost);
            }
            if is_cut || !is_sent || request.is_last() {
                return;
            }
        }
    }

    /// Does to a request what a fault says.
    async fn answer(&self, fault: Option<Fault>, request: &Message) -> Outcome {
        let none = || Outcome::of(None, &[]);
        match fault {
            Some(Fault::DropBefore | Fault::Refuse) => none(),
            Some(Fault::DropAfter) => Outcome::of(None, &[self.forward(request).await]),
            Some(Fault::Delay) => {
                sleep(self.chance(Chance::delay)).await;
                Outcome::of(self.forward(request).await, &[])
            }
            Some(Fault::DuplicateAnsweredLast) => {
                let first = self.forward(request).await;
                Outcome::of(self.forward(request).await, &[first])
            }
            Some(Fault::DuplicateAnsweredFirst) => {
                let first = self.forward(request).await;
                Outcome::of(first, &[self.forward(request).await])
            }
            Some(Fault::Reorder) => {
                let _ = timeout(OVERTAKEN_WITHIN, self.forwarded.notified()).await;
                Outcome::of(self.forward(request).await, &[])
            }
            Some(Fault::Busy) => Outcome::of(Some(Message::of(BUSY)), &[]),
            Some(Fault::TooMany) => Outcome::of(Some(Message::of(TOO_MANY)), &[]),
            Some(Fault::BrokenAfter) => {
                let done = self.forward(request).await;
                Outcome::of(Some(Message::of(BROKEN)), &[done])
            }
            Some(Fault::Truncate) | None => Outcome::of(self.forward(request).await, &[]),
        }
    }

    /// Each over a connection of its own.
    async fn forward(&self, request: &Message) -> Option<Message> {
        let mut server = TcpStream::connect(self.to).await.ok()?;
        server.write_all(request.bytes()).await.ok()?;
        let answer = read(&mut server).await;
        if answer.is_some() {
            let line = request.target();
            self.chance(|chance| *chance.answered.entry(line).or_default() += 1);
        }
        self.forwarded.notify_waiters();
        answer
    }
}

/// What arrives of a request, and how many answers to it do not.
struct Outcome {
    answer: Option<Message>,
    unheard: usize,
}

impl Outcome {
    fn of(answer: Option<Message>, dropped: &[Option<Message>]) -> Self {
        let unheard = dropped.iter().flatten().count();
        Self { answer, unheard }
    }
}

impl Chance {
    fn next(&mut self) -> Option<Fault> {
        let is_unlucky = self.one_of > 0 && self.rng.usize(..self.one_of) == 0;
        let fault = match self.forced.pop() {
            Some(fault) => fault,
            None if is_unlucky => *FAULTS.get(self.rng.usize(..FAULTS.len()))?,
            None => return None,
        };
        *self.done.entry(fault).or_default() += 1;
        Some(fault)
    }

    fn delay(&mut self) -> Duration {
        LONGEST_DELAY.mul_f64(self.rng.f64())
    }
}

#[cfg(test)]
mod tests;
