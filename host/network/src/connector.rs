//! The connections of one grant: its hosts in turn, its limits, and one attempt of a request.

use crate::address::{AddressRules, CheckedResolver, NotAllowed};
use crate::error::{SendError, cause};
use crate::tls;
use crate::usage::Usage;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use ipnet::IpNet;
use reqwest::{Client, Proxy, Url, redirect};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout_at};
use wasmount_core::document::network::{Host, HostName, NetworkGrant, Protocol, RateLimit, Scheme};
use wasmount_core::mutex::lock;
use wasmount_core::secrets::Secrets;
use wasmount_core::text::{chain, found_in};
use zeroize::Zeroizing;

/// Most header bytes of an answer with HTTP/2, and headers with HTTP/1: what servers such as nginx accept themselves.
const HEADERS_BYTES: u32 = 64 << 10;
const HEADERS_MAX: usize = 128;
/// Tokens that count as secrets after newer ones replaced them: those of requests under way.
const TOKENS_MAX: usize = 8;

/// A request without its host.
#[derive(Clone)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The only host to send it to; none: those of the grant.
    pub(crate) host: Option<Host>,
}

/// An answer as a whole.
#[derive(Debug, Clone)]
pub struct Response {
    /// Status, version and headers.
    pub parts: http::response::Parts,
    /// Its body.
    pub body: Bytes,
    /// What follows the body.
    pub trailers: HeaderMap,
    /// An earlier attempt of the request may have been executed, whatever this answer says.
    pub after_unknown: bool,
}

/// The connections of one grant.
pub(crate) struct Connector {
    pub(crate) name: String,
    pub(crate) grant: NetworkGrant,
    client: Client,
    addresses: Arc<AddressRules>,
    /// The host of the last connection.
    current: AtomicUsize,
    in_flight: Semaphore,
    schedule: Option<Schedule>,
    usage: Mutex<Usage>,
    tokens: Mutex<VecDeque<Zeroizing<String>>>,
}

/// When requests may be sent, by rate and burst: the generic cell rate algorithm (ITU-T I.371).
struct Schedule {
    interval: Duration,
    tolerance: Duration,
    next: Mutex<Instant>,
}

impl Schedule {
    fn of(rate: RateLimit) -> Self {
        let interval = Duration::from_secs(1) / rate.per_second.max(1);
        Self {
            interval,
            tolerance: interval.saturating_mul(rate.burst.saturating_sub(1)),
            next: Mutex::new(Instant::now()),
        }
    }

    /// Takes the next time at which a request may be sent, unless that is too late.
    fn take(&self, now: Instant, latest: Instant) -> Option<Instant> {
        let mut next = lock(&self.next);
        let due = (*next).max(now);
        let start = due.checked_sub(self.tolerance).unwrap_or(now).max(now);
        if start > latest {
            return None;
        }
        *next = due + self.interval;
        Some(start)
    }
}

impl Connector {
    pub(crate) fn new(
        name: &str,
        grant: &NetworkGrant,
        secrets: &Secrets,
        cluster: &Arc<[IpNet]>,
    ) -> Result<Self, String> {
        let addresses = Arc::new(AddressRules::of(grant, cluster));
        let mut builder = Client::builder()
            .connect_timeout(grant.timeouts.connect)
            .pool_idle_timeout(grant.timeouts.idle)
            .pool_max_idle_per_host(grant.rate.in_flight)
            .http1_max_headers(HEADERS_MAX)
            .http2_max_header_list_size(HEADERS_BYTES)
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .dns_resolver(CheckedResolver(Arc::clone(&addresses)))
            .no_proxy()
            .user_agent(concat!("wasmount/", env!("CARGO_PKG_VERSION")));
        builder = match (grant.protocol, grant.scheme) {
            (Protocol::Auto, Scheme::Https) => builder,
            (Protocol::Auto, Scheme::Http) | (Protocol::Http1, _) => builder.http1_only(),
            (Protocol::Http2, _) => builder.http2_prior_knowledge(),
        };
        let proxy_by_tls = grant
            .proxy
            .as_ref()
            .is_some_and(|proxy| proxy.starts_with("https:"));
        let config = match grant.scheme == Scheme::Https || proxy_by_tls {
            true => tls::client(&grant.tls, grant.protocol, secrets)?,
            // This machine may have no certificates.
            false => tls::trusting_nobody()?,
        };
        builder = builder.tls_backend_preconfigured(config);
        if let Some(proxy) = &grant.proxy {
            let proxy = Proxy::all(proxy).map_err(|error| chain(&error))?;
            builder = builder.proxy(proxy);
        }
        Ok(Self {
            name: name.to_owned(),
            grant: grant.clone(),
            client: builder.build().map_err(|error| chain(&error))?,
            addresses,
            current: AtomicUsize::new(0),
            in_flight: Semaphore::new(grant.rate.in_flight),
            schedule: grant.rate.limit.map(Schedule::of),
            usage: Mutex::default(),
            tokens: Mutex::default(),
        })
    }

