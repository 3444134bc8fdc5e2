//! What the command says to what it cannot do. (A test of the command is also why `cargo test` builds it.)

use std::process::Command;

#[test]
fn what_is_not_there_is_said_before_anything_is_measured() {
    let bench = env!("CARGO_BIN_EXE_bench");
    for (args, says) in [
        (&["truth", "--quick", "--whatif", "/nowhere/whatif"][..], "/nowhere/whatif is not there"),
        // Any program will do: without one, cargo would build the command.
        (&["truth", "--only", "nosuch", "--whatif", bench], "nosuch"),
        (&["collect", "--only", "nosuch"], "possible values: cost, loss"),
        (&["nosuch"], "unrecognized subcommand 'nosuch'"),
    ] {
        let ended = Command::new(bench).args(args).output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && stderr.contains(says), "{args:?}: {ended:?}");
        assert!(ended.stdout.is_empty(), "{args:?}: {ended:?}");
    }
}
