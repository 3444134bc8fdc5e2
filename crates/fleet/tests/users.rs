//! Who may do what.

use crate::answers::{init, push, typed};
use crate::machines;
use crate::nodes::Nodes;
use fleet::arguments::Command;
use fleet::{Error, command};
use std::time::Duration;

#[test]
fn who_may_only_read_reads() {
    let Some(nodes) = Nodes::start(1) else { return };
    let url = nodes.urls()[0].clone();
    let folder = tempfile::tempdir().unwrap();
    machines::write(folder.path(), 1, 100);
    let local = folder.path().to_str().unwrap();
    // Without tables.
    let error = push(&url, folder.path()).unwrap_err();
    assert!(matches!(error, Error::Tables { found: 0, .. }), "{error}");
    assert!(error.to_string().ends_with(&format!("whatif fleet init --url {url}")), "{error}");
    // This old server removes nothing by itself, and is not said to.
    let Command::Init(args) = typed(&["init", "--url", &url, "--keep-days", "90"]) else { unreachable!() };
    let error = command::init(&args).unwrap_err();
    assert!(matches!(&error, Error::Usage(said) if said.contains("leave --keep-days out")), "{error}");
    init(&nodes);
    push(&url, folder.path()).unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "to read\n").unwrap();
    let reader = ["--url", &url, "--user", "reader", "--password-file", password.to_str().unwrap()];
    let of = |words: &[&str]| typed(&words.iter().chain(&reader).copied().collect::<Vec<_>>());
    let Command::Top(args) = of(&["top"]) else { unreachable!() };
    assert!(!command::top(&args).unwrap().rows.is_empty());
    let Command::Status(args) = of(&["status"]) else { unreachable!() };
    assert!(command::status(&args).unwrap().doubts.is_empty());
    let Command::Sql(args) = of(&["sql", "SELECT 1 AS one", "--format", "TabSeparatedWithNames"]) else {
        unreachable!()
    };
    assert_eq!(command::sql(&args).unwrap(), "one\n1\n");
    // The note is of these tables, and says that all is sent: without it there is something to send.
    std::fs::remove_file(folder.path().join("fleet.db")).unwrap();
    let Command::Push(args) = of(&["push", "--db", local]) else { unreachable!() };
    let error = command::push(&args, &mut |_| (), &mut |_| (), &mut |_: Duration| false).unwrap_err();
    assert!(matches!(&error, Error::Refused { .. }) && error.to_string().contains("--user"), "{error}");
    // The user of a machine has what it takes.
    std::fs::write(&password, "to write").unwrap();
    let writer = [
        "push",
        "--db",
        local,
        "--url",
        &url,
        "--user",
        "writer",
        "--password-file",
        password.to_str().unwrap(),
    ];
    let Command::Push(args) = typed(&writer) else { unreachable!() };
    let pushed = command::push(&args, &mut |_| (), &mut |_| (), &mut |_: Duration| false).unwrap();
    assert!(pushed.found > 0 && pushed.hours == 0, "{pushed:?}");
    // A wrong password, and a statement that changes something.
    std::fs::write(&password, "wrong").unwrap();
    let Command::Top(args) = of(&["top"]) else { unreachable!() };
    let error = command::top(&args).unwrap_err().to_string();
    assert!(error.contains("--password-file"), "{error}");
    let Command::Sql(args) = typed(&["sql", "DROP TABLE whatif.samples", "--url", &url]) else {
        unreachable!()
    };
    assert!(matches!(command::sql(&args), Err(Error::Refused { .. })));
}

#[test]
fn an_answer_is_whole_or_an_error() {
    let Some(mut nodes) = Nodes::start(2) else { return };
    init(&nodes);
    let url = nodes.urls()[0].clone();
    let count = |user: &str| {
        let words = ["sql", "SELECT count() FROM whatif.samples", "--format", "TabSeparated"];
        let Command::Sql(args) = typed(&[&words[..], &["--url", &url, "--user", user]].concat()) else {
            unreachable!()
        };
        command::sql(&args)
    };
    assert_eq!(count("lenient").unwrap(), "0\n");
    let error = count("part").unwrap_err();
    let said = error.to_string();
    assert!(
        !error.is_temporary() && said.contains("set skip_unavailable_shards to 0 in the profile"),
        "{said}"
    );
    nodes.nodes[1].kill();
    // To this user the server would answer without the other shard.
    let error = count("lenient").unwrap_err();
    assert!(error.is_temporary(), "{error}");
}

