//! Names that the collector keeps. That shares are right and named when everything has gone is for `bench accept`.

use crate::support::{Sandbox, run, skip};

#[test]
fn names_are_not_kept_where_none_are_wanted() {
    let sandbox = Sandbox::new();
    let folder = sandbox.recording().with_file_name("cycles");
    let collect = |options: &[&str]| {
        let mut command = sandbox.whatif();
        command.args(["collect", "--rate", "200", "--duration", "1", "--db"]).arg(&folder).args(options);
        run(command)
    };
    let refused = collect(&["--max-symbols", "600M", "--max-disk", "1G"]).assert_code(2);
    assert!(refused.stderr.contains("more than half of --max-disk 1G"), "{refused:#?}");
    let refused = collect(&["--max-symbols", "much"]).assert_code(2);
    assert!(refused.stderr.contains("--max-symbols much is no size"), "{refused:#?}");
    let ended = collect(&["--max-symbols", "0"]);
    if ended.code() != Some(0) {
        return skip(&ended.stderr);
    }
    assert!(!folder.join("symbols").exists());
    let mut command = sandbox.whatif();
    command.args(["status", "--db"]).arg(&folder);
    let status = run(command).assert_code(0);
    assert!(status.stdout.contains("names: not kept (--max-symbols 0)"), "{status:#?}");
}
