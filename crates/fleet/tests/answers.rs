//! One node, two shards and the local database give the same answers.

use crate::machines;
use crate::nodes::{CLUSTER, Nodes};
use clap::Parser;
use fleet::arguments::Command;
use fleet::command;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// What is typed after `whatif fleet`.
#[derive(Debug, Parser)]
struct Typed {
    #[command(subcommand)]
    command: Command,
}

pub fn typed(words: &[&str]) -> Command {
    Typed::parse_from(["fleet"].iter().chain(words)).command
}

/// Makes the tables.
pub fn init(nodes: &Nodes) {
    let urls = nodes.urls();
    let mut words = vec!["init"];
    urls.iter().for_each(|url| words.extend(["--url", url]));
    if urls.len() > 1 {
        words.extend(["--cluster", CLUSTER]);
    }
    let Command::Init(args) = typed(&words) else { unreachable!() };
    assert_eq!(command::init(&args).unwrap().len(), urls.len());
    // Again is no mistake.
    assert!(command::init(&args).unwrap()[0].ends_with("up to date (version 2)"));
}

/// So many servers with tables, and a folder with the database of so many machines that have run for 100 minutes; none where the package is not installed.
pub fn with_machines(servers: usize, machines: u32) -> Option<(Nodes, tempfile::TempDir)> {
    let nodes = Nodes::start(servers)?;
    let folder = tempfile::tempdir().unwrap();
    machines::write(folder.path(), machines, 100);
    init(&nodes);
    Some((nodes, folder))
}

/// Sends a database.
pub fn push(url: &str, folder: &Path) -> Result<fleet::Pushed, fleet::Error> {
    let folder = folder.to_str().unwrap();
    let Command::Push(args) = typed(&["push", "--db", folder, "--url", url]) else { unreachable!() };
    command::push(&args, &mut |_| (), &mut |text| eprintln!("{text}"), &mut |_: Duration| false)
}

/// An answer as JSON, without where it is from.
pub fn json(words: &[&str], from: &[&str]) -> String {
    let all: Vec<&str> = words.iter().chain(from).copied().collect();
    fn text(answer: &impl Serialize) -> String {
        let mut value = serde_json::to_value(answer).unwrap();
        for at in
            ["/heading", "/a/heading", "/b/heading", "/conditions/0/of/heading", "/conditions/0/with/heading"]
        {
            if let Some(heading) = value.pointer_mut(at) {
                heading["database"] = "".into();
            }
        }
        if let Some(database) = value.pointer_mut("/database") {
            *database = "".into();
        }
        serde_json::to_string_pretty(&value).unwrap()
    }
    match typed(&all) {
        Command::Top(args) => text(&command::top(&args).unwrap()),
        Command::Diff(args) => text(&command::diff(&args).unwrap()),
        Command::Hosts(args) => text(&command::hosts(&args).unwrap()),
        Command::Worth(args) => text(&command::worth(&args).unwrap()),
        Command::Flame(args) => {
            let (mut heading, flame) = command::flame(&args).unwrap();
            heading.database.clear();
            format!("{heading:#?}\n{:#?}\n{:#?}", flame.names, flame.boxes)
        }
        other => panic!("{other:?}"),
    }
}

/// Questions of all kinds.
pub const QUESTIONS: [&[&str]; 19] = [
    &["top"],
    &["top", "--by", "image", "--idle"],
    &["top", "--by", "line", "--top", "100"],
    &["top", "--by", "service,version,function"],
    &["top", "--by", "host"],
    &["top", "--by", "label.shard,process"],
    &["top", "--by", "label.region,label.none"],
    &["top", "--service", "ca*", "--host", "web-?"],
    &["top", "--version", "1.1", "--since", "2026-01-01T01:00:00Z", "--until", "2026-01-01T01:30:00Z"],
    &["diff", "1.0", "1.1"],
    &["diff", "1.0", "1.1", "--by", "image", "--service", "shop.service"],
    &["diff", "2026-01-01T00:30:00Z..2026-01-01T01:20:00Z", "2026-01-01T01:20:00Z.."],
    &[
        "diff",
        "1.0",
        "1.1",
        "--by",
        "image",
        "--fail-if",
        "share(shop::f*, B) > 1.2 * share(shop::f*, A) + 1%",
    ],
    &["flame"],
    &["flame", "--roots", "none", "--idle", "--no-inlined"],
    &["flame", "--roots", "host,label.shard,label.none", "--service", "ca*", "--version", "1.?"],
    &["flame", "--roots", "version,host", "--most", "10"],
    &["flame", "--most", "3", "--since", "2026-01-01T00:45:00Z", "--until", "2026-01-01T01:20:00Z"],
    &["hosts"],
];

