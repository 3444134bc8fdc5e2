//! The service, as systemd wants it.
//!
//! It runs as root without root's rights: six capabilities are left. An account of its own would make the database of an existing
//! installation unwritable, and a dynamic one would put it below `/var/lib/private`, where the group that may read it cannot get.
//!
//! What is missing on purpose: `ProtectKernelTunables` and `ProtectKernelLogs` would take `/proc/kallsyms` away, by which code of the
//! kernel is named, `PrivateTmp` the lists of functions that runtimes put into `/tmp`, and `ProtectProc` and `PrivateUsers` the
//! processes of other users.

use std::net::SocketAddr;
use std::path::Path;

/// The system calls that are allowed: a test runs the collector with no others.
const SYSTEM_CALLS: [&str; 3] = ["@system-service", "perf_event_open", "bpf"];

/// A unit that runs `program`, and has its metrics at an address. Without metrics it has no network at all.
pub fn text(program: &Path, metrics: Option<SocketAddr>) -> String {
    let (option, network) = match metrics {
        None => (
            String::new(),
            "PrivateNetwork=true\nIPAddressDeny=any\nRestrictAddressFamilies=AF_UNIX".to_owned(),
        ),
        Some(address) => {
            // Which other machines may read them is a matter of the firewall.
            let addresses =
                if address.ip().is_loopback() { "IPAddressDeny=any\nIPAddressAllow=localhost\n" } else { "" };
            (
                format!(" --metrics {address}"),
                format!("{addresses}RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6"),
            )
        }
    };
    format!(
        "[Unit]
Description=whatif: continuous profile of this machine
After=local-fs.target

[Service]
ExecStart={} collect --db /var/lib/whatif --quiet{option}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=10
StateDirectory=whatif
StateDirectoryMode=0750
UMask=0027
LimitMEMLOCK=infinity
Nice=5
MemoryMax=128M
# What sampling the processes of all users takes, and nothing else.
AmbientCapabilities=CAP_PERFMON CAP_BPF CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_SYSLOG CAP_CHECKPOINT_RESTORE
CapabilityBoundingSet=CAP_PERFMON CAP_BPF CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_SYSLOG CAP_CHECKPOINT_RESTORE
NoNewPrivileges=true
ProtectSystem=strict
ProtectHome=read-only
PrivateDevices=true
ProtectClock=true
ProtectControlGroups=true
ProtectHostname=true
ProtectKernelModules=true
{network}
RestrictNamespaces=true
RestrictRealtime=true
RestrictSUIDSGID=true
LockPersonality=true
MemoryDenyWriteExecute=true
KeyringMode=private
SystemCallArchitectures=native
SystemCallFilter={}
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
",
        program.display(),
        SYSTEM_CALLS.join(" ")
    )
}
