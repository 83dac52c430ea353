//! Listening ports, and who is let in.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::event::epoll::{self, EventFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::clock::now_ns;
use crate::connection::Connection;
use crate::events::Source;
use crate::server::{Alarm, Server};
use crate::wire::Wire;

/// Connections accepted in one go, so that those that are open are not kept waiting.
const ACCEPTS: usize = 64;
/// After the process ran out of descriptors.
const ACCEPT_AGAIN_NS: u64 = 50_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Http,
    Https,
    Admin,
}

#[derive(Debug)]
pub(crate) struct Listener {
    pub socket: TcpListener,
    pub port: Port,
}

impl Server {
    pub(crate) fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS {
            let port = self.listeners[index].port;
            if port != Port::Admin && self.is_full() {
                return self.pause();
            }
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::accept_with(&self.listeners[index].socket, flags) {
                Ok(socket) => self.opened(TcpStream::from(socket), port),
                Err(
                    rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::NOBUFS,
                ) => {
                    self.timers
                        .push(now_ns() + ACCEPT_AGAIN_NS, Alarm::AcceptAgain);
                    return self.pause();
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                Err(_) => return,
            }
        }
    }

    fn opened(&mut self, stream: TcpStream, port: Port) {
        let _ = stream.set_nodelay(true);
        let wire = match (&self.tls, port) {
            (Some(tls), Port::Https) => Wire::tls(stream, tls),
            _ => Ok(Wire::Plain(stream)),
        };
        let Ok(wire) = wire else { return };
        self.next_id += 1;
        let entry = self.connections.vacant_entry();
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let source = Source::Client((entry.key(), self.next_id)).pack();
        if epoll::add(&self.epoll, wire.stream(), source, flags).is_err() {
            return;
        }
        if port != Port::Admin {
            self.counters.opened();
        }
        entry.insert(Connection::new(wire, self.next_id, port == Port::Admin));
    }

    fn is_full(&self) -> bool {
        self.config
            .max_connections
            .is_some_and(|limit| self.counters.connections_open >= limit as u64)
    }

    fn pause(&mut self) {
        if !self.paused {
            self.paused = true;
            self.counters.accept_pauses += 1;
            self.listen_for(EventFlags::empty());
        }
    }

    /// Accepts again if there is room.
    pub(crate) fn resume(&mut self) {
        if self.paused && !self.is_full() {
            self.paused = false;
            self.listen_for(EventFlags::IN);
        }
    }

    fn listen_for(&mut self, flags: EventFlags) {
        for (index, listener) in self
            .listeners
            .iter()
            .enumerate()
            .filter(|(_, l)| l.port != Port::Admin)
        {
            let _ = epoll::modify(
                &self.epoll,
                &listener.socket,
                Source::Listener(index).pack(),
                flags,
            );
        }
    }
}

pub(crate) fn listen(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(TcpListener::from(socket))
}
