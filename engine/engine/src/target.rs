//! Where load may go: the allowed networks and sockets, enforced in the one place that calls `connect()`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::error::ErrorKind;
use crate::sys;

/// A network in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    base: u128,
    bits: u32,
    v4: bool,
}

/// How a share writes the path of a Unix socket.
const UNIX: &str = "unix:";

/// Somewhere to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Inet(SocketAddr),
    /// A Unix stream socket by its path.
    Unix(PathBuf),
}

impl Address {
    /// Parses `ip:port`, or `unix:` and an absolute path.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix(UNIX) {
            Some(path) if path.starts_with('/') => Some(Address::Unix(path.into())),
            Some(_) => None,
            None => text.parse().ok().map(Address::Inet),
        }
    }
}

/// The networks and sockets a share may connect to.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    networks: Vec<Network>,
    sockets: Vec<PathBuf>,
}

fn plain(address: IpAddr) -> (u128, bool) {
    match address.to_canonical() {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), true),
        IpAddr::V6(v6) => (u128::from(v6), false),
    }
}

impl Allowed {
    /// Parses CIDR blocks ("127.0.0.0/8", "::1/128"; a bare address is one host) and Unix sockets ("unix:/path").
    /// The error is the text that is neither.
    pub fn parse<T: AsRef<str>>(entries: &[T]) -> Result<Self, String> {
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
        let mut allowed = Allowed::default();
        for entry in entries {
            let entry: &str = entry.as_ref();
            match (entry.strip_prefix(UNIX).map(Path::new), parse(entry)) {
                (Some(path), _) if path.is_absolute() => allowed.sockets.push(path.to_owned()),
                (None, Some(network)) => allowed.networks.push(network),
                _ => return Err(entry.to_owned()),
            }
        }
        Ok(allowed)
    }

    /// Whether this address may be connected to: a Unix socket only by the very path that is listed.
    pub fn permits(&self, address: &Address) -> bool {
        match address {
            Address::Inet(address) => self.permits_ip(address.ip()),
            Address::Unix(path) => self.sockets.contains(path),
        }
    }

    /// Whether a packet may be sent to this address.
    pub fn permits_ip(&self, address: IpAddr) -> bool {
        let (value, v4) = plain(address);
        let width = if v4 { 32 } else { 128 };
        self.networks.iter().any(|network| {
            let free = width - network.bits.min(width);
            network.v4 == v4 && (free >= 128 || (network.base ^ value) >> free == 0)
        })
    }
}

/// Starts a non-blocking connection, from `source` where it is of the address's family. Nothing else in the engine calls
/// `connect()`.
///
/// Returns the socket and whether the connection stands already; the error kinds are those of sockets and
/// `unauthorised_target`, for which not even a socket is made.
pub fn connect(
    allowed: &Allowed,
    address: &Address,
    source: Option<IpAddr>,
) -> Result<(Socket, bool), ErrorKind> {
    if !allowed.permits(address) {
        return Err(ErrorKind::UnauthorisedTarget);
    }
    match try_connect(address, source) {
        Ok((socket, None)) => Ok((socket, true)),
        Ok((socket, Some(error))) if in_progress(&error) => Ok((socket, false)),
        Ok((_, Some(error))) | Err(error) => Err(ErrorKind::of_connect(&error)),
    }
}

/// The socket, and what `connect()` had to say but success.
fn try_connect(
    address: &Address,
    source: Option<IpAddr>,
) -> io::Result<(Socket, Option<io::Error>)> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let (socket, to) = match address {
        Address::Inet(address) => {
            let domain = Domain::for_address(*address);
            let socket = Socket::new(domain, kind, Some(Protocol::TCP))?;
            socket.set_tcp_nodelay(true)?;
            if let Some(source) = source.filter(|source| source.is_ipv4() == address.is_ipv4()) {
                bind_source(&socket, source)?;
            }
            (socket, SockAddr::from(*address))
        }
        Address::Unix(path) => (
            Socket::new(Domain::UNIX, kind, None)?,
            SockAddr::unix(path)?,
        ),
    };
    let error = socket.connect(&to).err();
    Ok((socket, error))
}

/// Gives a socket its own address; the port is chosen at `connect()`, so that one port serves several targets.
fn bind_source(socket: &Socket, source: IpAddr) -> io::Result<()> {
    sys::choose_port_late(socket.as_fd())?;
    socket.bind(&SocketAddr::new(source, 0).into())
}

/// Whether this machine has an address, or why not.
pub fn check_source(source: IpAddr) -> io::Result<()> {
    let domain = Domain::for_address(SocketAddr::new(source, 0));
    bind_source(
        &Socket::new(domain, Type::STREAM.cloexec(), Some(Protocol::TCP))?,
        source,
    )
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
                allowed.permits_ip(address.parse().unwrap()),
                permitted,
                "{address}"
            );
        }
        assert!(!Allowed::default().permits_ip("127.0.0.1".parse().unwrap()));
        assert!(Allowed::parse(&["0.0.0.0/0"])
            .unwrap()
            .permits_ip("8.8.8.8".parse().unwrap()));
        assert!(Allowed::parse(&["::/0"])
            .unwrap()
            .permits_ip("::2".parse().unwrap()));
    }

    #[test]
    fn a_unix_socket_is_permitted_by_its_very_path() {
        let allowed = Allowed::parse(&["127.0.0.0/8", "unix:/run/app.sock"]).unwrap();
        for (address, permitted) in [
            ("unix:/run/app.sock", true),
            ("unix:/run/app.sock/", true),
            ("unix:/run/other.sock", false),
            ("unix:/run/x/../app.sock", false),
            ("127.0.0.1:80", true),
        ] {
            let parsed = Address::parse(address).unwrap();
            assert_eq!(allowed.permits(&parsed), permitted, "{address}");
        }
        assert_eq!(Address::parse("unix:app.sock"), None);
        assert_eq!(Address::parse("localhost:80"), None);
    }

    #[test]
    fn what_is_no_block_is_named() {
        for text in [
            "127.0.0.0/33",
            "localhost",
            "::1/129",
            "1.2.3/8",
            "unix:relative",
            "",
        ] {
            assert_eq!(Allowed::parse(&[text]).unwrap_err(), text);
        }
    }

    #[test]
    fn nothing_is_sent_to_other_addresses() {
        let allowed = Allowed::parse(&["10.0.0.0/8"]).unwrap();
        for address in ["127.0.0.1:9", "unix:/nowhere"] {
            let address = Address::parse(address).unwrap();
            let error = connect(&allowed, &address, None).unwrap_err();
            assert_eq!(error, ErrorKind::UnauthorisedTarget);
        }
    }
}
