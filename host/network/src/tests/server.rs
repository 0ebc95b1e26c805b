//! A server that answers as a test says, and counts connections and requests.

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;
type Answerer = Arc<dyn Fn(&Seen, usize) -> Answer + Send + Sync>;

/// What a server saw of a request.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) line: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// A server; it ends when it is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Seen>>>,
    _tasks: JoinSet<()>,
}

/// A certificate authority and a certificate of `localhost`, in PEM.
pub(super) struct Authority {
    pub(super) ca: String,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        Self {
            ca: issuer.pem(),
            issuer,
        }
    }

    /// A certificate for a name and its key, in PEM.
    pub(super) fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// TLS of a server with that name; `client`: it demands a certificate of this authority.
    pub(super) fn server(&self, name: &str, client: bool) -> (TlsAcceptor, Vec<u8>) {
        use rustls::pki_types::{CertificateDer, pem::PemObject};
        let (certificate, key) = self.issue(name);
        let chain = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let der = chain.to_vec();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match client {
            false => builder.with_no_client_auth(),
            true => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(self.issuer.der().clone()).unwrap();
                let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
                    Arc::new(roots),
                    provider,
                );
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let mut config = builder.with_single_cert(vec![chain], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        (TlsAcceptor::from(Arc::new(config)), der)
    }
}

impl Server {
    /// A server without TLS; `answer` gets each request and its number, from 0 on.
    pub(super) async fn start(
        answer: impl Fn(&Seen, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::with(None, answer).await
    }

    pub(super) async fn with(
        tls: Option<TlsAcceptor>,
        answer: impl Fn(&Seen, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answer: Answerer = Arc::new(answer);
        let mut tasks = JoinSet::new();
        let (counted, noted) = (Arc::clone(&connections), Arc::clone(&seen));
        tasks.spawn(async move {
            let mut served = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let (answer, noted) = (Arc::clone(&answer), Arc::clone(&noted));
                match tls.clone() {
                    None => served.spawn(serve(stream, answer, noted)),
                    Some(tls) => served.spawn(async move {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, answer, noted).await;
                        }
                    }),
                };
            }
        });
        Self {
            address,
            connections,
            seen,
            _tasks: tasks,
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Requests by method and path with query.
    pub(super) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answer: Answerer,
    noted: Arc<Mutex<Vec<Seen>>>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (answer, noted) = (Arc::clone(&answer), Arc::clone(&noted));
        async move {
            let (parts, body) = request.into_parts();
            let target = parts.uri.path_and_query().unwrap().as_str();
            let seen = Seen {
                line: format!("{} {target}", parts.method),
                headers: parts.headers,
                body: body
                    .collect()
                    .await
                    .map(|body| body.to_bytes())
                    .unwrap_or_default(),
            };
            let number = {
                let mut noted = noted.lock().unwrap();
                noted.push(seen.clone());
                noted.len() - 1
            };
            let answered = answer(&seen, number);
            // A test that wants the connection to be cut answers with this status.
            match answered.status() {
                CUT => Err("cut"),
                _ => Ok(answered),
            }
        }
    });
    // An error is what a test wanted.
    let _cut = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// The status of an answer that is not sent: the connection ends instead.
pub(super) const CUT: StatusCode = StatusCode::IM_A_TEAPOT;

pub(super) fn answer(status: u16, body: &str) -> Answer {
    let body = Full::new(Bytes::from(body.to_owned())).boxed();
    Response::builder().status(status).body(body).unwrap()
}

pub(super) fn answer_with(status: u16, header: (&str, &str), body: &str) -> Answer {
    let mut answer = answer(status, body);
    let name: http::HeaderName = header.0.parse().unwrap();
    answer.headers_mut().insert(name, header.1.parse().unwrap());
    answer
}

pub(super) fn cut() -> Answer {
    answer(CUT.as_u16(), "")
}

/// A body in frames, with trailers.
pub(super) fn with_trailers(body: &'static str, name: &'static str, value: &'static str) -> Answer {
    let trailers = HeaderMap::from_iter([(
        http::HeaderName::from_static(name),
        http::HeaderValue::from_static(value),
    )]);
    let frames = [
        Ok(Frame::data(Bytes::from_static(body.as_bytes()))),
        Ok(Frame::trailers(trailers)),
    ];
    let body = StreamBody::new(futures::stream::iter(frames)).boxed();
    Response::new(body)
}

/// A body without end.
pub(super) fn endless() -> Answer {
    let frame = || Ok(Frame::data(Bytes::from_static(&[b'x'; 4096])));
    Response::new(StreamBody::new(futures::stream::repeat_with(frame)).boxed())
}

/// An answer of which the body never begins.
pub(super) fn stalled() -> Answer {
    Response::new(StreamBody::new(futures::stream::pending()).boxed())
}
