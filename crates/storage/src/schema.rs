//! The tables of a recording, and the tests a file must pass to count as one.
//!
//! Times are integers in nanoseconds (columns end in `_ns`); speedups are thousandths
//! (`speedup_permille`); names are text. What is not known is NULL, or an empty text where the column
//! is part of a key.
//!
//! | table | one row per | notes |
//! |---|---|---|
//! | `sessions` | run of a program | `stopped`: whether whatif asked the program to end (since layout 11); `timed_samples`: those that a timer has taken (since layout 17); `duration_ns` and `exit` are NULL while it runs, and forever if the controller was killed; `exit` is `unknown`, `code` or `signal`; `seed` is decimal text (64 bits unsigned); `arguments` has one argument per row in `arguments` |
//! | `arguments` | argument of the program | in order of `position` |
//! | `images` | image in which a session found regions | `build_id` empty: none |
//! | `regions` | piece of code | see `Region` for what makes two of them the same |
//! | `points` | progress point | kind `throughput`, `begin` or `end` |
//! | `windows` | measurement | a *block* is one experiment of a session: baseline and treated windows on one region; `flags` is a list like `unbalanced,cut` |
//! | `visits` | window and visited point | `span_…`: from visit to visit, NULL where that is not known (since layout 2) |
//! | `audits` | window | what its audit counted (since layout 4, some columns since 5, 6, 7, 10 and 18); a window without a row was not audited |
//! | `in_flight` | window and latency pair | `point` is the begin point |
//! | `latencies` | window and latency pair | how long each took (since layout 9): `counts` is a list like `1200:3 1240:17` of nanoseconds and how many took so long; no row where beginnings and ends could not be paired |
//! | `samples` | session and region | over the whole run, not only in windows |
//! | `functions` | function on a stack | `build_id` empty: none; `file` empty: unknown (since layout 11) |
//! | `stacks` | frame of a stack, below its caller | `parent` 0: the outermost frame; a caller's `id` is smaller than what it calls; `line` 0: unknown; `inlined`: part of the code of its caller (since layout 11) |
//! | `stack_samples` | session and stack | samples whose innermost frame it is (since layout 11); what is missing of the session's samples was more than is kept |
//! | `production` | session and region | its cost in continuous profiles (since layout 3): `share` of the program's samples, from `since_unix_s` until `until_unix_s`, on so many `hosts` |
//! | `arrivals` | session, kind and port | what came from outside (since layout 8): `clock` is `undecided`, `closed`, `open` or `mixed`, or (since 17) `said closed` or `said open` where only the user says so; `slope` and `slope_se` are NULL where nothing is known |
//! | `programs` | session and program that its processes executed | since layout 14; `path` empty: not known; `obstacle` empty: it was profiled, otherwise why it could not be followed, and `cpu_ns` is at least so much |
//! | `threads` | session and thread | since layout 15: what it did in windows without a speedup; `tid` 0: all threads that are not kept one by one; `name` and `function` (the outermost of the program on its stacks) empty: not known |
//! | `overhead` | session and pair of stretches | since layout 16: visits and time while the program was profiled as in an experiment without a speedup, and while it hardly was |
//! | `snippets` | region | the source when it was measured |
//! | `warnings` | doubt about a session | |
//!
//! Continuous profiles have these as well, in the file `catalogue.db` of their folder (since layout 3; times of day are
//! whole seconds since 1970, in columns that end in `_unix_s`). The samples are in the Parquet files that `segments`
//! names: see `docs/database.md`.
//!
//! | table | one row per | notes |
//! |---|---|---|
//! | `machines` | machine | `key` tells it from all others; what is known of it last |
//! | `epochs` | span of time with one setting of the collector | `uid` is the same in every database it is merged into; `ended_unix_s` is NULL while it runs, and until the next start if the collector was killed; `flushes` counts its flushes |
//! | `epoch_events` | epoch and name of an event it was asked for | in order of `position` |
//! | `events` | what can be sampled | |
//! | `epoch_labels` | epoch and label that its collector was given | since layout 12 |
//! | `labels` | who ran | `thread`, `pid`, `command` and `user_labels` since layout 12: empty (`pid`: 0) where not known; `user_labels` is an object in JSON |
//! | `code_images` | file, or what stands for one, that samples fall into | `kind` is `file`, `kernel`, `generated`, `memory`, `idle` or `unknown`; not the table `images`, which belongs to sessions |
//! | `names` | name of a function or source file | `hash` finds it |
//! | `symbols` | frame at a position of an image | `position` 0 is the innermost inlined function; `function` and `file` are keys of `names`; a file of no name is 0 |
//! | `segments` | pair of Parquet files in `segments/` | flushes `first_flush` to `last_flush` of its epoch; time buckets begin from `begin_unix_s` to `last_unix_s`; `level` 0 is one flush, 1 an hour, 2 a day; `images` and `labels` are lists in JSON of the keys that occur in it |
//! | `journal` | thing that happened to a collector | in order of `number`; `kind`, how much (`value`) and why (`detail`) (since layout 12) |
//! | `books` | epoch, event and flush; where time buckets are hours, epoch, event and hour | what became of the samples; `squares` since layout 13: of those that were found several at a time |
//!
//! `application_id` says that the file is ours, `user_version` which of these layouts it has.
//! Sessions are additive: recordings are merged by adding rows under fresh keys.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::Error;
use crate::journal::JOURNAL;