    /// Counts a value as a secret from now on.
    pub(crate) fn keep_secret(&self, value: &str) {
        let mut tokens = lock(&self.tokens);
        if tokens.iter().all(|known| known.as_str() != value) {
            tokens.push_back(Zeroizing::new(value.to_owned()));
            if tokens.len() > TOKENS_MAX {
                tokens.pop_front();
            }
        }
    }

    pub(crate) fn tokens(&self) -> Vec<Zeroizing<String>> {
        lock(&self.tokens).iter().cloned().collect()
    }

    /// The host of the last connection.
    pub(crate) fn current(&self) -> Option<&Host> {
        self.grant.hosts.get(self.current.load(Ordering::Relaxed))
    }

    pub(crate) fn usage(&self) -> Usage {
        let free = self.in_flight.available_permits();
        let in_flight = self.grant.rate.in_flight.saturating_sub(free);
        Usage {
            in_flight: u64::try_from(in_flight).unwrap_or(u64::MAX),
            ..lock(&self.usage).clone()
        }
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Usage)) {
        count(&mut lock(&self.usage));
    }

    /// One attempt, at the first host that accepts a connection.
    pub(crate) async fn attempt(
        &self,
        request: &Outgoing,
        deadline: Instant,
    ) -> Result<Response, SendError> {
        let busy = || SendError::Busy {
            grant: self.name.clone(),
        };
        let place = timeout_at(deadline, self.in_flight.acquire()).await;
        let _place = place.map_err(|_| busy())?.map_err(|_| busy())?;
        if let Some(schedule) = &self.schedule {
            let start = schedule.take(Instant::now(), deadline).ok_or_else(busy)?;
            sleep_until(start).await;
        }
        if let Some(host) = &request.host {
            return self.attempt_at(host, request, deadline).await;
        }
        let hosts = &self.grant.hosts;
        let first = self.current.load(Ordering::Relaxed);
        let mut unreachable = None;
        for (index, host) in hosts
            .iter()
            .enumerate()
            .cycle()
            .skip(first)
            .take(hosts.len())
        {
            match self.attempt_at(host, request, deadline).await {
                Err(error) if error.is_unreachable() => unreachable = Some(error),
                outcome => {
                    self.current.store(index, Ordering::Relaxed);
                    return outcome;
                }
            }
        }
        Err(unreachable.unwrap_or_else(|| SendError::NoHost {
            grant: self.name.clone(),
            reason: "its grant names none".to_owned(),
        }))
    }

    async fn attempt_at(
        &self,
        host: &Host,
        request: &Outgoing,
        deadline: Instant,
    ) -> Result<Response, SendError> {
        let shown = shown(host);
        let url = self.url(host, &request.target);
        let url = url.map_err(|reason| SendError::NoHost {
            grant: self.name.clone(),
            reason,
        })?;
        // The resolver checks the addresses of names; with a proxy, the proxy resolves the host, which `hosts` names.
        if let HostName::Address(address) = &host.name {
            let check = self.addresses.check(*address);
            check.map_err(|NotAllowed(address)| SendError::Address {
                host: shown.clone(),
                address,
            })?;
        }
        let mut outgoing = reqwest::Request::new(request.method.clone(), url);
        *outgoing.headers_mut() = request.headers.clone();
        if !request.body.is_empty() {
            *outgoing.body_mut() = Some(request.body.clone().into());
        }
        let late = || SendError::Timeout {
            grant: self.name.clone(),
            sent: true,
        };
        let headers_deadline = deadline.min(Instant::now() + self.grant.timeouts.first_byte);
        let answered = timeout_at(headers_deadline, self.client.execute(outgoing)).await;
        let response = answered
            .map_err(|_| late())?
            .map_err(|error| self.no_answer(&shown, &error))?;
        timeout_at(deadline, self.whole(response))
            .await
            .map_err(|_| late())?
    }

    /// The address of a path and query at a host.
    pub(crate) fn url(&self, host: &Host, target: &str) -> Result<Url, String> {
        let scheme = match self.grant.scheme {
            Scheme::Https => "https",
            Scheme::Http => "http",
        };
        let text = format!("{scheme}://{}{target}", shown(host));
        Url::parse(&text).map_err(|error| error.to_string())
    }

    async fn whole(&self, response: reqwest::Response) -> Result<Response, SendError> {
        let (parts, mut body) = http::Response::from(response).into_parts();
        let limit = self.grant.max_body_bytes;
        let (mut whole, mut trailers) = (BytesMut::new(), HeaderMap::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| SendError::Lost {
                grant: self.name.clone(),
                reason: cause(&error),
            })?;
            match frame.into_data() {
                Ok(data) => {
                    let size = whole.len().saturating_add(data.len());
                    if u64::try_from(size).unwrap_or(u64::MAX) > limit {
                        return Err(SendError::ResponseTooLarge {
                            grant: self.name.clone(),
                            limit,
                        });
                    }
                    whole.extend_from_slice(&data);
                }
                Err(frame) => trailers.extend(frame.into_trailers().unwrap_or_default()),
            }
        }
        Ok(Response {
            parts,
            body: whole.freeze(),
            trailers,
            after_unknown: false,
        })
    }

    fn no_answer(&self, host: &str, error: &reqwest::Error) -> SendError {
        let host = match &self.grant.proxy {
            Some(proxy) => format!("{host} through the proxy {proxy}"),
            None => host.to_owned(),
        };
        if let Some(NotAllowed(address)) = found_in(error) {
            let address = *address;
            return SendError::Address { host, address };
        }
        let reason = cause(error);
        match error {
            _ if !error.is_connect() => SendError::Lost {
                grant: self.name.clone(),
                reason,
            },
            _ if found_in::<rustls::Error>(error).is_some() => SendError::Tls { host, reason },
            _ if error.is_dns() => SendError::Resolve { host, reason },
            _ => SendError::Connect { host, reason },
        }
    }
}

/// A host with its port, as in a URL.
fn shown(host: &Host) -> String {
    let Host { name, port } = host;
    match name {
        HostName::Dns(name) => format!("{name}:{port}"),
        HostName::Address(address) => std::net::SocketAddr::new(*address, *port).to_string(),
        HostName::Range(range) => format!("{range}:{port}"),
        HostName::Suffix(end) => format!("*{end}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_allows_its_burst_and_then_one_each_interval() {
        let schedule = Schedule::of(RateLimit {
            per_second: 10,
            burst: 3,
        });
        let now = *lock(&schedule.next);
        let latest = now + Duration::from_millis(250);
        let starts: Vec<_> = (0..6).map(|_| schedule.take(now, latest)).collect();
        let after = |milliseconds| Some(now + Duration::from_millis(milliseconds));
        assert_eq!(
            starts,
            [after(0), after(0), after(0), after(100), after(200), None]
        );
        // What was refused took no place.
        let later = now + Duration::from_secs(1);
        assert_eq!(schedule.take(later, later), Some(later));
    }
}
