//! TCP connections between two processes of one network name space, and whose they are.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;

/// No longer list is read to its end: some 100,000 connections.
const MOST_BYTES: u64 = 16 << 20;
/// No more descriptors are looked at to find out whose sockets are.
const MOST_DESCRIPTORS: usize = 100_000;
/// The state of a connection that is there, as the lists have it.
const ESTABLISHED: &str = "01";
/// How IPv6 writes an address of IPv4, as the lists have it.
const MAPPED: &str = "0000000000000000FFFF0000";

/// Connections at certain ports, by where their other ends are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Those that have both ends here: the sockets, by their inodes, and the ones at their other ends. Each is there twice.
    pub here: HashMap<u64, u64>,
    /// How many of the ends at one of the ports have their other end here.
    pub local: usize,
    /// How many have it elsewhere.
    pub remote: usize,
}

impl Connections {
    /// Those that a process can see, at one of these ports at either end.
    #[must_use]
    pub fn of(pid: u32, ports: &HashSet<u16>) -> Self {
        let list = |name| read(&format!("/proc/{pid}/net/{name}"));
        Self::parse(&[list("tcp"), list("tcp6")], ports)
    }

    fn parse(lists: &[String], ports: &HashSet<u16>) -> Self {
        let ends: HashMap<_, _> =
            lists.iter().flat_map(|list| list.lines().skip(1)).filter_map(end).collect();
        let addresses: HashSet<&str> = ends.keys().map(|(own, _)| own.0.as_str()).collect();
        let mut found = Self::default();
        for ((own, other), inode) in &ends {
            let is_at_port = |end: &End| ports.contains(&end.1);
            if !is_at_port(own) && !is_at_port(other) {
                continue;
            }
            // The lists are not of one moment: of a short connection only one end may be in them.
            if addresses.contains(other.0.as_str()) {
                found.local += usize::from(is_at_port(own));
            } else {
                found.remote += 1;
            }
            if let Some(counterpart) = ends.get(&(other.clone(), own.clone())) {
                found.here.insert(*inode, *counterpart);
            }
        }
        found
    }
}

type End = (String, u16);

/// The two ends of a connection that is there, and the inode of the first one's socket, by a line of the list.
fn end(line: &str) -> Option<((End, End), u64)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let mut address = || {
        let (address, port) = words.next()?.split_once(':')?;
        let address = address.strip_prefix(MAPPED).unwrap_or(address);
        Some((address.to_owned(), u16::from_str_radix(port, 16).ok()?))
    };
    let (own, other) = (address()?, address()?);
    let is_there = words.next()? == ESTABLISHED;
    let inode = words.nth(5)?.parse().ok()?;
    is_there.then_some(((own, other), inode))
}

fn read(path: &str) -> String {
    let mut text = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut text));
    read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&text).into_owned())
}

/// The processes that have one of these sockets open, and which, as far as one may look at their descriptors.
#[must_use]
pub fn owners<'a>(sockets: impl IntoIterator<Item = &'a u64>) -> Vec<(u32, u64)> {
    let sockets: HashSet<u64> = sockets.into_iter().copied().collect();
    let socket_at = |path: std::path::PathBuf| {
        let text = std::fs::read_link(path).ok()?;
        let inode = text.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        sockets.contains(&inode).then_some(inode)
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let descriptors = pids.flat_map(|pid| {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        entries.map(move |entry| (pid, entry.path()))
    });
    let found = descriptors.take(MOST_DESCRIPTORS).filter_map(|(pid, path)| Some((pid, socket_at(path)?)));
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_within_the_machine_has_both_ends_here() {
        let listener = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let _server = listener.accept().unwrap();
        let found = Connections::of(std::process::id(), &HashSet::from([port]));
        assert_eq!((found.here.len(), found.local, found.remote), (2, 1, 0), "{found:?}");
        let me = std::process::id();
        assert_eq!(owners(found.here.keys()).iter().filter(|(pid, _)| *pid == me).count(), 2);
        assert_eq!(owners(&[]), []);
    }

    #[test]
    fn ends_elsewhere_are_counted() {
        let list = "sl local rem st tx:rx tr:when retrnsmt uid timeout inode\n\
                    0: 0A00000A:1F90 0B00000A:D431 01 0:0 00:0 0 0 0 11 1\n\
                    1: 0100007F:1F90 0100007F:D432 01 0:0 00:0 0 0 0 12 1\n\
                    2: 0100007F:1F90 0100007F:D433 06 0:0 00:0 0 0 0 13 1\n";
        let six = "sl\n0: 0000000000000000FFFF00000100007F:D432 0000000000000000FFFF00000100007F:1F90 01 0:0 00:0 0 0 0 14 1\n\
                   1: nonsense\n";
        let found = Connections::parse(&[list.into(), six.into()], &HashSet::from([8080]));
        assert_eq!((found.local, found.remote), (1, 1), "{found:?}");
        assert_eq!(found.here, HashMap::from([(12, 14), (14, 12)]));
        let none = Connections::parse(&[list.into(), six.into()], &HashSet::from([80]));
        assert_eq!(none, Connections::default());
    }
}
