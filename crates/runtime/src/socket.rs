//! Names of sockets: which two ends are one connection, and which listener a connection goes to.
//!
//! A connection has one channel for each direction, named by the addresses of both ends in that order: what one end
//! calls its output, the other one calls its input. Connections to a named unix socket have one name on one side and
//! none on the other, so all of one listener's share two channels: a wait for one of them that ends while
//! a thread uses another one counts as a wait for a thread.
//!
//! Not here: datagrams without a fixed peer, and connections between two different addresses of this
//! machine unless one of them is a loopback address. They are the world.

use crate::sys;
use core::ffi::c_int;
use wire::Nanos;
use wire::arrivals::Kind;
use wire::channel::Key;

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// What a socket is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// An end of a connection within this machine.
    Connected { input: Key, output: Key },
    /// Connections wait here to be accepted.
    Listening(Key),
    /// It may yet become either.
    Unconnected,
    /// Its other end is out of sight.
    World,
}

const SO_TYPE: i64 = 3;
const SO_ACCEPTCONN: i64 = 30;
const SOCK_STREAM: i32 = 1;
const SOCK_DGRAM: i32 = 2;
const SOCK_SEQPACKET: i32 = 5;

/// What arrivals at a socket come by, and its own address. A few system calls. Whether the program has made a connection itself is
/// not to be seen.
pub fn kind(fd: c_int) -> Option<(Kind, Option<Name>)> {
    let name = name(fd, false)?;
    let kind = match sys::socket_option(fd, SO_TYPE)? {
        SOCK_DGRAM => Kind::Datagrams,
        SOCK_STREAM | SOCK_SEQPACKET if sys::socket_option(fd, SO_ACCEPTCONN) == Some(1) => Kind::Listener,
        SOCK_STREAM | SOCK_SEQPACKET => Kind::Accepted,
        _ => return None,
    };
    Some((kind, name))
}

/// The address of a socket, or of the other end (`peer`); `None` if there is no such address, and inside if it is not of a known family.
fn name(fd: c_int, peer: bool) -> Option<Option<Name>> {
    sys::socket_name(fd, peer).map(|(name, length)| Name::new(&name[..length]))
}

/// What tells a TCP connection within this machine apart from all others: the direction from the end that has made it, as that end sees it. `here`: the address of `fd`;
/// `to`: that of the other end, while the connection is still being made.
pub fn made_by(fd: c_int, here: Option<Name>, to: Option<Name>) -> Option<u64> {
    tcp_directions(fd, here, to).map(|[_, output]| Key::mixed(output))
}

/// The same, as the end sees it that has accepted. The end that has made the connection sees another number in this way.
pub fn accepted_as(fd: c_int, here: Option<Name>) -> Option<u64> {
    tcp_directions(fd, here, None).map(|[input, _]| Key::mixed(input))
}

fn tcp_directions(fd: c_int, here: Option<Name>, asked_for: Option<Name>) -> Option<[[u64; 2]; 2]> {
    let there = name(fd, true).unwrap_or(asked_for);
    let is_tcp = |name| matches!(name, Some(Name::Inet { .. }));
    directions(here, there).filter(|_| is_tcp(here) && is_tcp(there))
}

/// The process that has connected to a unix socket from which `fd` was accepted.
pub fn connected_by(fd: c_int) -> Option<u32> {
    /// Its result is a `struct ucred`, which begins with the process.
    const SO_PEERCRED: i64 = 17;
    sys::socket_option(fd, SO_PEERCRED).and_then(|process| u32::try_from(process).ok())
}

/// How long ago data last came to a TCP socket, as exactly as the kernel's tick.
pub fn last_received(fd: c_int) -> Option<Nanos> {
    /// `tcpi_last_data_recv` of `struct tcp_info`, in milliseconds, by its place among the words of four bytes.
    const LAST_DATA_RECV: usize = 13;
    let info = sys::tcp_info(fd)?;
    Some(Nanos(u64::from(info[LAST_DATA_RECV]) * 1_000_000))
}

/// Whether there is something to be read from a descriptor, or an `epoll` instance has an event.
pub fn is_ready(fd: c_int) -> bool {
    const POLLIN: u16 = 1;
    sys::is_ready(fd, POLLIN)
}

/// How long ago the datagram came that was read last. The kernel stamps them once it has been asked for it.
pub fn last_stamp(fd: c_int) -> Option<Nanos> {
    const CLOCK_REALTIME: i64 = 0;
    let stamp = sys::datagram_stamp(fd)?;
    Some(sys::clock(CLOCK_REALTIME).saturating_sub(stamp))
}

