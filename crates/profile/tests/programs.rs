//! Programs: their names beside functions, and their time.

use crate::synthetic::{Truth, rows, session};
use profile::*;

fn program(path: &str, obstacle: Option<&str>, cpu: u64) -> Program {
    let obstacle = obstacle.map(str::to_owned);
    Program { path: path.to_owned(), obstacle, processes: 2, samples: cpu, cpu: Nanos::from_millis(cpu) }
}

fn profile(sessions: &[&[Program]]) -> Profile {
    let sessions =
        sessions.iter().zip(1..).map(|(programs, id)| Session { programs: programs.to_vec(), ..session(id) });
    Profile::new(Rows { sessions: sessions.collect(), ..Rows::default() }, &EstimateOptions::default())
}

#[test]
fn the_time_of_a_program_is_that_of_all_its_processes_in_all_runs() {
    let first = [program("/bin/master", None, 30), program("/opt/worker", None, 20)];
    let second = [program("/srv/worker", None, 40), program("/bin/old", Some("it is static"), 10)];
    let profile = profile(&[&first, &second]);
    let told: Vec<_> = profile.programs().iter().map(|one| (one.title(), one.share)).collect();
    let expected = [("worker × 4", 0.6), ("master × 2", 0.3), ("old × 2", 0.1)];
    assert_eq!(told, expected.map(|(title, share)| (title.to_owned(), share)));
    assert_eq!(profile.programs()[2].obstacle, Some("it is static"));
}

#[test]
fn one_program_has_all_the_time() {
    let alone = [program("/bin/worker", None, 30)];
    assert_eq!(profile(&[&alone, &alone]).programs(), []);
    assert_eq!(profile(&[&[]]).programs(), []);
}

#[test]
fn regions_of_several_programs_are_told_apart() {
    let truth = |name| Truth { name, slope: 0.5, noise: 0.01, blocks: 20 };
    let mut rows = rows(&[truth("hash.c:90"), truth("server+0x12")]);
    let labels = |rows: &Rows| -> Vec<String> {
        let profile = Profile::new(rows.clone(), &EstimateOptions::default());
        rows.regions.values().map(|region| profile.label(region)).collect()
    };
    assert_eq!(labels(&rows), ["hash.c:90", "server+0x12"]);
    // The same program of another build, and code in no file, are not another program.
    let add = |rows: &mut Rows, id, path: &str| {
        let mut region = rows.regions[&RegionId::new(1)].clone();
        region.image = Image { path: path.to_owned(), build_id: None };
        region.kind = RegionKind::Function;
        region.name = "work".to_owned();
        rows.regions.insert(RegionId::new(id), region);
    };
    add(&mut rows, 8, "/old/server");
    add(&mut rows, 9, "[made at run time]");
    assert_eq!(labels(&rows), ["hash.c:90", "server+0x12", "work hash.c:90", "work hash.c:90"]);
    add(&mut rows, 9, "/bin/worker");
    let several = ["hash.c:90 (server)", "server+0x12", "work hash.c:90 (server)", "work hash.c:90 (worker)"];
    assert_eq!(labels(&rows), several);
    let profile = Profile::new(rows, &EstimateOptions::default());
    assert!(profile.sentence().contains("`hash.c:90` of `server`"), "{}", profile.sentence());
    for wanted in ["hash.c:90 (server)", "hash.c:90"] {
        assert_eq!(profile.explain(wanted).unwrap().region, RegionId::new(1), "{wanted}");
    }
}