#[test]
fn rows_of_another_host_keep_nothing_back() {
    let Some(nodes) = Nodes::start(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    machines::write(folder.path(), 1, 100);
    init(&nodes);
    let uids = archive::Database::open(folder.path()).unwrap().uids().unwrap();
    let uid = uids.values().next().unwrap();
    for (machine, host) in [("machine-0", "another"), ("another", "web-0")] {
        for (table, time, count) in [("samples", "minute", "count"), ("books", "start", "stored")] {
            nodes.nodes[0].ask(&format!(
                "INSERT INTO whatif.{table} ({time}, machine, host, epoch, event, {count}) \
                 SELECT toDateTime({} + 60 * number), '{machine}', '{host}', '{uid}', 'cpu-clock', 1 FROM system.numbers LIMIT 100",
                machines::BEGIN.0
            ));
        }
    }
    let pushed = push(&nodes.urls()[0], folder.path()).unwrap();
    assert!(pushed.hours == 2 && pushed.found == 0 && pushed.samples > 0, "{pushed:?}");
}

#[test]
fn a_server_that_is_not_there_is_told() {
    // Nothing listens on a port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let Command::Status(args) = typed(&["status", "--url", &url]) else { unreachable!() };
    let error = command::status(&args).unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("/ping"), "{error}");
}

/// What was said last counts, on one server and on shards.
#[test]
fn the_last_order_counts_on_all_machines() {
    for shards in [1, 2] {
        let Some(nodes) = Nodes::start(shards) else { return };
        init(&nodes);
        let urls = nodes.urls();
        let give = |stopped: bool, reason: &str| {
            let words = ["stop", "--reason", reason, "--by", "anna", "--url", &urls[0]];
            let Command::Stop(args) = typed(&words) else { unreachable!() };
            command::give_order(&args, stopped)
        };
        let Command::Status(heard) = typed(&["status", "--url", &urls[shards - 1]]) else { unreachable!() };
        let mut orders = command::Orders::at(&heard.at).unwrap();
        assert_eq!(orders.last().unwrap(), None);
        assert!(give(true, " ").unwrap_err().to_string().contains("--reason"));
        for (stopped, reason) in [(true, "it's \"slow\"\\"), (false, "solved"), (true, "again")] {
            let given = give(stopped, reason).unwrap();
            let heard = orders.last().unwrap().unwrap();
            assert_eq!(heard, given);
            assert_eq!((heard.is_stop(), &*heard.reason, &*heard.who), (stopped, reason, "anna"));
        }
        init(&nodes);
        assert!(orders.last().unwrap().unwrap().is_stop(), "making tables again changes nothing");
    }
}

/// Those that no release has made are left alone.
#[test]
fn tables_of_the_first_version_are_refused() {
    let Some(nodes) = Nodes::start(1) else { return };
    init(&nodes);
    let url = &nodes.urls()[0];
    for statement in [
        "DROP TABLE whatif.schema_version",
        "CREATE TABLE whatif.schema_version (version UInt32, at DateTime, fleet String, cluster String) ENGINE = MergeTree ORDER BY version",
        "INSERT INTO whatif.schema_version VALUES (1, now(), 'abc', '')",
    ] {
        nodes.nodes[0].ask(statement);
    }
    let Command::Status(args) = typed(&["status", "--url", url]) else { unreachable!() };
    let error = command::status(&args).unwrap_err();
    assert!(matches!(error, Error::Tables { found: 1, needed: 2, .. }), "{error}");
    let Command::Init(of_init) = typed(&["init", "--url", url]) else { unreachable!() };
    let said = command::init(&of_init).unwrap_err().to_string();
    assert!(said.contains("no release has made") && said.contains("--database NAME"), "{said}");
    let Command::Init(of_init) = typed(&["init", "--url", url, "--database", "other"]) else {
        unreachable!()
    };
    assert!(command::init(&of_init).unwrap()[0].contains("made the tables of version 2 in other"));
}