/// "What", as the header of the file has it.
pub const APPLICATION_ID: i64 = 0x5768_6174;

/// The layout this version writes. Raise it with every change, and teach `profile::database::Recording` the old one.
pub const VERSION: i64 = 19;

/// How long another program may take that prepares the same file.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes a new file ours, or brings an older one up to this layout, and keeps a write-ahead log beside it. Any number of programs may do that to one file at the same
/// time: each looks and writes in one transaction.
///
/// # Errors
/// As [`inspect`]; [`Error::Locked`], [`Error::Io`].
pub fn prepare(connection: &Connection, path: &Path) -> Result<(), Error> {
    let sql = |e| Error::of(path, e);
    connection.busy_timeout(PATIENCE).map_err(sql)?;
    // Looked at before anything is set: setting the journal mode writes to the file.
    inspect(connection, path)?;
    let until = Instant::now() + PATIENCE;
    // SQLite does not wait for another program that sets it.
    while let Err(error) = connection.pragma_update(None, "journal_mode", "wal") {
        let error = Error::of(path, error);
        if !matches!(error, Error::Locked { .. }) || Instant::now() >= until {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let to = Transaction::new_unchecked(connection, TransactionBehavior::Immediate).map_err(sql)?;
    match inspect(&to, path)? {
        Found::Empty => create(&to).map_err(sql)?,
        Found::Recording { version } => upgrade(&to, version).map_err(sql)?,
    }
    to.commit().map_err(sql)
}

/// All tables, and the marks that make the file ours.
fn create(to: &Transaction<'_>) -> rusqlite::Result<()> {
    let audits = audits();
    to.execute_batch(&format!(
        "{TABLES}
         {PRODUCTION}
         {CONTINUOUS}
         {LABELS}
         {ARRIVALS}
         {LATENCIES}
         {STACKS}
         {PROGRAMS}
         {THREADS}
         {OVERHEAD}
         {EPOCH_LABELS}
         {JOURNAL}
         {audits}
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {VERSION};"
    ))
}

/// Brings a file of an older layout up to this one, before anything is added to it.
fn upgrade(to: &Transaction<'_>, version: i64) -> rusqlite::Result<()> {
    if version >= VERSION {
        return Ok(());
    }
    let spans = if version < 2 { SPANS } else { "" };
    let (production, continuous) = if version < 3 { (PRODUCTION, CONTINUOUS) } else { ("", "") };
    let audits = if version < 4 { audits() } else { more_audits(to)? };
    let arrivals = if version < 8 { ARRIVALS } else { "" };
    let latencies = if version < 9 { LATENCIES } else { "" };
    let has =
        |table, column: &str| Ok::<_, rusqlite::Error>(columns(to, table)?.iter().any(|name| name == column));
    let stopped = if has("sessions", "stopped")? { "" } else { STOPPED };
    let timed = if has("sessions", "timed_samples")? { "" } else { TIMED };
    let stacks = if version < 11 { STACKS } else { "" };
    let is_narrow = (3..12).contains(&version) && !has("labels", "thread")?;
    let [aside, back] = if is_narrow { NARROW_LABELS } else { ["", ""] };
    let labels = if version < 3 || is_narrow { LABELS } else { "" };
    let squares = if version < 3 || has("books", "squares")? { "" } else { SQUARES };
    let journal = if version < 12 { JOURNAL } else { "" };
    let programs = if version < 14 { PROGRAMS } else { "" };
    to.execute_batch(&format!(
        "{spans}
         {production}
         {continuous}
         {arrivals}
         {latencies}
         {stacks}
         {aside}
         {labels}
         {back}
         {EPOCH_LABELS}
         {squares}
         {journal}
         {programs}
         {THREADS}
         {OVERHEAD}
         {audits}
         {stopped}
         {timed}
         PRAGMA user_version = {VERSION};"
    ))
}

/// Layouts 5 to 7, 10, 18 and 19 count more in `audits` than 4 did; what was not counted is zero.
fn more_audits(connection: &Connection) -> rusqlite::Result<String> {
    let there = columns(connection, "audits")?;
    let missing = AUDITED.into_iter().filter(|column| !there.iter().any(|name| name == column));
    Ok(missing
        .map(|column| format!("ALTER TABLE audits ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0;\n"))
        .collect())
}

/// The columns of a table.
pub fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut names = connection.prepare("SELECT name FROM pragma_table_info(?)")?;
    names.query_map([table], |row| row.get(0))?.collect()
}

/// What a file turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// A recording in a layout that this version reads.
    Recording {
        /// Which one.
        version: i64,
    },
    /// A database without any table: new, or its writer was killed before it began.
    Empty,
}

