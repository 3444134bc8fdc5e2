//! Where to look first: what production spends its time in, of a database of continuous profiles (`--hint-db`).
//!
//! **Does:** find the samples of the program that is run, and what of them each of its regions has; say what is doubtful
//! about that. **Does not:** delay the program (a thread of its own reads the database), or decide what is tried
//! ([`experiment`](super::experiment)). **Constraints:** once the program runs, whatever is wrong with the database is a
//! warning. **Place:** sample → delay → **experiment** → record → profile → report.

mod costs;
mod notes;
mod program;
mod source;

pub use costs::Costs;
pub use notes::unseen;
pub use source::Source;

use super::code_scope::CodeScope;
use super::naming::Naming;
use super::options::Options;
use super::region::RegionSpec;
use super::warning::Warning;
use anyhow::Result;
use archive::{By, CodeImage, ImageId, ImageKind, Offset, Selection, UnixSeconds};
use costs::{Code, Rules, Span};
use cycles::last;
use program::Program;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;
use symbols::{Frame, FunctionName};

/// A region that runs less than this share of the time here cannot be waited for, however hot it is in production.
const HARDLY_RUNS: f64 = 0.001;

/// How long the end of a run waits for what it has not been told by then.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// What is to be found out.
struct Question {
    source: Source,
    program: Program,
    scope: CodeScope,
    naming: Naming,
    specs: Vec<RegionSpec>,
}

/// What production says.
#[derive(Debug, Default)]
pub struct Answer {
    /// `None` if it says nothing.
    pub costs: Option<Costs>,
    pub warnings: Vec<Warning>,
}

/// The answer, once it is there.
#[derive(Debug)]
pub struct Hint {
    coming: Receiver<Answer>,
    answer: OnceCell<Answer>,
}

impl Hint {
    /// Asks, in a thread of its own. `program`: the file that is run, without links.
    pub fn ask(source: &Source, options: &Options, program: &Path) -> Self {
        let (answer, coming) = channel();
        let path = program.to_string_lossy().into_owned();
        let question = Question {
            source: source.clone(),
            program: Program { path, build_id: None },
            scope: options.scope.clone(),
            naming: options.naming(),
            specs: options.regions.clone(),
        };
        // Without a thread there is no answer, which is reported like any other failure.
        let _ = std::thread::Builder::new().name("hint".into()).spawn(move || {
            let found = question.answer().unwrap_or_else(|error| notes::failed(&error));
            kernel::heap::give_back();
            let _ = answer.send(found); // the run may be over
        });
        Self { coming, answer: OnceCell::new() }
    }

    /// What production says, if that is known by now.
    pub fn costs(&self) -> Option<&Costs> {
        if self.answer.get().is_none() {
            match self.coming.try_recv() {
                Ok(answer) => drop(self.answer.set(answer)),
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => drop(self.answer.set(notes::nobody())),
            }
        }
        self.answer.get()?.costs.as_ref()
    }

    /// What production says, with its doubts, when the run is over; waits a moment for it.
    pub fn at_last(&self) -> &Answer {
        self.answer.get_or_init(|| match self.coming.recv_timeout(PATIENCE) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => notes::late(),
            Err(RecvTimeoutError::Disconnected) => notes::nobody(),
        })
    }
}

/// The share of the time that a region is expected to be worth: what it is here, or what it is in production where that
/// is more. Code that hardly runs here cannot be tried, so it is not waited for.
pub fn expected(here: f64, in_production: Option<f64>) -> f64 {
    match in_production {
        Some(share) if here >= HARDLY_RUNS => here.max(share),
        _ => here,
    }
}

