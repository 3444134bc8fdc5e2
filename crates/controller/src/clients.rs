//! Clients on the same machine: whether those who use the CPUs beside the program are the ones that it serves, or that it asks.
//!
//! **Does:** look now and then who has the other ends of the program's TCP connections, and what CPU time those processes use. **Does not:** say what that means for a gain
//! (`profile/src/estimate/queues.rs`). **Constraints:** what is not seen is not said: clients in another name space of networks, those of other users without root, and those with unix sockets are not
//! found, and the others are then taken for anybody's programs.

use crate::warning::Warning;
use kernel::connections::{Connections, owners};
use kernel::cpu::ProcessStat;
use profile::WindowFlags;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wire::arrivals::Kind;
use wire::{Nanos, SharedMemory};

/// Time between two looks, at least.
const INTERVAL: Duration = Duration::from_secs(1);
/// Looking never takes more than this part of the time, as a divisor.
const MOST_SHARE: u32 = 100;
/// Times between two looks that say anything together.
const ENOUGH: u32 = 2;
/// If clients have this share of what all others use, the others are the clients: the kernel's work for both is not always charged to them.
const NEARLY_ALL: f64 = 0.7;
/// More connections from elsewhere than this share of all are clients that are not here.
const SOME: f64 = 0.05;

/// See the module.
#[derive(Debug, Default)]
pub struct Clients {
    next: Option<Instant>,
    before: Option<Instant>,
    /// Sockets whose owners were looked for, and those at their other ends.
    sockets: HashMap<u64, u64>,
    /// What each client had used, when it was seen last.
    processes: HashMap<u32, Nanos>,
    names: BTreeSet<String>,
    seen: Seen,
}

/// What was seen between looks, in seconds of CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    times: u32,
    /// Of the machine, idle or not.
    passed: f64,
    clients: f64,
    others: f64,
    /// How many connections have their other ends here, and elsewhere, in all looks.
    local: usize,
    remote: usize,
}

impl Clients {
    /// Looks who they are, unless that was not long ago. `others`: the share of the machine that other programs used lately, where known. `root`: a process of the program.
    pub fn look(&mut self, memory: &SharedMemory, root: Option<u32>, others: Option<f64>) {
        let now = Instant::now();
        let (Some(root), Some(others)) = (root, others.filter(|share| *share > WindowFlags::BUSY_ABOVE))
        else {
            self.before = None;
            return;
        };
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        let ports = ports(memory);
        if ports.is_empty() {
            return;
        }
        let mut used = Nanos::ZERO;
        self.processes.retain(|pid, before| {
            let Ok(stat) = ProcessStat::of(*pid) else { return false };
            used += stat.own.saturating_sub(std::mem::replace(before, stat.own));
            true
        });
        if let Some(before) = self.before.replace(now)
            && !self.names.is_empty()
        {
            let machine = f64::from(memory.header.machine_cpus.load(Relaxed));
            let passed = now.duration_since(before).as_secs_f64() * machine;
            self.seen.times += 1;
            self.seen.passed += passed;
            self.seen.others += others * passed;
            self.seen.clients += used.0 as f64 / 1e9;
        }
        self.find(&Connections::of(root, &ports), |pid| memory.slots.has_process(pid));
        self.next = Some(now + INTERVAL.max(now.elapsed() * MOST_SHARE));
    }

    /// Finds the processes that have the other ends.
    fn find(&mut self, connections: &Connections, is_profiled: impl Fn(u32) -> bool) {
        let Connections { here, local, remote } = connections;
        self.seen.local += local;
        self.seen.remote += remote;
        if here.keys().all(|socket| self.sockets.contains_key(socket)) {
            return;
        }
        self.sockets.clone_from(here);
        let owners = owners(here.keys());
        let of_program: HashSet<u64> =
            owners.iter().filter(|(pid, _)| is_profiled(*pid)).map(|(_, socket)| *socket).collect();
        // Others may have connections at the same port that are not the program's.
        let is_client = |(pid, socket): &(u32, u64)| {
            let is_other = !is_profiled(*pid) && *pid != std::process::id();
            is_other && here.get(socket).is_some_and(|end| of_program.contains(end))
        };
        let clients: HashSet<u32> = owners.iter().filter(|one| is_client(one)).map(|(pid, _)| *pid).collect();
        for pid in clients {
            let Ok(stat) = ProcessStat::of(pid) else { continue };
            self.processes.entry(pid).or_insert(stat.own);
            if let Ok(name) = std::fs::read_to_string(format!("/proc/{pid}/comm")) {
                self.names.insert(name.trim_end().to_owned());
            }
        }
    }

    /// What there is to say of them, if they are nearly all that used the machine beside the program.
    pub fn warning(&self) -> Option<Warning> {
        let Seen { clients, passed, .. } = self.seen;
        let names = self.names.iter().cloned().collect();
        self.seen.are_the_others().then(|| Warning::ClientsHere { names, share: clients / passed })
    }
}

impl Seen {
    fn are_the_others(self) -> bool {
        let are_elsewhere = self.remote as f64 > SOME * (self.local + self.remote) as f64;
        self.times >= ENOUGH && !are_elsewhere && self.clients >= NEARLY_ALL * self.others
    }
}

/// The ports at which the program is asked, or asks others.
fn ports(memory: &SharedMemory) -> HashSet<u16> {
    let of_connections =
        |(kind, port)| matches!(kind, Kind::Accepted | Kind::Connected | Kind::Listener).then_some(port);
    memory.arrivals.used().filter_map(|source| source.kind().and_then(of_connections)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn clients_are_the_others_if_they_use_nearly_all_of_what_others_do() {
        let seen = Seen { times: 3, passed: 6.0, clients: 2.5, others: 3.0, local: 99, remote: 1 };
        assert!(seen.are_the_others());
        assert!(!Seen { times: 1, ..seen }.are_the_others(), "too little was seen");
        assert!(!Seen { clients: 1.5, ..seen }.are_the_others(), "somebody else uses as much");
        assert!(!Seen { remote: 9, ..seen }.are_the_others());
        assert_eq!(Clients::default().warning().map(|warning| warning.to_string()), None);
        let names = BTreeSet::from(["wrk".to_owned()]);
        let clients = Clients { names, seen, ..Clients::default() };
        let warning = clients.warning().unwrap();
        assert_eq!(
            warning.to_string(),
            "its clients (wrk) run on the same machine and used 42 % of its CPUs"
        );
    }

    #[test]
    fn the_process_at_the_other_end_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let server = listener.accept().unwrap().0;
        let start = |end: TcpStream| {
            let mut sleep = std::process::Command::new("sleep");
            sleep.arg("100").stdin(std::os::fd::OwnedFd::from(end)).spawn().unwrap()
        };
        let mut processes = [server, client].map(start);
        let [server, client] = [&processes[0], &processes[1]].map(std::process::Child::id);
        let connections = Connections::of(std::process::id(), &HashSet::from([port]));
        let found = |is_profiled: &dyn Fn(u32) -> bool| {
            let mut clients = Clients::default();
            clients.find(&connections, is_profiled);
            assert_eq!((clients.seen.local, clients.seen.remote), (1, 0));
            clients.processes.keys().copied().collect::<Vec<_>>()
        };
        assert_eq!(found(&|pid| pid == server), [client]);
        assert_eq!(found(&|pid| pid == client), [server], "whom it asks");
        assert_eq!(found(&|_| false), [0_u32; 0], "a connection of others");
        for process in &mut processes {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}