/// Looks at the marks of the file behind `connection`, at one moment.
pub fn inspect(connection: &Connection, path: &Path) -> Result<Found, Error> {
    let marks = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
                 FROM pragma_application_id, pragma_user_version";
    let marks = connection.query_row(marks, [], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?)));
    let (application, version, tables) = marks.map_err(|e| Error::of(path, e))?;
    match (application, version) {
        (APPLICATION_ID, 1..=VERSION) => {
            check(connection, path)?;
            Ok(Found::Recording { version })
        }
        (APPLICATION_ID, found) if found > VERSION => {
            Err(Error::Newer { path: path.to_owned(), found, known: VERSION })
        }
        (APPLICATION_ID, found) => {
            Err(Error::Damaged { path: path.to_owned(), detail: format!("there never was a format {found}") })
        }
        (0, 0) if tables == 0 => Ok(Found::Empty),
        _ => Err(Error::NotARecording { path: path.to_owned() }),
    }
}

/// Views, triggers and virtual tables are programs, which can be endless: none is of ours but one view, which we never read.
fn check(connection: &Connection, path: &Path) -> Result<(), Error> {
    let foreign = "SELECT name FROM pragma_table_list
                   WHERE schema = 'main' AND type <> 'table' AND (type, name) <> ('view', 'window_points')
                   UNION ALL SELECT name FROM sqlite_schema WHERE type = 'trigger' LIMIT 1";
    let found = connection.prepare(foreign).and_then(|mut foreign| {
        foreign.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
    });
    match found.map_err(|e| Error::of(path, e))?.first() {
        Some(name) => Err(Error::Damaged {
            path: path.to_owned(),
            detail: format!("it has something that whatif never makes: {}", crate::printable(name)),
        }),
        None => Ok(()),
    }
}

/// What layout 11 added.
const STOPPED: &str = "ALTER TABLE sessions ADD COLUMN stopped INTEGER NOT NULL DEFAULT 0;";

/// What layout 17 added.
const TIMED: &str = "ALTER TABLE sessions ADD COLUMN timed_samples INTEGER NOT NULL DEFAULT 0;";