impl Question {
    fn answer(mut self) -> Result<Answer> {
        self.program.build_id =
            symbols::Image::open(Path::new(&self.program.path)).ok().and_then(|image| image.identity());
        let (folder, db) = cycles::open(Some(&self.source.folder))?;
        let which = cycles::arguments::Which::default();
        let mut query = cycles::Query::between(&which, &folder, db, Some(self.source.since), None)?;
        let found = self.program.find(query.names.images());
        let labels = query.db.labels()?;
        let of_images = |images: &[ImageId]| {
            let selection = Selection { images: Some(images.to_vec()), ..query.selection.clone() };
            match images {
                [] => Ok(BTreeMap::new()),
                _ => query.db.by_label(&selection),
            }
        };
        let mut inside = of_images(&found.same)?;
        let same_build = inside.values().any(|count| *count > 0);
        if !same_build {
            inside = of_images(&found.others)?;
        }
        let processes = self.program.processes(&labels, &inside);
        if processes.is_empty() {
            return Ok(notes::not_there(&self.program, &self.source));
        }
        let (images, excluded) = match same_build {
            true => (&found.same, &found.others[..]),
            false => (&found.others, &[][..]),
        };
        query.selection.labels = Some(processes);
        let machines = query.db.parts(&query.selection, By::Machine)?;
        let hosts = machines.groups.values().filter(|leaves| !leaves.is_empty()).count() as u32;
        let tree = query.tree()?;
        let kinds: BTreeMap<ImageId, Kind> = query
            .names
            .images()
            .iter()
            .map(|(id, image)| (*id, self.kind(*id, image, images, excluded)))
            .collect();
        let is_ours = |image: ImageId| matches!(kinds.get(&image), Some(Kind::Ours(_)));
        let wanted = tree.positions.iter().copied().filter(|(image, _)| is_ours(*image));
        query.names.learn(&query.db, wanted)?;
        let by_function = self.by_function(&tree, &query.names, &kinds);
        let rules = Rules { naming: self.naming, specs: &self.specs, same_build };
        let mut costs = Costs::new(&tree, &rules, |image, offset| {
            let by_function = by_function.get(&image).copied().unwrap_or(false);
            self.code(&query.names, &kinds, by_function, image, offset)
        });
        costs.span = Span {
            since: UnixSeconds(query.heading.since.unwrap_or_default()),
            until: UnixSeconds(query.heading.until.unwrap_or_default()),
            hosts,
        };
        let other = (!same_build).then(|| {
            let known = images.iter().filter_map(|image| query.names.images().get(image));
            known.map(|image| image.build_id.clone()).collect::<Vec<_>>()
        });
        Ok(notes::judged(costs, &self.program, other.as_deref()))
    }

    /// What an image is to regions.
    fn kind(&self, id: ImageId, image: &CodeImage, images: &[ImageId], excluded: &[ImageId]) -> Kind {
        let is_program = images.contains(&id);
        if excluded.contains(&id) {
            return Kind::OtherBuild;
        }
        let name = if is_program { self.program.name() } else { last(&image.path) };
        let is_ours = match (&self.scope.binaries, image.kind) {
            (Some(globs), ImageKind::File) => globs.is_match(&image.path) || globs.is_match(name),
            (Some(_), _) => false,
            (None, ImageKind::File) => is_program,
            (None, ImageKind::Generated) => self.scope.is_default,
            (None, _) => false,
        };
        match (is_ours, image.kind) {
            (false, _) => Kind::Foreign,
            (true, ImageKind::Generated) => Kind::Ours("[made at run time]".to_owned()),
            (true, _) => Kind::Ours(name.to_owned()),
        }
    }

    /// The images of which only functions are known.
    fn by_function(
        &self,
        tree: &archive::Tree,
        names: &cycles::Names,
        kinds: &BTreeMap<ImageId, Kind>,
    ) -> BTreeMap<ImageId, bool> {
        let mut found = BTreeMap::new();
        let ours = |image: &ImageId| matches!(kinds.get(image), Some(Kind::Ours(_)));
        for (image, offset) in tree.positions.iter().filter(|(image, _)| ours(image)) {
            let has_source = |symbol: &archive::Symbol| self.scope.sources.contains(file(symbol));
            let by_function = found.entry(*image).or_insert(self.scope.is_default);
            *by_function = *by_function && !names.symbols(*image, *offset).iter().any(has_source);
        }
        found
    }

    fn code(
        &self,
        names: &cycles::Names,
        kinds: &BTreeMap<ImageId, Kind>,
        by_function: bool,
        image: ImageId,
        offset: Offset,
    ) -> Code {
        let name = match kinds.get(&image) {
            Some(Kind::Ours(name)) => name.clone(),
            Some(Kind::OtherBuild) => return Code::OtherBuild,
            Some(Kind::Foreign) | None => return Code::Foreign,
        };
        let frames: Vec<Frame> = names
            .symbols(image, offset)
            .iter()
            .map(|symbol| Frame {
                function: FunctionName::from_demangled(&*symbol.function),
                file: file(symbol).map(Into::into),
                line: Some(symbol.line).filter(|line| *line > 0),
                in_scope: self.scope.sources.contains(file(symbol)) || by_function && symbol.file.is_empty(),
            })
            .collect();
        if frames.is_empty() { Code::Nameless } else { Code::Known(frames, name) }
    }
}

/// What an image is to regions.
enum Kind {
    /// Its code could be regions; they know it by this name.
    Ours(String),
    OtherBuild,
    Foreign,
}

fn file(symbol: &archive::Symbol) -> Option<&str> {
    Some(&*symbol.file).filter(|file| !file.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn production_counts_where_code_runs_here_at_all() {
        for (here, in_production, expected_share) in [
            (0.3, None, 0.3),
            (0.3, Some(0.1), 0.3),
            (0.01, Some(0.4), 0.4),
            (0.0005, Some(0.4), 0.0005),
            (0.0, Some(0.4), 0.0),
        ] {
            assert_eq!(expected(here, in_production), expected_share, "{here} {in_production:?}");
        }
    }
}
