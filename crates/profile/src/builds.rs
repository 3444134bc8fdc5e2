//! Builds: results of several builds of a program do not add up.

use std::collections::{BTreeMap, BTreeSet};

use crate::caveat::Caveat;
use crate::model::{Image, Rows, SessionId, Warning};
use crate::ranking::Profile;

/// The builds of the images that have been seen. An image without build ID has none to tell apart.
#[derive(Clone, Debug, Default)]
pub struct Builds(BTreeMap<String, BTreeSet<String>>);

/// An image of which another build is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherBuild {
    /// Its path.
    pub path: String,
    /// The builds that were known, short enough to read.
    pub known: String,
    /// The build that was not known.
    pub new: String,
}

impl Builds {
    /// Takes the images of a recording or a program; returns the first of which other builds, and only others, were
    /// known before.
    pub fn add<'a>(&mut self, images: impl IntoIterator<Item = &'a Image>) -> Option<OtherBuild> {
        let before = self.clone();
        let mut other = None;
        for Image { path, build_id } in images {
            let Some(build) = build_id else { continue };
            self.0.entry(path.clone()).or_default().insert(build.clone());
            let known = before.0.get(path).filter(|known| !known.contains(build));
            if let Some(known) = known.filter(|_| other.is_none()) {
                let known: Vec<String> = known.iter().map(|build| short(build)).collect();
                other = Some(OtherBuild { path: path.clone(), known: known.join(", "), new: short(build) });
            }
        }
        other
    }
}

/// The beginning of a build ID.
fn short(build: &str) -> String {
    match build.char_indices().nth(8) {
        Some((end, _)) => format!("{}…", &build[..end]),
        None => build.to_owned(),
    }
}

impl Profile {
    /// The doubts of the runs, as they were shown then, and those about the recording as a whole, with the
    /// run that raised them.
    pub fn warnings(&self) -> Vec<(SessionId, Warning)> {
        let has_windows = |session| self.rows.windows.iter().any(|window| window.session == session);
        // Why a run gave nothing is of no interest where another one has.
        let is_past = |(session, warning): &&(SessionId, Warning)| {
            warning.is_failure() && !self.rows.windows.is_empty() && !has_windows(*session)
        };
        let warnings = self.rows.warnings.iter().filter(|row| !is_past(row));
        warnings.cloned().chain(warning(&self.rows)).collect()
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
    let images = mixed.into_iter().map(|(text, _)| text).collect();
    Some((session, Caveat::SeveralBuilds { images }.into()))
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
    let names: Vec<String> = order.iter().map(|(_, build)| short(build)).collect();
    (format!("{path} ({})", names.join(", ")), order[1].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(path: &str, build: &str) -> Image {
        Image { path: path.into(), build_id: Some(build.to_owned()).filter(|build| !build.is_empty()) }
    }

    #[test]
    fn another_build_of_what_is_known_is_told() {
        let mut builds = Builds::default();
        let first = [image("/bin/a", "0123456789ab"), image("/lib/x", ""), image("/bin/a", "ffff")];
        assert_eq!(builds.add(&first), None, "what comes together is not compared");
        assert_eq!(builds.add(&[image("/bin/a", "ffff"), image("/bin/b", "12"), image("/lib/x", "1")]), None);
        let other = builds.add(&[image("/bin/b", "13")]).unwrap();
        assert_eq!((&*other.path, &*other.known, &*other.new), ("/bin/b", "12", "13"));
        let other = builds.add(&[image("/bin/a", "eeee")]).unwrap();
        assert_eq!(other.known, "01234567…, ffff");
    }
}
