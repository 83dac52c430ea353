//! A non-blocking connection, with or without TLS. It moves bytes and names errors; what they mean is decided elsewhere.

use std::io::{self, ErrorKind as IoKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind};
use slab::Slab;

use crate::error::ErrorKind;
use crate::plan::Endpoint;
use crate::sys;
use crate::target::{self, Allowed};

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Connecting,
    Handshaking,
    Ready,
    /// Its last answer is complete; it waits for the server's FIN, so that the server keeps the TIME_WAIT.
    Lingering,
}

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub group: usize,
    pub slot: u32,
}

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// So many bytes; `drained`: the socket is known to hold no more now.
    Data {
        bytes: usize,
        drained: bool,
    },
    Blocked,
    /// The end of the stream; not `clean`: TLS was cut off without its own goodbye.
    End {
        clean: bool,
    },
}

/// A connection.
pub struct Conn {
    /// Of a Unix socket too: what is called on it knows no family.
    stream: TcpStream,
    /// What the session is made of, until the handshake begins: making it costs about 0.1 ms, which is no part of the TCP connect.
    hello: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    tls: Option<Box<ClientConnection>>,
    pub stage: Stage,
    pub owner: Owner,
    /// Number within the share.
    pub id: u32,
    pub token: u64,
    /// Requests written on it so far.
    pub requests: u32,
    /// 0 none, 1 full handshake, 2 resumed.
    pub tls_kind: u8,
    /// The server has closed its side.
    pub hung_up: bool,
    stamped: bool,
    /// The TLS session's last read filled all the room that it had: the socket may hold more.
    filled: bool,
}

