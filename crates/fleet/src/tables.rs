//! Tables: what the server keeps, and how it is made.
//!
//! A server by itself has the tables under their names. Where there are shards, each has its part of a table as `NAME_shard`, and under the name stands a table that
//! asks all of them (`Distributed`). So statements are the same for both.

/// The version of the tables that this program knows.
pub const VERSION: u32 = 2;
/// The table that says which version the others have.
pub const SCHEMA: &str = "schema_version";
/// Samples by minute.
pub const SAMPLES: &str = "samples";
/// The same samples by hour and without stacks: what most questions are answered from.
pub const HOURS: &str = "hours";
/// What became of samples.
pub const BOOKS: &str = "books";
/// The frames of stacks.
pub const STACKS: &str = "stacks";
/// Files that samples fall into.
pub const IMAGES: &str = "images";
/// Names of code.
pub const SYMBOLS: &str = "symbols";
/// Spans of time with one setting of a collector.
pub const EPOCHS: &str = "epochs";
/// Runs of programs under causal profiling.
pub const RUNS: &str = "runs";
/// Pieces of code that experiments were made on.
pub const REGIONS: &str = "regions";
/// The windows of experiments.
pub const WINDOWS: &str = "windows";

/// A table.
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// Names and types of its columns, in the order that rows are sent in.
    pub columns: &'static [(&'static str, &'static str)],
    /// The engine on one server, with its arguments.
    engine: &'static str,
    /// What its parts are divided by; nothing: it is one.
    partition: &'static str,
    /// What rows are sorted by, and are one if they have it in common.
    order: &'static str,
    /// What decides on which shard a row is. All rows of a batch of an additive table are on one.
    shard: &'static str,
}

/// Few different texts, which are stored as numbers.
const FEW: &str = "LowCardinality(String)";

