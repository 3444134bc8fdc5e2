//! The program: which images and which processes of a database are the ones that is run.

use archive::{CodeImage, ImageId, ImageKind, Label, LabelId};
use cycles::last;
use std::collections::BTreeMap;

/// As many bytes of a process name the kernel keeps.
const COMM: usize = 15;
/// A process of another name is the program's if so much of what is sampled in its file is of that process: before
/// `exec` it has its parent's name, but not for long.
const MUCH: f64 = 0.1;

/// The file of the program that is run.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its path, without links.
    pub path: String,
    pub build_id: Option<String>,
}

/// The images of a database that are the program's file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Images of the build that is run.
    pub same: Vec<ImageId>,
    /// Images of other builds.
    pub others: Vec<ImageId>,
}

impl Program {
    /// The last part of its path.
    pub fn name(&self) -> &str {
        last(&self.path)
    }

    /// Finds it: by build, or else by path, or at least by the name of its file.
    pub fn find(&self, images: &BTreeMap<ImageId, CodeImage>) -> Found {
        let files = || images.iter().filter(|(_, image)| image.kind == ImageKind::File);
        let build = self.build_id.as_deref().unwrap_or("");
        let is_same = |image: &CodeImage| match build {
            "" => image.build_id.is_empty() && image.path == self.path,
            build => image.build_id == build,
        };
        let ids = |of: &dyn Fn(&CodeImage) -> bool| -> Vec<ImageId> {
            files().filter(|(_, image)| of(image)).map(|(id, _)| *id).collect()
        };
        let same = ids(&is_same);
        let mut others = ids(&|image| !is_same(image) && image.path == self.path);
        if same.is_empty() && others.is_empty() {
            others = ids(&|image| last(&image.path) == self.name());
        }
        Found { same, others }
    }

    /// The labels of the processes that run it, with all their threads. `inside`: samples of each label in the program's file.
    pub fn processes<'l>(
        &self,
        labels: &'l BTreeMap<LabelId, Label>,
        inside: &BTreeMap<LabelId, u64>,
    ) -> Vec<LabelId> {
        let all: u64 = inside.values().sum();
        let name = self.name();
        let end = (0..=COMM.min(name.len())).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
        let much = |count: u64| count > 0 && count as f64 >= MUCH * all as f64;
        let key = |label: &'l Label| (label.process.as_str(), label.cgroup.as_str());
        let mut processes: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (id, count) in inside {
            if let Some(label) = labels.get(id) {
                *processes.entry(key(label)).or_insert(0) += count;
            }
        }
        processes.retain(|(process, _), count| *count > 0 && *process == &name[..end] || much(*count));
        labels.iter().filter(|(_, label)| processes.contains_key(&key(label))).map(|(id, _)| *id).collect()
    }
}

/// The beginning of a build ID, for people.
pub fn short(build: &str) -> String {
    match build.char_indices().nth(8) {
        Some((end, _)) => format!("{}…", &build[..end]),
        None => build.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_build_is_the_program_wherever_it_lies() {
        let image = |path: &str, build_id: &str, kind| CodeImage {
            path: path.to_owned(),
            build_id: build_id.to_owned(),
            kind,
        };
        let images: BTreeMap<ImageId, CodeImage> = [
            image("/srv/server", "aa", ImageKind::File),
            image("/old/server", "aa", ImageKind::File),
            image("/srv/server", "bb", ImageKind::File),
            image("/else/server", "cc", ImageKind::File),
            image("/lib/libc.so.6", "dd", ImageKind::File),
            image("[kernel]", "", ImageKind::Kernel),
            image("/srv/plain", "", ImageKind::File),
        ]
        .into_iter()
        .zip(1..)
        .map(|(image, id)| (ImageId::new(id), image))
        .collect();
        let ids = |ids: &[i64]| ids.iter().map(|id| ImageId::new(*id)).collect::<Vec<_>>();
        for (path, build, same, others) in [
            ("/srv/server", Some("aa"), &[1, 2][..], &[3][..]),
            ("/srv/server", Some("ff"), &[], &[1, 3]),
            ("/new/server", Some("ff"), &[], &[1, 2, 3, 4]),
            ("/srv/plain", None, &[7], &[]),
            ("/srv/plain", Some("ff"), &[], &[7]),
            ("/srv/other", Some("ff"), &[], &[]),
        ] {
            let program = Program { path: path.to_owned(), build_id: build.map(str::to_owned) };
            let expected = Found { same: ids(same), others: ids(others) };
            assert_eq!(program.find(&images), expected, "{path} {build:?}");
        }
    }

    #[test]
    fn processes_are_those_with_its_name_or_most_of_its_samples() {
        let program = Program { path: "/srv/a-server-with-a-name".to_owned(), build_id: None };
        let labels: BTreeMap<LabelId, Label> = ["a-server-with-a", "worker", "sh", "a-server"]
            .into_iter()
            .zip(1..)
            .map(|(name, id)| {
                (
                    LabelId::new(id),
                    Label { process: name.to_owned(), cgroup: String::new(), ..Label::default() },
                )
            })
            .collect();
        for (inside, expected) in [
            (&[(1, 1), (2, 80), (3, 2)][..], &[1, 2][..]),
            (&[(1, 100), (3, 2)], &[1]),
            (&[(1, 0), (3, 5)], &[3]),
            (&[], &[]),
        ] {
            let inside = inside.iter().map(|(id, count)| (LabelId::new(*id), *count)).collect();
            let expected: Vec<LabelId> = expected.iter().map(|id| LabelId::new(*id)).collect();
            assert_eq!(program.processes(&labels, &inside), expected, "{inside:?}");
        }
        // Threads that only run elsewhere belong to it as well.
        let threads: BTreeMap<LabelId, Label> = ["main", "worker", "log"]
            .into_iter()
            .zip(1..)
            .map(|(thread, id)| {
                let process = if thread == "log" { "other" } else { "a-server-with-a" };
                (
                    LabelId::new(id),
                    Label { process: process.into(), thread: thread.into(), ..Label::default() },
                )
            })
            .collect();
        let inside = [(LabelId::new(1), 5)].into();
        assert_eq!(program.processes(&threads, &inside), [LabelId::new(1), LabelId::new(2)]);
    }
}
