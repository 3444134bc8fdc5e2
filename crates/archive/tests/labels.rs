//! Labels: all that one has is kept, in new databases, those of older layouts and merged ones.

use crate::expected::setting;
use archive::{
    Batch, CodeImage, Count, Database, EpochId, ImageKind, Label, MachineInfo, Node, Offset, Selection,
    Store, UnixSeconds,
};
use std::collections::BTreeMap;
use std::path::Path;

const START: UnixSeconds = UnixSeconds(1_700_000_000);

fn whole(number: u32) -> Label {
    Label {
        process: "server".into(),
        cgroup: "/system.slice/server.service".into(),
        thread: format!("worker-{number}"),
        pid: number,
        command: format!("server --port {number}"),
        user_labels: [("shard".to_owned(), format!("\"{number}\" \\"))].into(),
    }
}

/// One sample for each of the labels.
fn flush(store: &mut Store, epoch: EpochId, labels: &[Label]) {
    let image = CodeImage { path: "/bin/server".into(), build_id: String::new(), kind: ImageKind::File };
    let (image, event) = (store.image(&image).unwrap(), store.event("cpu-clock").unwrap());
    let mut batch =
        Batch { nodes: vec![Node { parent: Node::NONE, image, offset: Offset(1) }], ..Batch::default() };
    for label in labels {
        let label = store.label(label).unwrap();
        batch.counts.push(Count { time: START, label, event, node: 0, count: 1 });
    }
    store.flush(epoch, &batch).unwrap();
}

fn begin(store: &mut Store) -> EpochId {
    let machine = MachineInfo { key: "m".into(), host: "m".into(), kernel: "6.1".into(), cpus: 2 };
    let machine = store.machine(&machine).unwrap();
    store.begin_epoch(machine, &setting(), None, START).unwrap()
}

fn labels(folder: &Path) -> Vec<Label> {
    let mut labels: Vec<Label> = Database::open(folder).unwrap().labels().unwrap().into_values().collect();
    labels.sort_by(|a, b| (&a.process, &a.thread).cmp(&(&b.process, &b.thread)));
    labels
}

#[test]
fn all_that_a_label_has_is_kept_also_by_merging() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let all = [whole(1), whole(2)];
    let mut store = Store::open(one.path()).unwrap();
    let epoch = begin(&mut store);
    flush(&mut store, epoch, &all);
    flush(&mut store, epoch, &all);
    drop(store);
    assert_eq!(labels(one.path()), all);
    let from = Database::open(one.path()).unwrap();
    Store::open(other.path()).unwrap().merge(&from).unwrap();
    assert_eq!(labels(other.path()), all);
    let epochs = Database::open(other.path()).unwrap().epochs().unwrap();
    assert_eq!(epochs[0].setting.labels, BTreeMap::from([("region".to_owned(), "eu-1".to_owned())]));
    assert_eq!(epochs[0].setting, setting());
}

#[test]
fn a_catalogue_of_layout_11_is_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let old = Label { process: "old".into(), cgroup: "/old".into(), ..Label::default() };
    let epoch = begin(&mut store);
    flush(&mut store, epoch, std::slice::from_ref(&old));
    drop(store);
    // As layout 11 had it.
    let catalogue = rusqlite::Connection::open(folder.path().join("catalogue.db")).unwrap();
    catalogue
        .execute_batch(
            "CREATE TABLE l (id INTEGER PRIMARY KEY, process TEXT NOT NULL, cgroup TEXT NOT NULL, UNIQUE (process, cgroup));
             INSERT INTO l SELECT id, process, cgroup FROM labels;
             DROP TABLE labels;
             ALTER TABLE l RENAME TO labels;
             DROP TABLE epoch_labels;
             PRAGMA user_version = 11;",
        )
        .unwrap();
    drop(catalogue);
    // A reader that was there before the writer reads on.
    let reader = Database::open(folder.path()).unwrap();
    assert_eq!(labels(folder.path()), std::slice::from_ref(&old));
    assert!(reader.epochs().unwrap()[0].setting.labels.is_empty());
    let keys: Vec<_> = reader.labels().unwrap().into_keys().collect();
    let mut store = Store::open(folder.path()).unwrap();
    let epoch = begin(&mut store);
    // One that differs in its thread alone, which layout 11 did not keep apart.
    let threads = Label { thread: "worker".into(), ..old.clone() };
    flush(&mut store, epoch, &[old.clone(), threads.clone()]);
    assert_eq!(labels(folder.path()), [old.clone(), threads]);
    let known = reader.labels().unwrap();
    assert_eq!(known[&keys[0]], old, "it keeps its key");
    let of_key = Selection { labels: Some(keys), ..Selection::default() };
    assert_eq!(reader.leaves(&of_key).unwrap()[0].count, 2);
    assert_eq!(reader.leaves(&Selection::default()).unwrap()[0].count, 3);
    assert_eq!(reader.epochs().unwrap().len(), 2);
}

#[test]
fn user_labels_have_names_and_values_that_can_be_typed() {
    for (name, is_one) in [("shard", true), ("a.b_c-1", true), ("", false), ("Shard", false), ("a b", false)]
    {
        assert_eq!(archive::is_label_name(name), is_one, "{name}");
    }
    assert!(!archive::is_label_name(&"x".repeat(33)));
    for (value, is_one) in
        [("3", true), ("ü \"x\"", true), ("", false), ("a\nb", false), ("\u{202e}x", false)]
    {
        assert_eq!(archive::is_label_value(value), is_one, "{value}");
    }
    assert!(!archive::is_label_value(&"x".repeat(129)));
}
