//! An HTTP/2 server whose every frame a test writes down.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{json, Value};
use svload_engine::wire::http2::frame::{self, flag, kind, Head, HEAD_BYTES, PREFACE};
use svload_engine::wire::http2::hpack::decoder::Decoder;
use svload_engine::wire::http2::hpack::encoder::{self, Literal};
use svload_engine::wire::http2::hpack::TABLE_BYTES;

use super::{share, Server, MS};

/// A request's head.
#[derive(Debug)]
pub struct Asked {
    pub stream: u32,
    pub fields: HashMap<String, String>,
    /// No body follows.
    pub ends: bool,
}

/// One connection from the server's side.
pub struct Peer<S> {
    pub stream: S,
    decoder: Decoder,
    /// Frames that were no requests.
    pub others: Vec<(Head, Vec<u8>)>,
}

impl<S: Read + Write> Peer<S> {
    /// Takes the preface and sends these settings.
    pub fn greet(mut stream: S, settings: &[(u16, u32)]) -> Option<Self> {
        let mut preface = [0; PREFACE.len()];
        stream.read_exact(&mut preface).ok()?;
        assert_eq!(preface, PREFACE);
        stream.write_all(&self::settings(settings)).ok()?;
        Some(Peer {
            stream,
            decoder: Decoder::new(TABLE_BYTES),
            others: Vec::new(),
        })
    }

    /// The next frame; `None` at the end of the connection.
    pub fn frame(&mut self) -> Option<(Head, Vec<u8>)> {
        let mut bytes = [0; HEAD_BYTES];
        self.stream.read_exact(&mut bytes).ok()?;
        let head = Head::parse(&bytes);
        let mut payload = vec![0; head.length];
        self.stream.read_exact(&mut payload).ok()?;
        Some((head, payload))
    }

    /// The next request; what stands before it goes to `others`, settings are acknowledged.
    pub fn request(&mut self) -> Option<Asked> {
        loop {
            let (head, payload) = self.frame()?;
            if head.kind == kind::HEADERS {
                return self.read_head(head, payload);
            }
            if head.kind == kind::SETTINGS && !head.has(flag::ACK) {
                self.send(&frame_of(kind::SETTINGS, flag::ACK, 0, &[]))?;
            }
            self.others.push((head, payload));
        }
    }

    /// A request's head from its first frame on.
    pub fn read_head(&mut self, head: Head, mut block: Vec<u8>) -> Option<Asked> {
        let mut last = head.has(flag::END_HEADERS);
        while !last {
            let (more, payload) = self.frame()?;
            assert_eq!((more.kind, more.stream), (kind::CONTINUATION, head.stream));
            block.extend(payload);
            last = more.has(flag::END_HEADERS);
        }
        let mut fields = HashMap::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.decoder
            .decode(&block, |field| {
                fields.insert(text(field.name), text(field.value));
            })
            .unwrap();
        Some(Asked {
            stream: head.stream,
            fields,
            ends: head.has(flag::END_STREAM),
        })
    }

    pub fn send(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).ok()
    }

    /// Answers 200 with this body.
    pub fn answer(&mut self, stream: u32, body: &str) -> Option<()> {
        self.send(&answer(stream, body))
    }

    /// Reads until the client goes away; returns its frames.
    pub fn drain(&mut self) -> Vec<(Head, Vec<u8>)> {
        let mut frames = Vec::new();
        while let Some(frame) = self.frame() {
            frames.push(frame);
        }
        frames
    }
}

pub fn frame_of(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::head(&mut out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
    out
}

pub fn settings(entries: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (name, value) in entries {
        payload.extend(name.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    frame_of(kind::SETTINGS, 0, 0, &payload)
}

pub fn headers(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        encoder::name(&mut block, Literal::Plain, name);
        encoder::string(&mut block, value.as_bytes());
    }
    frame_of(kind::HEADERS, flag::END_HEADERS | flags, stream, &block)
}

pub fn answer(stream: u32, body: &str) -> Vec<u8> {
    let mut bytes = headers(stream, 0, &[(":status", "200"), ("server", "peer")]);
    bytes.extend(frame_of(
        kind::DATA,
        flag::END_STREAM,
        stream,
        body.as_bytes(),
    ));
    bytes
}

/// A server that gives every connection to `behaviour`, once its settings are out.
pub fn peer(behaviour: impl Fn(Peer<TcpStream>) -> Option<()> + Send + Sync + 'static) -> Server {
    peer_with(&[], behaviour)
}

pub fn peer_with(
    settings: &'static [(u16, u32)],
    behaviour: impl Fn(Peer<TcpStream>) -> Option<()> + Send + Sync + 'static,
) -> Server {
    Server::start(move |stream| {
        stream.set_nodelay(true).unwrap();
        Peer::greet(stream, settings).and_then(&behaviour);
    })
}

/// A server that answers every request with "hello".
pub fn polite(settings: &'static [(u16, u32)]) -> Server {
    peer_with(settings, |mut peer| {
        while let Some(asked) = peer.request() {
            peer.answer(asked.stream, "hello")?;
        }
        None
    })
}

/// A closed loop of `vus` users, `streams` to a connection, that makes `limit` requests.
pub fn share_of(address: SocketAddr, vus: u64, streams: u64, limit: u64) -> Value {
    let mut share = share(address);
    let group = &mut share["groups"][0];
    group["http2"] = json!({"streams": streams});
    group["executor"] = json!({"kind": "constant-vus", "vus": vus, "limit": limit});
    group["stop_offset_ns"] = (10_000 * MS).into();
    group["graceful_stop_ns"] = (10_000 * MS).into();
    share
}

/// A server that answers every request, once its body is here, with the frames that `make` gives for it.
pub fn serving(make: impl Fn(&Asked, &[u8]) -> Vec<u8> + Send + Sync + 'static) -> Server {
    peer(move |peer| serve(peer, &make))
}

/// Answers requests until the client goes away.
pub fn serve<S: Read + Write>(
    mut peer: Peer<S>,
    make: &impl Fn(&Asked, &[u8]) -> Vec<u8>,
) -> Option<()> {
    let mut open: HashMap<u32, (Asked, Vec<u8>)> = HashMap::new();
    loop {
        let (head, payload) = peer.frame()?;
        match head.kind {
            kind::HEADERS => {
                let asked = peer.read_head(head, payload)?;
                open.insert(asked.stream, (asked, Vec::new()));
            }
            kind::DATA => {
                let by = (payload.len() as u32).to_be_bytes();
                open.get_mut(&head.stream)?.1.extend(payload);
                if by != [0; 4] {
                    peer.send(&frame_of(kind::WINDOW_UPDATE, 0, head.stream, &by))?;
                    peer.send(&frame_of(kind::WINDOW_UPDATE, 0, 0, &by))?;
                }
            }
            kind::SETTINGS if !head.has(flag::ACK) => {
                peer.send(&frame_of(kind::SETTINGS, flag::ACK, 0, &[]))?;
                continue;
            }
            _ => continue,
        }
        if head.has(flag::END_STREAM) {
            let (asked, body) = open.remove(&head.stream)?;
            peer.send(&make(&asked, &body))?;
        }
    }
}

/// An answer without a body that leads elsewhere.
pub fn leads_to(stream: u32, status: &str, location: &str) -> Vec<u8> {
    let fields = [(":status", status), ("location", location)];
    headers(stream, flag::END_STREAM, &fields)
}