/// Looks at a socket. A few system calls.
pub fn look(fd: c_int) -> Socket {
    let Some((name, length)) = sys::socket_name(fd, false) else { return Socket::World };
    let here = Name::new(&name[..length]);
    if let Some((name, length)) = sys::socket_name(fd, true) {
        let there = Name::new(&name[..length]);
        return connection(here, there)
            .map_or(Socket::World, |[input, output]| Socket::Connected { input, output });
    }
    let takes_connections = matches!(sys::socket_option(fd, SO_TYPE), Some(SOCK_STREAM | SOCK_SEQPACKET));
    match here {
        Some(here) if sys::socket_option(fd, SO_ACCEPTCONN) == Some(1) => Socket::Listening(here.listener()),
        Some(_) if takes_connections => Socket::Unconnected,
        _ => Socket::World,
    }
}

/// The address of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// An address in the form of IPv6, and a port.
    Inet { address: u128, port: u16 },
    /// A hash of a path or an abstract name.
    Unix(u64),
    /// A unix socket that was never bound.
    Unnamed,
}

impl Name {
    /// From the bytes of a `sockaddr`; `None` for other families.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let (family, rest) = bytes.split_first_chunk()?;
        match u16::from_ne_bytes(*family) {
            AF_UNIX => Some(Self::unix(rest)),
            AF_INET => {
                let (port, rest) = rest.split_first_chunk()?;
                let address = u128::from(u32::from_be_bytes(*rest.first_chunk()?));
                Some(Self::Inet { address: MAPPED | address, port: u16::from_be_bytes(*port) })
            }
            AF_INET6 => {
                let (port, rest) = rest.split_first_chunk()?;
                let address = u128::from_be_bytes(*rest.get(4..)?.first_chunk()?);
                Some(Self::Inet { address, port: u16::from_be_bytes(*port) })
            }
            _ => None,
        }
    }

    /// A path ends with NUL or with the address; an abstract name begins with NUL.
    fn unix(name: &[u8]) -> Self {
        let name = match name {
            [] => return Self::Unnamed,
            [0, ..] => name,
            path => path.split(|&byte| byte == 0).next().unwrap_or(path),
        };
        Self::Unix(name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    /// The channel on which connections to this name arrive. Of an address only the port counts: listeners
    /// mostly listen on all.
    pub const fn listener(self) -> Key {
        const LISTENER: u64 = 1 << 63;
        Key::of_listener([LISTENER, self.hash(false)])
    }

    const fn hash(self, with_address: bool) -> u64 {
        match self {
            Self::Inet { address, port } => {
                let address = if with_address { address as u64 ^ (address >> 64) as u64 } else { 0 };
                address.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ port as u64
            }
            Self::Unix(hash) => hash,
            Self::Unnamed => 0,
        }
    }

    /// The port, or zero.
    pub const fn port(self) -> u16 {
        match self {
            Self::Inet { port, .. } => port,
            _ => 0,
        }
    }

    const fn is_loopback(self) -> bool {
        matches!(self, Self::Inet { address, .. } if address == 1 || address >> 24 == (MAPPED | 127 << 24) >> 24)
    }
}

/// `::ffff:0.0.0.0`: addresses of IPv4 in the form of IPv6.
const MAPPED: u128 = 0xffff << 32;

/// The channels of a connection: its input and its output.
fn connection(here: Option<Name>, there: Option<Name>) -> Option<[Key; 2]> {
    directions(here, there).map(|directions| directions.map(Key::hashed))
}

/// What the input and the output of a connection are told apart by, if its other end is in this machine and has a name or meets one.
fn directions(here: Option<Name>, there: Option<Name>) -> Option<[[u64; 2]; 2]> {
    let (here, there) = (here?, there?);
    let is_local = match (here, there) {
        (Name::Inet { address: a, .. }, Name::Inet { address: b, .. }) => {
            a == b || here.is_loopback() || there.is_loopback()
        }
        // Pairs of sockets, which are known from their making.
        (Name::Unnamed, Name::Unnamed) => false,
        _ => true,
    };
    let [here, there] = [here, there].map(|end| end.hash(true));
    is_local.then_some([[there, here], [here, there]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    fn inet(address: [u8; 4], port: u16) -> Option<Name> {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&AF_INET.to_ne_bytes());
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        bytes[4..8].copy_from_slice(&address);
        Name::new(&bytes)
    }

    fn inet6(address: u128, port: u16) -> Option<Name> {
        let mut bytes = [0; 28];
        bytes[..2].copy_from_slice(&AF_INET6.to_ne_bytes());
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        bytes[8..24].copy_from_slice(&address.to_be_bytes());
        Name::new(&bytes)
    }

    fn unix(name: &[u8]) -> Option<Name> {
        let mut bytes = [0; 110];
        bytes[..2].copy_from_slice(&AF_UNIX.to_ne_bytes());
        bytes[2..2 + name.len()].copy_from_slice(name);
        Name::new(&bytes[..2 + name.len()])
    }

    const LOCALHOST: [u8; 4] = [127, 0, 0, 1];
    const OWN: [u8; 4] = [10, 1, 2, 3];

    #[test]
    fn the_output_of_one_end_is_the_input_of_the_other() {
        for (a, b) in [
            (inet(LOCALHOST, 4000), inet(LOCALHOST, 80)),
            (inet(LOCALHOST, 4000), inet([127, 0, 0, 2], 80)),
            (inet(OWN, 4000), inet(OWN, 80)),
            (inet6(1, 4000), inet6(1, 80)),
            (unix(b"/run/a.sock\0"), unix(b"")),
            (unix(b"\0name"), unix(b"")),
            (unix(b"/run/a.sock\0"), unix(b"/run/client\0")),
        ] {
            let ([a_in, a_out], [b_in, b_out]) = (connection(a, b).unwrap(), connection(b, a).unwrap());
            assert_eq!((a_in, a_out), (b_out, b_in), "{a:?} {b:?}");
            assert_ne!(a_in, a_out, "{a:?} {b:?}");
        }
    }

    #[test]
    fn who_accepts_a_connection_knows_it_by_the_name_that_its_maker_gave_it() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let here = |end: &TcpStream| name(end.as_raw_fd(), false).unwrap();
        let ends = || {
            let client = TcpStream::connect(to).unwrap();
            let server = listener.accept().unwrap().0;
            [client, server]
        };
        let made = |end: &TcpStream| made_by(end.as_raw_fd(), here(end), None);
        let accepted = |end: &TcpStream| accepted_as(end.as_raw_fd(), here(end));
        let [[a, b], [c, d]] = [ends(), ends()];
        assert!(made(&a).is_some() && made(&a) == accepted(&b) && made(&c) == accepted(&d));
        assert_ne!(made(&a), made(&c));
        // A copy of the end that has made it is no end that has accepted it.
        assert_ne!(accepted(&a), made(&a));
        let own = inet(LOCALHOST, a.local_addr().unwrap().port());
        let asked = made_by(listener.as_raw_fd(), own, inet(LOCALHOST, to.port()));
        assert_eq!(made(&a), asked, "not made yet");
    }

    #[test]
    fn a_unix_socket_tells_who_has_connected_to_it() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(connected_by(one.as_raw_fd()), Some(std::process::id()));
        assert_eq!(accepted_as(one.as_raw_fd(), Some(Name::Unnamed)), None);
    }

    #[test]
    fn mapped_addresses_are_those_they_stand_for() {
        assert_eq!(inet(LOCALHOST, 80), inet6(0xffff_7f00_0001, 80));
        assert_ne!(inet(LOCALHOST, 80), inet(LOCALHOST, 81));
    }

    #[test]
    fn other_machines_and_unknown_families_are_the_world() {
        assert_eq!(connection(inet(OWN, 4000), inet([10, 1, 2, 4], 80)), None);
        assert_eq!(connection(unix(b""), unix(b"")), None);
        assert_eq!(Name::new(&16_u16.to_ne_bytes()), None);
        assert_eq!(Name::new(&[]), None);
        assert_eq!(Name::new(&AF_INET.to_ne_bytes()), None);
    }

    #[test]
    fn a_listener_is_found_by_any_address_and_form_of_its_name() {
        let listener = |name: Option<Name>| name.unwrap().listener();
        assert_eq!(listener(inet([0; 4], 80)), listener(inet(LOCALHOST, 80)));
        assert_eq!(listener(inet6(0, 80)), listener(inet(OWN, 80)));
        assert_eq!(listener(unix(b"/run/a\0")), listener(unix(b"/run/a")));
        assert_ne!(listener(unix(b"\0a")), listener(unix(b"a")));
        assert_ne!(listener(inet(LOCALHOST, 80)), listener(inet(LOCALHOST, 81)));
    }
}
