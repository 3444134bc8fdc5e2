//! Programs run, visit their point and end, also when no region does any work; and the command says what is wrong.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mosaic::program::{REGIONS, region_name};

/// A program that takes longer is stuck. Machines are slow and busy; programs run for a fifth of a second.
const LIMIT: Duration = Duration::from_secs(100);

/// What the command prints, and whether it went well. Kills it, and fails, when it hangs.
fn output(arguments: &[String]) -> (String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mosaic"));
    let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("mosaic {arguments:?} hangs");
        }
        sleep(Duration::from_millis(5));
    };
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (text, status.success())
}

/// Seeds whose programs together have as many kinds of things as possible: always the one that adds most.
fn various(most: usize) -> Vec<u64> {
    let programs: Vec<_> = (0..150).map(|seed| (seed, mosaic::draw(seed))).collect();
    let mut seen = std::collections::BTreeSet::new();
    (0..most)
        .map(|_| {
            let new = |kinds: &std::collections::BTreeSet<&str>| {
                kinds.iter().filter(|kind| !seen.contains(**kind)).count()
            };
            let (seed, program) = programs.iter().max_by_key(|(_, program)| new(&program.kinds())).unwrap();
            seen.extend(program.kinds().into_iter().map(str::to_owned));
            *seed
        })
        .collect()
}

#[test]
fn programs_of_many_kinds_visit_their_point() {
    let nothing = (0..REGIONS).map(|region| format!("{}=0", region_name(region)));
    let nothing: Vec<String> = nothing.collect();
    for seed in various(12) {
        for more in [&[], nothing.as_slice()] {
            let arguments = [&[format!("seed={seed}"), "seconds=0.2".to_owned()], more].concat();
            let (text, went_well) = output(&arguments);
            let rate = text.trim_end().strip_prefix("rate round ").and_then(|rate| rate.parse::<f64>().ok());
            assert!(went_well && rate.is_some_and(|rate| rate > 0.0), "{arguments:?}: {text}");
        }
    }
}

#[test]
fn a_program_is_run_as_text() {
    let text = mosaic::draw(22).text();
    let folder = std::env::temp_dir().join(format!("mosaic-test-{}.json", std::process::id()));
    std::fs::write(&folder, &text).unwrap();
    for program in [text, folder.display().to_string()] {
        let (printed, went_well) = output(&[format!("program={program}"), "seconds=0.1".to_owned()]);
        assert!(went_well && printed.starts_with("rate round "), "{printed}");
    }
    std::fs::remove_file(folder).unwrap();
}

#[test]
fn what_a_program_does_can_be_read() {
    let (plan, went_well) = output(&["seed=3".to_owned(), "plan".to_owned()]);
    assert!(went_well && plan.contains("visit the progress point") && plan.contains("kinds: "), "{plan}");
    let (text, _) = output(&["seed=3".to_owned(), "text".to_owned()]);
    assert_eq!(mosaic::Program::parse(&text).unwrap(), mosaic::draw(3));
}

#[test]
fn what_cannot_be_run_is_said() {
    let stuck = r#"program={"seed":1,"objects":[{"queue":{"kind":"queue_pipe","capacity":1}}],"actors":[{"copies":1,"steps":[{"pop":0},"visit",{"push":0}]}]}"#;
    for (arguments, says) in [
        (&[][..], "name a program"),
        (&["seed=x"], "not a whole number"),
        (&["seed=1", "Q=3"], "'Q=3' is not an argument"),
        (&["program={}"], "this is no program"),
        (&["program=/nowhere/at/all"], "reading /nowhere/at/all"),
        (&[stuck], "wait for each other"),
    ] {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let (text, went_well) = output(&arguments);
        assert!(!went_well && text.contains(says), "{arguments:?}: {text}");
    }
}