/// What layout 2 added.
const SPANS: &str = "
ALTER TABLE visits ADD COLUMN span_visits INTEGER;
ALTER TABLE visits ADD COLUMN span_elapsed_ns INTEGER;
ALTER TABLE visits ADD COLUMN span_required_ns INTEGER;
";

/// What layout 3 added for costs in production.
const PRODUCTION: &str = "
CREATE TABLE production (
    session      INTEGER NOT NULL REFERENCES sessions,
    region       INTEGER NOT NULL REFERENCES regions,
    share        REAL NOT NULL,
    samples      INTEGER NOT NULL,
    since_unix_s INTEGER NOT NULL,
    until_unix_s INTEGER NOT NULL,
    hosts        INTEGER NOT NULL,
    PRIMARY KEY (session, region)
) WITHOUT ROWID;
";

/// What layout 3 added for continuous profiles. What layout 4 added: [`audits`].
const CONTINUOUS: &str = "
CREATE TABLE machines (
    id     INTEGER PRIMARY KEY,
    key    TEXT NOT NULL UNIQUE,
    host   TEXT NOT NULL,
    kernel TEXT NOT NULL,
    cpus   INTEGER NOT NULL
);
CREATE TABLE epochs (
    id             INTEGER PRIMARY KEY,
    uid            TEXT NOT NULL UNIQUE,
    machine        INTEGER NOT NULL REFERENCES machines,
    name           TEXT,
    scope          TEXT NOT NULL,
    mode           TEXT NOT NULL,
    sampler        TEXT NOT NULL,
    rate_hz        REAL NOT NULL,
    resolution_ns  INTEGER NOT NULL,
    version        TEXT NOT NULL,
    started_unix_s INTEGER NOT NULL,
    ended_unix_s   INTEGER,
    flushes        INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE epoch_events (
    epoch    INTEGER NOT NULL REFERENCES epochs,
    position INTEGER NOT NULL,
    name     TEXT NOT NULL,
    PRIMARY KEY (epoch, position)
) WITHOUT ROWID;
CREATE TABLE events (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
CREATE TABLE code_images (
    id       INTEGER PRIMARY KEY,
    path     TEXT NOT NULL,
    build_id TEXT NOT NULL,
    kind     TEXT NOT NULL,
    UNIQUE (path, build_id, kind)
);
CREATE TABLE names (
    id   INTEGER PRIMARY KEY,
    hash INTEGER NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX names_by_hash ON names (hash);
CREATE TABLE symbols (
    image    INTEGER NOT NULL REFERENCES code_images,
    \"offset\" INTEGER NOT NULL,
    position INTEGER NOT NULL,
    function INTEGER NOT NULL,
    file     INTEGER NOT NULL,
    line     INTEGER NOT NULL,
    PRIMARY KEY (image, \"offset\", position)
) WITHOUT ROWID;
CREATE TABLE segments (
    id            INTEGER PRIMARY KEY,
    epoch         INTEGER NOT NULL REFERENCES epochs,
    first_flush   INTEGER NOT NULL,
    last_flush    INTEGER NOT NULL,
    begin_unix_s  INTEGER NOT NULL,
    last_unix_s   INTEGER NOT NULL,
    resolution_ns INTEGER NOT NULL,
    level         INTEGER NOT NULL,
    nodes         INTEGER NOT NULL,
    samples       INTEGER NOT NULL,
    stacks_file   TEXT NOT NULL,
    samples_file  TEXT NOT NULL,
    stacks_bytes  INTEGER NOT NULL,
    samples_bytes INTEGER NOT NULL,
    images        TEXT NOT NULL,
    labels        TEXT NOT NULL
);
CREATE TABLE books (
    epoch         INTEGER NOT NULL REFERENCES epochs,
    first_flush   INTEGER NOT NULL,
    event         INTEGER NOT NULL REFERENCES events,
    last_flush    INTEGER NOT NULL,
    start_unix_s  INTEGER NOT NULL,
    length_ns     INTEGER NOT NULL,
    expected      INTEGER NOT NULL,
    stored        INTEGER NOT NULL,
    unknown       INTEGER NOT NULL,
    lost          INTEGER NOT NULL,
    idle          INTEGER NOT NULL,
    covered_ns    INTEGER NOT NULL,
    own_cpu_ns    INTEGER NOT NULL,
    kernel_cpu_ns INTEGER NOT NULL,
    resident      INTEGER NOT NULL,
    squares       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (epoch, first_flush, event, start_unix_s)
) WITHOUT ROWID;
";

/// What layout 8 added.
const ARRIVALS: &str = "
CREATE TABLE IF NOT EXISTS arrivals (
    session  INTEGER NOT NULL REFERENCES sessions,
    kind     TEXT NOT NULL,
    port     INTEGER NOT NULL,
    clock    TEXT NOT NULL,
    slope    REAL,
    slope_se REAL,
    count    INTEGER NOT NULL,
    PRIMARY KEY (session, kind, port)
) WITHOUT ROWID;
";

/// What layout 14 added.
const PROGRAMS: &str = "
CREATE TABLE IF NOT EXISTS programs (
    session   INTEGER NOT NULL REFERENCES sessions,
    path      TEXT NOT NULL,
    obstacle  TEXT NOT NULL,
    processes INTEGER NOT NULL,
    samples   INTEGER NOT NULL,
    cpu_ns    INTEGER NOT NULL,
    PRIMARY KEY (session, path, obstacle)
) WITHOUT ROWID;
";

/// What layout 15 added.
const THREADS: &str = "
CREATE TABLE IF NOT EXISTS threads (
    session        INTEGER NOT NULL REFERENCES sessions,
    pid            INTEGER NOT NULL,
    tid            INTEGER NOT NULL,
    name           TEXT NOT NULL,
    function       TEXT NOT NULL,
    watched_ns     INTEGER NOT NULL,
    running_ns     INTEGER NOT NULL,
    runnable_ns    INTEGER NOT NULL,
    for_threads_ns INTEGER NOT NULL,
    external_ns    INTEGER NOT NULL,
    PRIMARY KEY (session, pid, tid)
) WITHOUT ROWID;
";

/// What layout 16 added.
const OVERHEAD: &str = "
CREATE TABLE IF NOT EXISTS overhead (
    session         INTEGER NOT NULL REFERENCES sessions,
    number          INTEGER NOT NULL,
    profiled_visits INTEGER NOT NULL,
    profiled_ns     INTEGER NOT NULL,
    seldom_visits  INTEGER NOT NULL,
    seldom_ns      INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
";

/// What layout 9 added.
const LATENCIES: &str = "
CREATE TABLE IF NOT EXISTS latencies (
    \"window\" INTEGER NOT NULL REFERENCES windows,
    point    INTEGER NOT NULL REFERENCES points,
    counts   TEXT NOT NULL,
    PRIMARY KEY (\"window\", point)
) WITHOUT ROWID;
";

/// What layout 11 added. Stacks are of the whole recording, so that a hundred runs of the same program have one tree.
const STACKS: &str = "
CREATE TABLE IF NOT EXISTS functions (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    file       TEXT NOT NULL,
    image_path TEXT NOT NULL,
    build_id   TEXT NOT NULL,
    UNIQUE (name, file, image_path, build_id)
);
CREATE TABLE IF NOT EXISTS stacks (
    id       INTEGER PRIMARY KEY,
    parent   INTEGER NOT NULL,
    function INTEGER NOT NULL REFERENCES functions,
    line     INTEGER NOT NULL,
    inlined  INTEGER NOT NULL,
    UNIQUE (parent, function, line, inlined)
);
CREATE TABLE IF NOT EXISTS stack_samples (
    session   INTEGER NOT NULL REFERENCES sessions,
    stack     INTEGER NOT NULL REFERENCES stacks,
    count     INTEGER NOT NULL,
    weight_ns INTEGER NOT NULL,
    PRIMARY KEY (session, stack)
) WITHOUT ROWID;
";

/// Who ran.
const LABELS: &str = "
CREATE TABLE labels (
    id          INTEGER PRIMARY KEY,
    process     TEXT NOT NULL,
    cgroup      TEXT NOT NULL,
    thread      TEXT NOT NULL DEFAULT '',
    pid         INTEGER NOT NULL DEFAULT 0,
    command     TEXT NOT NULL DEFAULT '',
    user_labels TEXT NOT NULL DEFAULT '',
    UNIQUE (process, cgroup, thread, pid, command, user_labels)
);
";

/// What layout 12 changed: a label has more columns. Those that were unique must not be any more, so the table is another one.
const NARROW_LABELS: [&str; 2] = [
    "ALTER TABLE labels RENAME TO narrow_labels;",
    "INSERT INTO labels (id, process, cgroup) SELECT id, process, cgroup FROM narrow_labels;
     DROP TABLE narrow_labels;",
];

/// What layout 13 added to the books: of events whose samples were taken several at a time, the sum of the squares of how many.
const SQUARES: &str = "ALTER TABLE books ADD COLUMN squares INTEGER NOT NULL DEFAULT 0;";

/// What layout 12 added.
const EPOCH_LABELS: &str = "
CREATE TABLE IF NOT EXISTS epoch_labels (
    epoch INTEGER NOT NULL REFERENCES epochs,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (epoch, name)
) WITHOUT ROWID;
";

/// What is counted in the audit of a window: the columns of `audits`, in order. An audit of a window has the same names.
pub const AUDITED: [&str; 37] = [
    "given_ns",
    "deferred_ns",
    "spinning_ns",
    "late_ns",
    "unknown_code_ns",
    "extra_ns",
    "cut_ns",
    "cpu_ns",
    "pausing_ns",
    "unprofiled_ns",
    "watched_ns",
    "blocked_ns",
    "in_waits_ns",
    "in_world_ns",
    "in_hidden_ns",
    "in_pauses_ns",
    "queued_ns",
    "unexplained_ns",
    "inherited_ns",
    "grown_ns",
    "handovers",
    "sections",
    "waking_ns",
    "taken_back_ns",
    "serving_ns",
    "idle_ns",
    "doubtful_ns",
    "sliced_ns",
    "sliced_virtual_ns",
    "sliced_queued_ns",
    "crowded",
    "noting_ns",
    "answered_ns",
    "executing_ns",
    "allowed_ns",
    "throttled_ns",
    "held_up_ns",
];

/// What layout 4 added.
fn audits() -> String {
    let amounts: String = AUDITED.iter().map(|column| format!(",\n    {column} INTEGER NOT NULL")).collect();
    format!("CREATE TABLE audits (\n    \"window\" INTEGER PRIMARY KEY REFERENCES windows{amounts}\n);")
}

const TABLES: &str = "
CREATE TABLE sessions (
    id               INTEGER PRIMARY KEY,
    started_unix_ns  INTEGER NOT NULL,
    program          TEXT NOT NULL,
    directory        TEXT NOT NULL,
    host             TEXT NOT NULL,
    kernel           TEXT NOT NULL,
    cpus             INTEGER NOT NULL,
    seed             TEXT NOT NULL,
    options          TEXT NOT NULL,
    version          TEXT NOT NULL,
    sampler          TEXT NOT NULL,
    sample_period_ns INTEGER NOT NULL,
    kernel_time      INTEGER NOT NULL,
    repeat           INTEGER NOT NULL,
    fixed_regions    INTEGER NOT NULL,
    fixed_speedups   INTEGER NOT NULL,
    duration_ns      INTEGER,
    exit             TEXT,
    exit_value       INTEGER,
    stopped          INTEGER NOT NULL DEFAULT 0,
    sampled_until_ns INTEGER NOT NULL DEFAULT 0,
    delayed_ns       INTEGER NOT NULL DEFAULT 0,
    samples          INTEGER NOT NULL DEFAULT 0,
    sample_weight_ns INTEGER NOT NULL DEFAULT 0,
    lost_samples     INTEGER NOT NULL DEFAULT 0,
    timed_samples    INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE arguments (
    session  INTEGER NOT NULL REFERENCES sessions,
    position INTEGER NOT NULL,
    argument TEXT NOT NULL,
    PRIMARY KEY (session, position)
) WITHOUT ROWID;
CREATE TABLE images (
    session  INTEGER NOT NULL REFERENCES sessions,
    path     TEXT NOT NULL,
    build_id TEXT NOT NULL,
    PRIMARY KEY (session, path, build_id)
) WITHOUT ROWID;
CREATE TABLE regions (
    id         INTEGER PRIMARY KEY,
    kind       TEXT NOT NULL,
    inclusive  INTEGER NOT NULL,
    name       TEXT NOT NULL,
    file       TEXT NOT NULL,
    line       INTEGER,
    function   TEXT,
    image_path TEXT NOT NULL,
    build_id   TEXT,
    image_key  TEXT NOT NULL,
    UNIQUE (kind, inclusive, name, file, image_key)
);
CREATE TABLE points (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    UNIQUE (name, kind)
);
CREATE TABLE windows (
    id               INTEGER PRIMARY KEY,
    session          INTEGER NOT NULL REFERENCES sessions,
    block            INTEGER NOT NULL,
    index_in_block   INTEGER NOT NULL,
    region           INTEGER NOT NULL REFERENCES regions,
    speedup_permille INTEGER NOT NULL,
    epoch            INTEGER NOT NULL,
    start_ns         INTEGER NOT NULL,
    elapsed_ns       INTEGER NOT NULL,
    required_ns      INTEGER NOT NULL,
    region_samples   INTEGER NOT NULL,
    region_weight_ns INTEGER NOT NULL,
    total_samples    INTEGER NOT NULL,
    total_weight_ns  INTEGER NOT NULL,
    owed_ns          INTEGER NOT NULL,
    paid_ns          INTEGER NOT NULL,
    credited_ns      INTEGER NOT NULL,
    overslept_ns     INTEGER NOT NULL,
    unpaid_ns        INTEGER NOT NULL,
    threads          INTEGER NOT NULL,
    busy             REAL,
    flags            TEXT NOT NULL,
    UNIQUE (session, block, index_in_block)
);
CREATE TABLE visits (
    \"window\" INTEGER NOT NULL REFERENCES windows,
    point    INTEGER NOT NULL REFERENCES points,
    count    INTEGER NOT NULL,
    span_visits      INTEGER,
    span_elapsed_ns  INTEGER,
    span_required_ns INTEGER,
    PRIMARY KEY (\"window\", point)
) WITHOUT ROWID;
CREATE TABLE in_flight (
    \"window\" INTEGER NOT NULL REFERENCES windows,
    point    INTEGER NOT NULL REFERENCES points,
    visit_ns INTEGER NOT NULL,
    PRIMARY KEY (\"window\", point)
) WITHOUT ROWID;
CREATE TABLE samples (
    session   INTEGER NOT NULL REFERENCES sessions,
    region    INTEGER NOT NULL REFERENCES regions,
    count     INTEGER NOT NULL,
    weight_ns INTEGER NOT NULL,
    PRIMARY KEY (session, region)
) WITHOUT ROWID;
CREATE TABLE snippets (
    region     INTEGER PRIMARY KEY REFERENCES regions,
    first_line INTEGER NOT NULL,
    text       TEXT NOT NULL
);
CREATE TABLE warnings (
    id      INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions,
    code    TEXT NOT NULL,
    message TEXT NOT NULL,
    advice  TEXT NOT NULL,
    UNIQUE (session, code, message)
);
CREATE VIEW window_points AS
    SELECT w.session, w.block, w.index_in_block, r.name AS region, r.kind AS region_kind,
           w.speedup_permille / 10.0 AS speedup_percent,
           w.elapsed_ns, w.elapsed_ns - w.required_ns AS effective_ns,
           p.name AS point, p.kind AS point_kind, v.count AS visits,
           (w.elapsed_ns - w.required_ns) / NULLIF(v.count, 0) AS period_ns,
           w.region_samples, w.flags
    FROM windows w
    JOIN regions r ON r.id = w.region
    JOIN visits v ON v.\"window\" = w.id
    JOIN points p ON p.id = v.point
    ORDER BY w.session, w.block, w.index_in_block, p.name, p.kind;
";
