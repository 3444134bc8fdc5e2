//! Builds: a recording may hold runs of several builds of a program, which were not meant to be added up.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Image, Rows, SessionId, Warning};
use crate::ranking::Profile;

impl Profile {
    /// The doubts of the runs, as they were shown then, and those about the recording as a whole, with the
    /// run that raised them.
    pub fn warnings(&self) -> Vec<(SessionId, Warning)> {
        self.rows.warnings.iter().cloned().chain(warning(&self.rows)).collect()
    }
}

/// A warning when runs of different builds were recorded into one file, with the first run that was not of
/// the first build.
///
/// An image without build ID has no builds to tell apart.
fn warning(rows: &Rows) -> Option<(SessionId, Warning)> {
    let mut builds: BTreeMap<&str, BTreeMap<&str, SessionId>> = BTreeMap::new();
    for (session, Image { path, build_id }) in images(rows) {
        if let Some(build_id) = build_id {
            let first = builds.entry(path).or_default().entry(build_id).or_insert(session);
            *first = (*first).min(session);
        }
    }
    let several = builds.into_iter().filter(|(_, builds)| builds.len() > 1);
    let mixed: Vec<(String, SessionId)> = several.map(|(path, builds)| describe(path, &builds)).collect();
    let session = mixed.iter().map(|(_, session)| *session).min()?;
    let mixed: Vec<String> = mixed.into_iter().map(|(text, _)| text).collect();
    let warning = Warning {
        code: "several-builds".into(),
        message: format!(
            "the runs are of different builds of {}; the rates and latencies of points are those of all builds \
             together, and code that is in several of them is listed once for each",
            mixed.join(", and of ")
        ),
        advice:
            "record each build into a file of its own (whatif run -o FILE), and see what is different with: \
                 whatif compare BEFORE AFTER"
                .into(),
    };
    Some((session, warning))
}

/// The images in which each run found regions. A run that was killed has not listed them; what it tried says
/// enough.
fn images(rows: &Rows) -> BTreeSet<(SessionId, &Image)> {
    let listed = rows.sessions.iter().flat_map(|s| s.images.iter().map(move |image| (s.id, image)));
    let tried = rows.windows.iter().map(|window| (window.session, &rows.regions[&window.region].image));
    listed.chain(tried).collect()
}

/// `/bin/server (ab12…, cd34…)`, with the first run that was not of the first build.
fn describe(path: &str, builds: &BTreeMap<&str, SessionId>) -> (String, SessionId) {
    let mut order: Vec<_> = builds.iter().map(|(build, first)| (*first, *build)).collect();
    order.sort_unstable();
    let short = |build: &str| match build.char_indices().nth(8) {
        Some((end, _)) => format!("{}…", &build[..end]),
        None => build.to_owned(),
    };
    let names: Vec<String> = order.iter().map(|(_, build)| short(build)).collect();
    (format!("{path} ({})", names.join(", ")), order[1].0)
}
