//! Places that took their time to be found, kept from one run to the next: in large programs all debug information has to
//! be looked through, and the program waits for it.
//!
//! They lie beside the runtime library, in a file for each build of a program (by its build ID); deleting them costs time
//! only. Nothing here fails: what cannot be read or written is looked for again.

use super::place::Entry;
use crate::embedded;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use symbols::{Image, Svma};

/// What is found sooner is not kept.
const SLOW: Duration = Duration::from_millis(20);
/// Builds whose places are kept.
const MOST_BUILDS: usize = 100;

/// What made the answers, and the answers by question: instructions, and the words that guard them.
type Places = (String, BTreeMap<String, Vec<(u64, Option<u64>)>>);

/// The entries of `place` in `image`: as they are known, or as `find` finds them.
pub fn entries(image: &Image, place: &str, find: impl FnOnce() -> Vec<Entry>) -> Vec<Entry> {
    entries_in(embedded::folder().as_deref(), image, place, find)
}

fn entries_in(
    folder: Option<&Path>,
    image: &Image,
    place: &str,
    find: impl FnOnce() -> Vec<Entry>,
) -> Vec<Entry> {
    let file =
        folder.and_then(|folder| Some(folder.join("places").join(format!("{}.json", image.build_id()?))));
    let Some(file) = file else { return find() };
    let maker = maker(image);
    let mut places = read(&file).filter(|(by, _)| *by == maker).unwrap_or_else(|| (maker, BTreeMap::new()));
    if let Some(known) = places.1.get(place) {
        return known.iter().map(|(entry, guard)| (Svma(*entry), guard.map(Svma))).collect();
    }
    let begin = Instant::now();
    let found = find();
    // What was not found may be there the next time.
    if begin.elapsed() >= SLOW && !found.is_empty() && image.damage().is_none() {
        let stored = found.iter().map(|(entry, guard)| (entry.0, guard.map(|guard| guard.0)));
        places.1.insert(place.to_owned(), stored.collect());
        // Without it the next run is slower.
        let _ = write(&file, &places);
    }
    found
}

/// Another version may find something else, and so may debug information that was installed since.
fn maker(image: &Image) -> String {
    let debug = image.debug_file().map(|path| path.display().to_string()).unwrap_or_default();
    let length = std::fs::metadata(&debug).map_or(0, |metadata| metadata.len());
    format!("whatif {} {length}", env!("CARGO_PKG_VERSION"))
}

fn read(file: &Path) -> Option<Places> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

fn write(file: &Path, places: &Places) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    forget_oldest(folder)?;
    // Several commands may do so at once.
    let unfinished = file.with_extension(std::process::id().to_string());
    std::fs::write(&unfinished, serde_json::to_vec(places)?)?;
    std::fs::rename(unfinished, file)
}

fn forget_oldest(folder: &Path) -> std::io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf)> = std::fs::read_dir(folder)?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.metadata().ok()?.modified().ok()?, entry.path()))
        })
        .collect();
    files.sort();
    let excess = files.len().saturating_sub(MOST_BUILDS - 1);
    files.iter().take(excess).try_for_each(|(_, path)| std::fs::remove_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: [Entry; 2] = [(Svma(7), None), (Svma(9), Some(Svma(11)))];

    /// As if it had taken long.
    fn find() -> Vec<Entry> {
        std::thread::sleep(SLOW);
        FOUND.to_vec()
    }

    #[test]
    fn what_took_long_is_known_the_next_time() {
        let folder = tempfile::tempdir().unwrap();
        let image = Image::open(&std::env::current_exe().unwrap()).unwrap();
        let Some(build) = image.build_id() else { return };
        let ask = |place, find: &dyn Fn() -> Vec<Entry>| entries_in(Some(folder.path()), &image, place, find);
        let file = folder.path().join("places").join(format!("{build}.json"));
        assert_eq!(ask("fn:quick", &Vec::new), []);
        assert!(!file.exists(), "it is found as quickly again");
        assert_eq!(ask("fn:slow", &find), FOUND);
        assert_eq!(ask("fn:slow", &|| panic!("it is known")), FOUND);
        assert_eq!(ask("fn:other", &find), FOUND);
        assert_eq!(ask("fn:slow", &|| panic!("it is still known")), FOUND);
        let text = std::fs::read_to_string(&file).unwrap();
        for other in [text.replace("whatif ", "whatif 0"), text[..text.len() / 2].to_owned(), "[]".to_owned()]
        {
            std::fs::write(&file, other).unwrap();
            assert_eq!(ask("fn:slow", &Vec::new), [], "found anew");
        }
        assert_eq!(entries_in(None, &image, "fn:slow", Vec::new), []);
    }

    #[test]
    fn old_builds_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let file = |nth: usize| folder.path().join(format!("{nth}.json"));
        for nth in 0..MOST_BUILDS + 5 {
            std::fs::write(file(nth), "").unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(nth as u64);
            std::fs::File::options().write(true).open(file(nth)).unwrap().set_modified(time).unwrap();
        }
        write(&folder.path().join("new.json"), &(String::new(), BTreeMap::new())).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), MOST_BUILDS);
        assert!(!file(5).exists() && file(6).exists());
    }
}