#[test]
fn one_node_two_shards_and_a_database_answer_alike() {
    let (Some(one), Some(two)) = (Nodes::start(1), Nodes::start(2)) else { return };
    let folder = tempfile::tempdir().unwrap();
    machines::write(folder.path(), 8, 100);
    init(&one);
    init(&two);
    // Half past twelve to ten past two: three hours, of which the last epoch has two that are over.
    let pushed = push(&one.urls()[0], folder.path()).unwrap();
    assert_eq!((pushed.hours, pushed.found), (7 * 3 + 2, 0));
    assert_eq!(push(&two.urls()[1], folder.path()).unwrap(), pushed);
    assert_eq!(push(&one.urls()[0], folder.path()).unwrap(), fleet::Pushed::default());
    let local = folder.path().to_str().unwrap().to_owned();
    for question in QUESTIONS {
        let of_database = json(question, &["--db", &local]);
        for url in one.urls().iter().chain(&two.urls()) {
            assert_eq!(json(question, &["--url", url]), of_database, "{question:?}");
        }
    }
    // Both shards have some, and all samples are there.
    for (nth, url) in two.urls().iter().enumerate() {
        let Command::Sql(args) = typed(&[
            "sql",
            "SELECT count() FROM whatif.samples_shard",
            "--format",
            "TabSeparated",
            "--url",
            url,
        ]) else {
            unreachable!()
        };
        assert!(command::sql(&args).unwrap().trim().parse::<u64>().unwrap() > 0, "shard {nth}");
    }
    for url in one.urls().iter().chain(&two.urls()) {
        let Command::Status(args) = typed(&["status", "--url", url]) else { unreachable!() };
        let standing = command::status(&args).unwrap();
        assert_eq!((standing.doubts.as_slice(), standing.samples), (&[][..], standing.in_books));
        assert_eq!(standing.samples, pushed.samples);
    }
}

#[test]
fn status_names_what_does_not_add_up() {
    let Some((nodes, folder)) = with_machines(1, 2) else { return };
    let url = nodes.urls()[0].clone();
    let pushed = push(&url, folder.path()).unwrap();
    let Command::Status(args) = typed(&["status", "--url", &url]) else { unreachable!() };
    let book = |start: i64| {
        nodes.nodes[0].ask(&format!(
            "INSERT INTO whatif.books (start, machine, host, epoch, event, stored) \
             SELECT toDateTime({start}), 'machine-0', 'web-0', 'an epoch', 'cpu-clock', 5"
        ));
        command::status(&args).unwrap()
    };
    // What is left of the books of a day whose samples were removed.
    let standing = book(machines::BEGIN.0 - 86_400);
    assert_eq!((&standing.doubts[..], standing.in_books), (&[][..], pushed.samples));
    let standing = book(machines::BEGIN.0);
    let [doubt] = &standing.doubts[..] else { panic!("{standing:?}") };
    assert_eq!((&*doubt.epoch, doubt.samples, doubt.in_books), ("an epoch", 0, 5));
    assert!(standing.text().contains("1 hour does not add up"), "{}", standing.text());
}

