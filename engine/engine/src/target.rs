//! Where load may go: the allowed networks, enforced in the one place that calls `connect()`.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::ErrorKind;

/// A network in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    base: u128,
    bits: u32,
    v4: bool,
}

/// The networks a share may connect to.
#[derive(Clone, Debug, Default)]
pub struct Allowed(Vec<Network>);

fn plain(address: IpAddr) -> (u128, bool) {
    match address.to_canonical() {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), true),
        IpAddr::V6(v6) => (u128::from(v6), false),
    }
}

impl Allowed {
    /// Parses CIDR blocks ("127.0.0.0/8", "::1/128"; a bare address is one host). The error is the text that is none.
    pub fn parse<T: AsRef<str>>(blocks: &[T]) -> Result<Self, String> {
        let parse = |block: &str| {
            let (address, bits) = block
                .split_once('/')
                .map_or((block, None), |(a, b)| (a, Some(b)));
            let address: IpAddr = address.parse().ok()?;
            let width = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Some(width), |text| {
                text.parse().ok().filter(|bits| *bits <= width)
            })?;
            let (base, v4) = match address {
                IpAddr::V4(v4) => (u128::from(u32::from(v4)), true),
                IpAddr::V6(v6) => (u128::from(v6), false),
            };
            Some(Network { base, bits, v4 })
        };
        blocks
            .iter()
            .map(|block| parse(block.as_ref()).ok_or_else(|| block.as_ref().to_owned()))
            .collect::<Result<_, _>>()
            .map(Allowed)
    }

    /// Whether a packet may be sent to this address.
    pub fn permits(&self, address: IpAddr) -> bool {
        let (value, v4) = plain(address);
        let width = if v4 { 32 } else { 128 };
        self.0.iter().any(|network| {
            let free = width - network.bits.min(width);
            network.v4 == v4 && (free >= 128 || (network.base ^ value) >> free == 0)
        })
    }
}

/// Starts a non-blocking connection. Nothing else in the engine calls `connect()`.
///
/// Returns the socket and whether the connection stands already; the error kinds are those of sockets and
/// `unauthorised_target`, for which not even a socket is made.
pub fn connect(allowed: &Allowed, address: SocketAddr) -> Result<(Socket, bool), ErrorKind> {
    if !allowed.permits(address.ip()) {
        return Err(ErrorKind::UnauthorisedTarget);
    }
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))
        .map_err(|error| ErrorKind::of_connect(&error))?;
    socket
        .set_tcp_nodelay(true)
        .map_err(|error| ErrorKind::of_connect(&error))?;
    match socket.connect(&address.into()) {
        Ok(()) => Ok((socket, true)),
        Err(error) if in_progress(&error) => Ok((socket, false)),
        Err(error) => Err(ErrorKind::of_connect(&error)),
    }
}

fn in_progress(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_networks_are_permitted() {
        let allowed =
            Allowed::parse(&["127.0.0.0/8", "::1/128", "10.1.2.0/23", "192.0.2.7"]).unwrap();
        for (address, permitted) in [
            ("127.0.0.1", true),
            ("127.255.0.3", true),
            ("128.0.0.1", false),
            ("0.0.0.0", false),
            ("10.1.3.255", true),
            ("10.1.4.0", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("::1", true),
            ("::2", false),
            ("::ffff:127.0.0.1", true),
            ("::ffff:128.0.0.1", false),
            ("::7f00:1", false),
        ] {
            assert_eq!(
                allowed.permits(address.parse().unwrap()),
                permitted,
                "{address}"
            );
        }
        assert!(!Allowed::default().permits("127.0.0.1".parse().unwrap()));
        assert!(Allowed::parse(&["0.0.0.0/0"])
            .unwrap()
            .permits("8.8.8.8".parse().unwrap()));
        assert!(Allowed::parse(&["::/0"])
            .unwrap()
            .permits("::2".parse().unwrap()));
    }

    #[test]
    fn what_is_no_block_is_named() {
        for text in ["127.0.0.0/33", "localhost", "::1/129", "1.2.3/8", ""] {
            assert_eq!(Allowed::parse(&[text]).unwrap_err(), text);
        }
    }

    #[test]
    fn nothing_is_sent_to_other_addresses() {
        let allowed = Allowed::parse(&["10.0.0.0/8"]).unwrap();
        let error = connect(&allowed, "127.0.0.1:9".parse().unwrap()).unwrap_err();
        assert_eq!(error, ErrorKind::UnauthorisedTarget);
    }
}