/// All of them, in the order in which they are written: what others refer to comes first.
pub const ALL: [Definition; 10] = [
    Definition {
        name: EPOCHS,
        columns: &[
            ("epoch", "String"),
            ("machine", FEW),
            ("host", FEW),
            ("kernel", FEW),
            ("cpus", "UInt32"),
            ("scope", FEW),
            ("mode", FEW),
            ("sampler", FEW),
            ("rate_hz", "Float64"),
            ("resolution_ns", "UInt64"),
            ("whatif", FEW),
            ("labels", FEW),
            ("started", "DateTime"),
            ("sent", "DateTime"),
        ],
        engine: "ReplacingMergeTree(sent)",
        partition: "",
        order: "epoch",
        shard: "cityHash64(machine)",
    },
    Definition {
        name: IMAGES,
        columns: &[("build", "String"), ("path", "String"), ("kind", FEW)],
        engine: "ReplacingMergeTree()",
        partition: "",
        order: "build, path, kind",
        shard: "cityHash64(build)",
    },
    Definition {
        name: SYMBOLS,
        columns: &[("build", FEW), ("build_offset", "UInt64"), ("names", "String")],
        engine: "ReplacingMergeTree()",
        partition: "",
        order: "build, build_offset, names",
        shard: "cityHash64(build)",
    },
    Definition {
        name: STACKS,
        columns: &[("stack", "FixedString(16)"), ("builds", "Array(String)"), ("offsets", "Array(UInt64)")],
        engine: "ReplacingMergeTree()",
        partition: "",
        order: "stack",
        shard: "cityHash64(stack)",
    },
    Definition {
        name: SAMPLES,
        columns: &[
            ("minute", "DateTime"),
            ("machine", FEW),
            ("host", FEW),
            ("epoch", FEW),
            ("service", FEW),
            ("version", FEW),
            ("process", FEW),
            ("labels", FEW),
            ("event", FEW),
            ("build", FEW),
            ("build_offset", "UInt64"),
            ("stack", "FixedString(16)"),
            ("count", "UInt64"),
        ],
        engine: "SummingMergeTree(count)",
        partition: "toYYYYMMDD(minute, 'UTC')",
        // The minutes of a frame are neighbours, which takes least room.
        order: "event, service, version, machine, host, process, labels, epoch, build, build_offset, stack, minute",
        shard: "cityHash64(machine)",
    },
    Definition {
        name: HOURS,
        columns: &[
            ("start", "DateTime"),
            ("machine", FEW),
            ("host", FEW),
            ("epoch", FEW),
            ("service", FEW),
            ("version", FEW),
            ("process", FEW),
            ("labels", FEW),
            ("event", FEW),
            ("build", FEW),
            ("build_offset", "UInt64"),
            ("count", "UInt64"),
        ],
        engine: "SummingMergeTree(count)",
        partition: "toYYYYMMDD(start, 'UTC')",
        order: "event, service, version, machine, host, process, labels, epoch, build, build_offset, start",
        shard: "cityHash64(machine)",
    },
    Definition {
        name: BOOKS,
        columns: &[
            ("start", "DateTime"),
            ("machine", FEW),
            ("host", FEW),
            ("epoch", FEW),
            ("event", FEW),
            ("length_ns", "UInt64"),
            ("expected", "UInt64"),
            ("stored", "UInt64"),
            ("unknown", "UInt64"),
            ("lost", "UInt64"),
            ("idle", "UInt64"),
            ("covered_ns", "UInt64"),
            ("own_cpu_ns", "UInt64"),
            ("kernel_cpu_ns", "UInt64"),
            ("squares", "UInt64"),
        ],
        engine: "SummingMergeTree((expected, stored, unknown, lost, idle, covered_ns, own_cpu_ns, kernel_cpu_ns, squares))",
        partition: "toYYYYMM(start, 'UTC')",
        order: "event, machine, host, epoch, start, length_ns",
        shard: "cityHash64(machine)",
    },
    Definition {
        name: REGIONS,
        columns: &[
            ("region", "FixedString(16)"),
            ("kind", FEW),
            ("inclusive", "UInt8"),
            ("name", "String"),
            ("function", "String"),
            ("file", FEW),
            ("line", "UInt32"),
            ("path", FEW),
            ("build_id", FEW),
        ],
        engine: "ReplacingMergeTree()",
        partition: "",
        order: "region",
        shard: "cityHash64(region)",
    },
    // Before the runs that they are of: what says that a run is there comes last.
    Definition {
        name: WINDOWS,
        columns: &[
            ("started", "DateTime"),
            ("machine", FEW),
            ("host", FEW),
            ("service", FEW),
            ("version", FEW),
            // Neighbours have the same one.
            ("run", "String"),
            ("block", "Int64"),
            ("place", "UInt32"),
            ("region", "FixedString(16)"),
            ("speedup_permille", "UInt16"),
            ("epoch", "UInt64"),
            ("start_ns", "UInt64"),
            ("elapsed_ns", "UInt64"),
            ("required_ns", "UInt64"),
            ("region_samples", "UInt64"),
            ("region_weight_ns", "UInt64"),
            ("total_samples", "UInt64"),
            ("total_weight_ns", "UInt64"),
            ("owed_ns", "UInt64"),
            ("paid_ns", "UInt64"),
            ("credited_ns", "UInt64"),
            ("overslept_ns", "UInt64"),
            ("unpaid_ns", "UInt64"),
            ("threads", "UInt32"),
            ("busy", "Float64"),
            ("flags", FEW),
            ("audit", "Array(UInt64)"),
            ("point_kinds", "Array(String)"),
            ("points", "Array(String)"),
            ("visits", "Array(UInt64)"),
            ("span_visits", "Array(Int64)"),
            ("span_elapsed_ns", "Array(Int64)"),
            ("span_required_ns", "Array(Int64)"),
            ("in_flight", "Array(String)"),
            ("in_flight_visit_ns", "Array(Int64)"),
            ("latency_points", "Array(String)"),
            ("latencies", "Array(String)"),
        ],
        engine: "ReplacingMergeTree()",
        partition: "toYYYYMM(started, 'UTC')",
        order: "service, machine, run, block, place",
        shard: "cityHash64(machine)",
    },
    Definition {
        name: RUNS,
        columns: &[
            ("run", "String"),
            ("started", "DateTime"),
            ("started_ns", "UInt64"),
            ("length_ns", "UInt64"),
            ("machine", FEW),
            ("host", FEW),
            ("service", FEW),
            ("version", FEW),
            ("program", FEW),
            ("kernel", FEW),
            ("cpus", "UInt32"),
            ("whatif", FEW),
            ("sampler", FEW),
            ("sample_period_ns", "UInt64"),
            ("sampled_until_ns", "UInt64"),
            ("delayed_ns", "UInt64"),
            ("samples", "UInt64"),
            ("sample_weight_ns", "UInt64"),
            ("lost_samples", "UInt64"),
            ("windows", "UInt64"),
            ("regions", "Array(FixedString(16))"),
            ("region_samples", "Array(UInt64)"),
            ("region_weights_ns", "Array(UInt64)"),
            ("sent", "DateTime"),
        ],
        engine: "ReplacingMergeTree(sent)",
        partition: "toYYYYMM(started, 'UTC')",
        order: "run",
        shard: "cityHash64(machine)",
    },
];