/// The numbers are not only alike: they are those of `whatif top`.
#[test]
fn a_fleet_of_one_database_answers_as_its_tools_do() {
    let folder = tempfile::tempdir().unwrap();
    machines::write(folder.path(), 3, 60);
    let local = folder.path().to_str().unwrap();
    // Up to where the last epoch is over.
    let until = "2026-01-01T01:00:00Z";
    let Command::Top(args) = typed(&["top", "--db", local, "--until", until, "--top", "1000"]) else {
        unreachable!()
    };
    let of_fleet = command::top(&args).unwrap();
    #[derive(Debug, Parser)]
    struct Top {
        #[command(flatten)]
        args: cycles::arguments::Top,
    }
    let Top { args } = Top::parse_from(["top", "--db", local, "--until", until, "--top", "1000"]);
    let of_tools = cycles::top(&args).unwrap();
    assert_eq!(of_fleet.heading.books, of_tools.heading.books);
    assert_eq!(of_fleet.heading.samples, of_tools.heading.samples);
    // A build is one wherever it lies there; by path here.
    let sums = |top: &cycles::Top| {
        let mut sums = std::collections::BTreeMap::<(String, String), u64>::new();
        for row in &top.rows {
            *sums.entry((row.name.clone(), row.build_id.clone())).or_default() += row.samples;
        }
        sums
    };
    assert_eq!(sums(&of_fleet), sums(&of_tools));
    assert!(of_fleet.rows.len() > 40, "{}", of_fleet.rows.len());
    let first = &of_fleet.rows[0];
    let share = first.samples as f64 / of_fleet.heading.samples as f64;
    assert!((first.share.value - share).abs() < 1e-12 && first.share.lo < share && share < first.share.hi);
}

/// The flame graph is that of `whatif flame`, and what is not in it is counted.
#[test]
fn a_flame_graph_has_all_samples() {
    let folder = tempfile::tempdir().unwrap();
    machines::write(folder.path(), 3, 60);
    let local = folder.path().to_str().unwrap();
    let until = "2026-01-01T01:00:00Z";
    let of = |words: &[&str]| {
        let words = [&["flame", "--db", local, "--until", until][..], words].concat();
        let Command::Flame(args) = typed(&words) else { unreachable!() };
        command::flame(&args).unwrap()
    };
    let (heading, of_fleet) = of(&["--roots", "process"]);
    let which = cycles::arguments::Which {
        folder: cycles::arguments::Folder { db: Some(local.into()) },
        until: Some(until.to_owned()),
        ..Default::default()
    };
    let mut query = cycles::Query::new(&which).unwrap();
    let roots = cycles::Roots(vec![cycles::LabelKey::Process]);
    let of_tools = cycles::flame_of(&mut query, &roots).unwrap();
    assert_eq!((heading.samples, heading.books), (query.heading.samples, query.heading.books));
    // A build is one wherever it lies there; here it is known by the first of its paths.
    let sums = |flame: &cycles::Flame| {
        let mut sums = std::collections::BTreeMap::<Vec<String>, u64>::new();
        for one in flame.boxes.iter().filter(|one| one.own > 0) {
            let boxes = std::iter::successors(Some(one), |one| flame.boxes.get(one.parent as usize));
            let stack = boxes.map(|one| flame.names[one.name as usize].function.clone()).collect();
            *sums.entry(stack).or_default() += one.own;
        }
        sums
    };
    assert_eq!(sums(&of_fleet), sums(&of_tools));
    assert!(of_fleet.boxes.len() >= 40, "{}", of_fleet.boxes.len());
    let (few, of_few) = of(&["--most", "5"]);
    assert_eq!((few.samples, of_few.total()), (heading.samples, heading.samples));
    let rest = of_few.boxes.last().unwrap();
    assert_eq!(of_few.names[rest.name as usize].function, cycles::counted::REST);
    assert!(rest.own > 0 && few.warnings.iter().any(|note| note.code == "other-stacks"), "{few:?}");
}

#[test]
fn stacks_that_a_server_does_not_know_are_not_shown() {
    let Some((nodes, folder)) = with_machines(1, 2) else { return };
    let url = nodes.urls()[0].clone();
    push(&url, folder.path()).unwrap();
    let Command::Flame(args) = typed(&["flame", "--url", &url]) else { unreachable!() };
    let (whole, _) = command::flame(&args).unwrap();
    let node = &nodes.nodes[0];
    node.ask("CREATE TABLE whatif.real AS whatif.stacks ENGINE = Memory");
    node.ask("INSERT INTO whatif.real SELECT * FROM whatif.stacks");
    // Code that is not in these stacks, and lists that do not go together.
    for frames in ["builds, arrayMap(x -> x + 1, offsets)", "builds, emptyArrayUInt64()"] {
        node.ask("TRUNCATE TABLE whatif.stacks");
        node.ask(&format!("INSERT INTO whatif.stacks SELECT stack, {frames} FROM whatif.real"));
        let (heading, flame) = command::flame(&args).unwrap();
        assert_eq!((heading.samples, flame.boxes.len()), (whole.samples, 1));
        assert_eq!(flame.boxes[0].own, whole.samples);
    }
}
