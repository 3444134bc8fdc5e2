//! The service, as systemd wants it.

use std::path::Path;

/// A unit that runs `program`.
pub fn text(program: &Path) -> String {
    format!(
        "[Unit]
Description=whatif: continuous profile of this machine
After=local-fs.target

[Service]
ExecStart={} collect --db /var/lib/whatif --quiet
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
AmbientCapabilities=CAP_PERFMON CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_SYSLOG CAP_CHECKPOINT_RESTORE
CapabilityBoundingSet=CAP_PERFMON CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_SYSLOG CAP_CHECKPOINT_RESTORE
NoNewPrivileges=true
ProtectSystem=strict
PrivateNetwork=true
RestrictAddressFamilies=AF_UNIX

[Install]
WantedBy=multi-user.target
",
        program.display()
    )
}