impl Conn {
    /// Starts to connect, from `source` if that is given. With TLS, `config` is the user's.
    pub fn open(
        allowed: &Allowed,
        endpoint: &Endpoint,
        source: Option<IpAddr>,
        config: Option<Arc<ClientConfig>>,
        owner: Owner,
    ) -> Result<Self, ErrorKind> {
        let (socket, ready) = target::connect(allowed, &endpoint.address, source)?;
        let hello = match (&endpoint.tls, config) {
            (Some(tls), Some(config)) => Some((config, tls.name.clone())),
            _ => None,
        };
        let stage = match (ready, hello.is_some()) {
            (false, _) => Stage::Connecting,
            (true, true) => Stage::Handshaking,
            (true, false) => Stage::Ready,
        };
        Ok(Conn {
            stream: TcpStream::from(socket),
            hello,
            tls: None,
            stage,
            owner,
            id: 0,
            token: 0,
            requests: 0,
            tls_kind: 0,
            hung_up: false,
            stamped: false,
            filled: false,
        })
    }

    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Its end will be a RST, not a FIN: no port rests in TIME_WAIT. A Unix socket has no such end and refuses; nothing is lost.
    pub fn close_by_reset(&self) {
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    pub fn has_tls(&self) -> bool {
        self.tls.is_some() || self.hello.is_some()
    }

    /// Whether HTTP/2 may be spoken: the handshake chose it, or there was none.
    pub fn speaks_http2(&self) -> bool {
        let chosen = |tls: &ClientConnection| tls.alpn_protocol() == Some(b"h2".as_slice());
        self.tls.as_deref().is_none_or(chosen)
    }

    /// TCP is connected, or why not. To be called when epoll reports the socket; `failed`: with an error.
    pub fn finish_connect(&mut self, failed: bool) -> Result<(), ErrorKind> {
        if failed {
            match self.stream.take_error() {
                Ok(Some(error)) | Err(error) => return Err(ErrorKind::of_connect(&error)),
                Ok(None) => {}
            }
        }
        self.stage = if self.has_tls() {
            Stage::Handshaking
        } else {
            Stage::Ready
        };
        Ok(())
    }

    /// Goes on with the TLS handshake; true once it is complete. The last flight may still wait in the session:
    /// it leaves together with the first request.
    pub fn handshake(&mut self) -> Result<bool, ErrorKind> {
        if let Some((config, name)) = self.hello.take() {
            let session = ClientConnection::new(config, name);
            self.tls = Some(Box::new(
                session.map_err(|error| ErrorKind::of_tls(&error))?,
            ));
        }
        let Some(tls) = &mut self.tls else {
            return Ok(true);
        };
        while tls.is_handshaking() {
            if tls.wants_write() {
                match tls.write_tls(&mut &self.stream) {
                    Ok(_) => continue,
                    Err(error) if error.kind() == IoKind::WouldBlock => {}
                    Err(_) => return Err(ErrorKind::TlsClosed),
                }
            }
            match tls.read_tls(&mut &self.stream) {
                Ok(0) => return Err(ErrorKind::TlsClosed),
                Ok(_) => {}
                Err(error) if error.kind() == IoKind::WouldBlock => return Ok(false),
                Err(_) => return Err(ErrorKind::TlsClosed),
            }
            if let Err(error) = tls.process_new_packets() {
                // Tell the server why, if it will hear it.
                let _ = tls.write_tls(&mut &self.stream);
                return Err(ErrorKind::of_tls(&error));
            }
        }
        self.tls_kind = if tls.handshake_kind() == Some(HandshakeKind::Resumed) {
            2
        } else {
            1
        };
        self.stage = Stage::Ready;
        Ok(true)
    }

    /// Writes `bytes` from `*at` on; true once all have left.
    pub fn write(&mut self, bytes: &[u8], at: &mut usize) -> Result<bool, ErrorKind> {
        match &mut self.tls {
            None => write_all(bytes, at, |rest| (&self.stream).write(rest)),
            // The session takes so much at once; when that has left, it takes more.
            Some(tls) => loop {
                let (before, full) = (*at, tls.wants_write());
                let accepted = write_all(bytes, at, |rest| tls.writer().write(rest))?;
                while tls.wants_write() {
                    match tls.write_tls(&mut &self.stream) {
                        Ok(_) => {}
                        Err(error) if error.kind() == IoKind::WouldBlock => return Ok(false),
                        Err(error) => return Err(ErrorKind::of_write(&error)),
                    }
                }
                if accepted || (*at == before && !full) {
                    return Ok(accepted);
                }
            },
        }
    }

    /// Reads plaintext into `buf`. `lag`: read with the kernel's receive stamp, and set to the delay since it (ns).
    pub fn read(&mut self, buf: &mut [u8], lag: Option<&mut i64>) -> Result<Got, ErrorKind> {
        if self.tls.is_some() {
            return self.read_tls(buf, lag);
        }
        let result = match lag {
            Some(lag) => Stamped(&self.stream, lag).read(buf),
            None => (&self.stream).read(buf),
        };
        match result {
            Ok(0) => Ok(Got::End { clean: true }),
            // A short read has emptied the socket, unless the end of the stream is still to be read.
            Ok(bytes) => Ok(Got::Data {
                bytes,
                drained: bytes < buf.len() && !self.hung_up,
            }),
            Err(error) if error.kind() == IoKind::WouldBlock => Ok(Got::Blocked),
            Err(error) if error.kind() == IoKind::Interrupted => Ok(Got::Data {
                bytes: 0,
                drained: false,
            }),
            Err(error) => Err(ErrorKind::of_read(&error)),
        }
    }

    fn read_tls(&mut self, buf: &mut [u8], mut lag: Option<&mut i64>) -> Result<Got, ErrorKind> {
        let Some(tls) = &mut self.tls else {
            return Ok(Got::Blocked);
        };
        loop {
            match tls.reader().read(buf) {
                Ok(0) => return Ok(Got::End { clean: true }),
                Ok(bytes) => {
                    return Ok(Got::Data {
                        bytes,
                        drained: false,
                    })
                }
                Err(error) if error.kind() == IoKind::UnexpectedEof => {
                    return Ok(Got::End { clean: false })
                }
                Err(_) => {}
            }
            let filled = &mut self.filled;
            let read = match &mut lag {
                Some(lag) => tls.read_tls(&mut Filling(Stamped(&self.stream, lag), filled)),
                None => tls.read_tls(&mut Filling(&self.stream, filled)),
            };
            match read {
                Ok(_) => {}
                Err(error) if error.kind() == IoKind::WouldBlock => return Ok(Got::Blocked),
                Err(error) if error.kind() == IoKind::Interrupted => {}
                Err(error) => return Err(ErrorKind::of_read(&error)),
            }
            tls.process_new_packets()
                .map_err(|error| ErrorKind::of_tls(&error))?;
            if tls.wants_write() {
                // A key update or alert; what can't leave now leaves with the next request.
                let _ = tls.write_tls(&mut &self.stream);
            }
        }
    }

    /// Whether the socket may hold bytes that the TLS session has not read: its reads are shorter than ours.
    pub fn may_hold_more(&self) -> bool {
        self.filled
    }

    /// Whether decrypted bytes wait unread, without asking the kernel.
    pub fn has_leftover(&mut self) -> bool {
        self.tls
            .as_mut()
            .is_some_and(|tls| matches!(tls.reader().read(&mut [0]), Ok(1..)))
    }

    /// Asks the kernel for receive stamps, once.
    pub fn stamp_receives(&mut self) {
        if !self.stamped {
            self.stamped = true;
            let _ = sys::stamp_receives(self.stream.as_fd());
        }
    }

    /// Says goodbye in TLS; TCP's FIN follows when the connection is dropped.
    pub fn say_goodbye(&mut self) {
        if let (Some(tls), Stage::Ready) = (&mut self.tls, self.stage) {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut &self.stream);
        }
    }
}