/// What was said of experiments on all machines; since version 2. All rows are on one shard.
pub const ORDERS: Definition = Definition {
    name: "orders",
    columns: &[("number", "UInt64"), ("stopped", "UInt8"), ("reason", "String"), ("who", "String")],
    engine: "MergeTree()",
    partition: "",
    order: "number",
    shard: "0",
};

impl Definition {
    /// The statements that make it in a database, on one server; of a cluster, on one of its shards.
    pub fn statements(&self, database: &str, cluster: Option<&str>) -> Vec<String> {
        let columns: Vec<String> = self.columns.iter().map(|(name, of)| format!("{name} {of}")).collect();
        let columns = columns.join(", ");
        let partition = match self.partition {
            "" => String::new(),
            by => format!(" PARTITION BY {by}"),
        };
        let name = self.name;
        let stored = if cluster.is_some() { format!("{name}_shard") } else { name.to_owned() };
        let mut all = vec![format!(
            "CREATE TABLE IF NOT EXISTS {database}.{stored} ({columns}) ENGINE = {}{partition} ORDER BY ({})",
            self.engine, self.order
        )];
        all.extend(cluster.map(|cluster| {
            format!(
                "CREATE TABLE IF NOT EXISTS {database}.{name} ({columns}) ENGINE = Distributed({cluster}, {database}, {stored}, {})",
                self.shard
            )
        }));
        all
    }
}

/// The statement that makes the table of versions.
pub fn schema_statement(database: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {database}.{SCHEMA} (version UInt32, at DateTime, fleet String, cluster String) \
         ENGINE = MergeTree ORDER BY version"
    )
}

/// The statements that let a server remove what is older than so many days; of a cluster, on one of its shards. Servers before 19.6 have nothing like it.
pub fn keep(days: u32, database: &str, cluster: Option<&str>) -> Vec<String> {
    let shard = if cluster.is_some() { "_shard" } else { "" };
    let of = |(table, time)| {
        format!("ALTER TABLE {database}.{table}{shard} MODIFY TTL {time} + INTERVAL {days} DAY")
    };
    [(SAMPLES, "minute"), (HOURS, "start"), (BOOKS, "start"), (WINDOWS, "started"), (RUNS, "started")]
        .map(of)
        .to_vec()
}

/// The statements that make all tables; of a cluster, on one of its shards.
pub fn statements(database: &str, cluster: Option<&str>) -> Vec<String> {
    ALL.iter().chain([&ORDERS]).flat_map(|table| table.statements(database, cluster)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_have_their_part_and_a_table_of_all() {
        let samples = &ALL[4];
        let single = samples.statements("whatif", None);
        assert_eq!(single.len(), 1);
        assert!(single[0].starts_with("CREATE TABLE IF NOT EXISTS whatif.samples (minute DateTime, "));
        let sharded = samples.statements("whatif", Some("all"));
        assert!(
            sharded[0].contains("whatif.samples_shard ") && sharded[0].contains("SummingMergeTree(count)")
        );
        assert!(
            sharded[1].ends_with("ENGINE = Distributed(all, whatif, samples_shard, cityHash64(machine))")
        );
    }

    #[test]
    fn what_counts_is_not_part_of_the_key() {
        for table in &ALL {
            let key: Vec<&str> = table.order.split(", ").collect();
            let rest = table.columns.iter().map(|(name, _)| *name).filter(|name| !key.contains(name));
            if table.engine.starts_with("Summing") {
                assert!(rest.clone().all(|name| table.engine.contains(name)), "{}", table.name);
            }
            assert!(
                key.iter().all(|key| table.columns.iter().any(|(name, _)| name == key)),
                "{}",
                table.name
            );
        }
        assert_eq!(statements("whatif", None).len(), ALL.len() + 1);
        // A part of each table, and the table of all parts.
        assert_eq!(statements("whatif", Some("all")).len(), 2 * (ALL.len() + 1));
        assert_eq!(
            keep(90, "whatif", Some("all"))[0],
            "ALTER TABLE whatif.samples_shard MODIFY TTL minute + INTERVAL 90 DAY"
        );
    }
}
