//! The hostile peer's side of one connection, and the share that meets it.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{json, Value};

use super::common::{read_head, share, Server, MS};
use super::tls::{self, Certificate};
use super::{Fault, TIMEOUT_NS};

/// What stands before the fault acts.
pub enum Stage {
    /// Each connection is handed over as it was accepted.
    Plain,
    /// A TLS session stands, with this certificate.
    Tls(Certificate),
    /// The client asks for TLS; what it gets is the fault's affair.
    NoTls,
    /// Nobody listens.
    Nobody,
    /// Somebody listens and the queue is full.
    QueueFull,
}

/// How long a silent peer stays.
const HOLD: Duration = Duration::from_secs(10);

/// Where a fault acts.
pub struct Peer<'a> {
    pub tcp: &'a TcpStream,
    stream: BufReader<Box<dyn Both + 'a>>,
}

pub trait Both: Read + Write {}
impl<T: Read + Write> Both for T {}

impl Peer<'_> {
    /// A request's head. `None`: the client has gone.
    pub fn head(&mut self) -> Option<String> {
        read_head(&mut self.stream)
    }

    /// Takes in a request's head. False: the client has gone.
    pub fn asked(&mut self) -> bool {
        self.head().is_some()
    }

    /// Sends what it can; the client may have gone.
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        let stream = self.stream.get_mut();
        stream.write_all(bytes.as_ref()).is_ok() && stream.flush().is_ok()
    }

    /// Sends past TLS.
    pub fn say_raw(&mut self, bytes: &[u8]) -> bool {
        (&mut &*self.tcp).write_all(bytes).is_ok()
    }

    /// Takes in a request, then sends.
    pub fn answer(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.asked() && self.say(bytes)
    }

    /// Takes in so many bytes of a body.
    pub fn take(&mut self, bytes: u64) -> bool {
        let taken = std::io::copy(&mut (&mut self.stream).take(bytes), &mut std::io::sink());
        taken.is_ok_and(|taken| taken == bytes)
    }

    /// Takes in what comes first: under the client's TLS, its hello.
    pub fn hello(&mut self) -> bool {
        (&mut &*self.tcp)
            .read(&mut [0; 4096])
            .is_ok_and(|bytes| bytes > 0)
    }

    /// Says nothing until the client goes or speaks (bounded).
    pub fn stall(&mut self) {
        self.pause(HOLD);
    }

    /// Waits; false if the client goes or speaks.
    pub fn pause(&mut self, time: Duration) -> bool {
        self.tcp.set_read_timeout(Some(time)).unwrap();
        let told = self.tcp.peek(&mut [0]);
        self.tcp.set_read_timeout(None).unwrap();
        told.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Keeps the connection and reads nothing, longer than any request here may take. Nobody waits for this.
    pub fn hold(&mut self) {
        std::thread::park_timeout(HOLD);
    }

    /// Sends a byte a second until the client goes.
    pub fn drip(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if !self.say([*byte]) || !self.pause(Duration::from_secs(1)) {
                return;
            }
        }
    }

    /// Sends the same piece until the client goes or `times` is over.
    pub fn flood(&mut self, piece: &[u8], times: usize) {
        for _ in 0..times {
            if !self.say(piece) {
                return;
            }
        }
    }

    /// Ends the stream, and TLS without a word.
    pub fn end(&mut self) {
        let _ = self.tcp.shutdown(Shutdown::Write);
        // What was not read would turn the end into a reset.
        let _ = std::io::copy(&mut &*self.tcp, &mut std::io::sink());
    }

    /// Resets the connection when it is dropped.
    pub fn reset(&mut self) {
        socket2::SockRef::from(self.tcp)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }
}

/// What keeps the peer alive.
pub struct Alive {
    _queue: Option<(TcpListener, Vec<std::io::Result<TcpStream>>)>,
}

fn serve(tcp: &TcpStream, stream: Box<dyn Both + '_>, act: fn(&mut Peer<'_>)) {
    let stream = BufReader::new(stream);
    act(&mut Peer { tcp, stream });
}

/// Two users with four requests between them, against a peer with this fault.
pub fn prepare(fault: &Fault) -> (Value, Alive) {
    let act = fault.serve;
    let mut alive = Alive { _queue: None };
    let mut tls = Value::Null;
    let address = match &fault.stage {
        Stage::Plain => Server::start(move |tcp| serve(&tcp, Box::new(&tcp), act)).address,
        Stage::NoTls => {
            tls = tls::trust();
            Server::start(move |tcp| serve(&tcp, Box::new(&tcp), act)).address
        }
        Stage::Tls(certificate) => {
            tls = tls::trust();
            secure(tls::server(*certificate), act)
        }
        Stage::Nobody => TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap(),
        Stage::QueueFull => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            socket2::SockRef::from(&listener).listen(0).unwrap();
            let fill = || TcpStream::connect_timeout(&address, Duration::from_millis(50));
            alive._queue = Some((listener, (0..4).map(|_| fill()).collect()));
            address
        }
    };
    (asking(address, tls, fault), alive)
}

fn secure(config: Arc<ServerConfig>, act: fn(&mut Peer<'_>)) -> SocketAddr {
    let server = Server::start(move |tcp| {
        let session = ServerConnection::new(config.clone()).unwrap();
        let stream = StreamOwned::new(session, tcp.try_clone().unwrap());
        serve(&tcp, Box::new(stream), act);
    });
    server.address
}

fn asking(address: SocketAddr, tls: Value, fault: &Fault) -> Value {
    let mut share = share(address);
    let origin = if tls.is_null() {
        "http://cache.test"
    } else {
        "https://cache.test"
    };
    share["endpoints"] = json!({origin: {"address": address.to_string(), "tls": tls}});
    share["window_ns"] = json!([0, 1_000 * MS]);
    let group = &mut share["groups"][0];
    group["stop_offset_ns"] = (5_000 * MS).into();
    group["graceful_stop_ns"] = (5_000 * MS).into();
    group["executor"] = json!({"kind": "constant-vus", "vus": 2, "limit": 4});
    group["request"]["endpoint"] = origin.into();
    group["request"]["timeout_ns"] = TIMEOUT_NS.into();
    (fault.share)(&mut share);
    share
}