/// Reads with the kernel's receive stamp and keeps the delay since the last one (ns).
struct Stamped<'a>(&'a TcpStream, &'a mut i64);

impl Read for Stamped<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let (bytes, stamp) = sys::receive_stamped(self.0.as_fd(), buf)?;
        if let Some(stamp) = stamp {
            *self.1 = (sys::realtime_ns() - stamp).max(0);
        }
        Ok(bytes)
    }
}

/// Reads, and notes whether all the room that was given is filled.
struct Filling<'a, R>(R, &'a mut bool);

impl<R: Read> Read for Filling<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        *self.1 = false;
        let bytes = self.0.read(buf)?;
        *self.1 = bytes == buf.len();
        Ok(bytes)
    }
}

fn write_all(
    bytes: &[u8],
    at: &mut usize,
    mut write: impl FnMut(&[u8]) -> io::Result<usize>,
) -> Result<bool, ErrorKind> {
    while *at < bytes.len() {
        match write(&bytes[*at..]) {
            Ok(0) => return Ok(false),
            Ok(written) => *at += written,
            Err(error) if error.kind() == IoKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == IoKind::Interrupted => {}
            Err(error) => return Err(ErrorKind::of_write(&error)),
        }
    }
    Ok(true)
}

/// Key of a connection in its thread.
pub type ConnKey = usize;

/// The connections of a thread. A token names one connection for ever, so that an event that comes late meets nobody else.
pub struct Conns {
    slab: Slab<Conn>,
    opened: u64,
    /// Connections that were given a source address.
    sourced: usize,
    thread: usize,
    threads: usize,
}

impl Conns {
    pub fn new(thread: usize, threads: usize) -> Self {
        Conns {
            slab: Slab::new(),
            opened: 0,
            sourced: 0,
            thread,
            threads,
        }
    }

    /// Keeps a connection; gives it its number and token.
    pub fn insert(&mut self, mut conn: Conn) -> ConnKey {
        self.opened += 1;
        conn.id = (self.opened.wrapping_mul(self.threads as u64) + self.thread as u64) as u32;
        let entry = self.slab.vacant_entry();
        let key = entry.key();
        conn.token = (self.opened << 32) | key as u64;
        entry.insert(conn);
        key
    }

    /// Where the next connection of this thread leaves from, of `sources` in turn; threads begin at different ones.
    pub fn next_source(&mut self, sources: &[IpAddr]) -> Option<IpAddr> {
        if sources.is_empty() {
            return None;
        }
        self.sourced += 1;
        Some(sources[(self.sourced + self.thread) % sources.len()])
    }

    /// The connection that an event's token names, if it still exists.
    pub fn find(&self, token: u64) -> Option<ConnKey> {
        let key = (token & 0xffff_ffff) as usize;
        self.slab
            .get(key)
            .filter(|conn| conn.token == token)
            .map(|_| key)
    }

    pub fn get(&self, key: ConnKey) -> Option<&Conn> {
        self.slab.get(key)
    }

    pub fn get_mut(&mut self, key: ConnKey) -> Option<&mut Conn> {
        self.slab.get_mut(key)
    }

    /// Closes a connection.
    pub fn close(&mut self, key: ConnKey) {
        if let Some(mut conn) = self.slab.try_remove(key) {
            conn.say_goodbye();
        }
    }
}
