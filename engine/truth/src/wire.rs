//! A non-blocking stream, with or without TLS; reads and writes are in application bytes.

use std::io::{self, ErrorKind, IoSlice, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::{HandshakeKind, ServerConfig, ServerConnection};

/// One read pass takes at most about this much, so that no connection keeps the thread.
const PASS_BYTES: usize = 256 * 1024;

/// What a read pass brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadPass {
    pub bytes: usize,
    /// The peer will send no more.
    pub eof: bool,
    /// The kernel had no more; otherwise read again without waiting for an event.
    pub drained: bool,
}

/// What a write pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WritePass {
    /// Application bytes taken.
    pub bytes: usize,
    /// Everything is with the kernel.
    pub complete: bool,
}

/// The stream.
#[derive(Debug)]
pub enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsWire>),
}

/// A TLS stream of the server's side.
#[derive(Debug)]
pub struct TlsWire {
    stream: TcpStream,
    session: ServerConnection,
    handshake_told: bool,
}

impl Wire {
    /// # Errors
    /// rustls could not make a session.
    pub fn tls(stream: TcpStream, config: &Arc<ServerConfig>) -> io::Result<Self> {
        let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(TlsWire {
            stream,
            session,
            handshake_told: false,
        })))
    }

    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(tls) => &tls.stream,
        }
    }

    /// True if a TLS handshake has not been completed.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.session.is_handshaking())
    }

    /// Says once, after it was completed, whether the handshake resumed a session.
    pub fn take_handshake(&mut self) -> Option<bool> {
        let Self::Tls(tls) = self else { return None };
        if tls.handshake_told || tls.session.is_handshaking() {
            return None;
        }
        tls.handshake_told = true;
        Some(tls.session.handshake_kind() == Some(HandshakeKind::Resumed))
    }

    /// Appends what has arrived to `into`. `to_eof`: the peer is known to have closed its side, so read until its end.
    ///
    /// # Errors
    /// The connection is broken, or the peer does not speak TLS.
    pub fn read(
        &mut self,
        scratch: &mut [u8],
        into: &mut Vec<u8>,
        to_eof: bool,
    ) -> io::Result<ReadPass> {
        match self {
            Self::Plain(stream) => read_plain(stream, scratch, into, to_eof),
            Self::Tls(tls) => tls.read(scratch, into),
        }
    }

    /// Writes `head`, then `body`, as far as the kernel takes them.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn write(&mut self, head: &[u8], body: &[u8]) -> io::Result<WritePass> {
        match self {
            Self::Plain(stream) => write_plain(stream, head, body),
            Self::Tls(tls) => tls.write(head, body),
        }
    }

    /// Says to a TLS peer that nothing more comes; errors do not matter any more.
    pub fn say_goodbye(&mut self) {
        if let Self::Tls(tls) = self {
            tls.session.send_close_notify();
            let _ = tls.flush();
        }
    }
}

fn read_plain(
    stream: &mut TcpStream,
    scratch: &mut [u8],
    into: &mut Vec<u8>,
    to_eof: bool,
) -> io::Result<ReadPass> {
    let mut pass = ReadPass {
        bytes: 0,
        eof: false,
        drained: false,
    };
    while pass.bytes < PASS_BYTES {
        match stream.read(scratch) {
            Ok(0) => {
                pass.eof = true;
                pass.drained = true;
                break;
            }
            Ok(n) => {
                into.extend_from_slice(&scratch[..n]);
                pass.bytes += n;
                // a short read has emptied the socket (epoll(7)); a later arrival is a new event
                if n < scratch.len() && !to_eof {
                    pass.drained = true;
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                pass.drained = true;
                break;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(pass)
}

fn write_plain(stream: &mut TcpStream, mut head: &[u8], mut body: &[u8]) -> io::Result<WritePass> {
    let mut pass = WritePass {
        bytes: 0,
        complete: false,
    };
    loop {
        if head.is_empty() && body.is_empty() {
            pass.complete = true;
            return Ok(pass);
        }
        match stream.write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
            Ok(n) => {
                pass.bytes += n;
                let of_head = n.min(head.len());
                head = &head[of_head..];
                body = &body[n - of_head..];
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(pass),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl TlsWire {
    fn read(&mut self, scratch: &mut [u8], into: &mut Vec<u8>) -> io::Result<ReadPass> {
        let mut pass = ReadPass {
            bytes: 0,
            eof: false,
            drained: false,
        };
        while pass.bytes < PASS_BYTES && !pass.drained {
            match self.session.read_tls(&mut self.stream) {
                Ok(0) => {
                    pass.eof = true;
                    pass.drained = true;
                }
                Ok(_) => {
                    if let Err(error) = self.session.process_new_packets() {
                        let _ = self.flush(); // the alert
                        return Err(io::Error::new(ErrorKind::InvalidData, error));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => pass.drained = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            loop {
                match self.session.reader().read(scratch) {
                    Ok(0) => {
                        pass.eof = true; // close_notify
                        pass.drained = true;
                        break;
                    }
                    Ok(n) => {
                        into.extend_from_slice(&scratch[..n]);
                        pass.bytes += n;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                        pass.eof = true; // ended without close_notify
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        self.flush()?;
        Ok(pass)
    }

    fn write(&mut self, mut head: &[u8], mut body: &[u8]) -> io::Result<WritePass> {
        let mut bytes = 0;
        loop {
            let taken = self
                .session
                .writer()
                .write_vectored(&[IoSlice::new(head), IoSlice::new(body)])?;
            bytes += taken;
            let of_head = taken.min(head.len());
            head = &head[of_head..];
            body = &body[taken - of_head..];
            let flushed = self.flush()?;
            let complete = flushed && head.is_empty() && body.is_empty();
            if complete || !flushed {
                return Ok(WritePass { bytes, complete });
            }
            if taken == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
    }

    /// True when nothing is left to send.
    fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
