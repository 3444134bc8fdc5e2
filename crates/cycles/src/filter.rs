//! What was asked for by `--where`, `--process`, `--cgroup`, `--image` and `--machine` becomes a selection of the database.

use super::arguments::Which;
use super::expression::{Expression, Test, Tested};
use super::label_key::LabelKey;
use super::pattern::{glob, last, none};
use anyhow::{Result, bail};
use archive::{
    About, CodeImage, CollectorEpoch, Condition, EpochId, ImageId, Label, LabelId, MachineId, MachineInfo,
    Selection,
};
use globset::GlobMatcher;
use std::collections::{BTreeMap, BTreeSet};

/// What there is to choose from.
pub struct Choice<'a> {
    pub labels: &'a BTreeMap<LabelId, Label>,
    pub images: &'a BTreeMap<ImageId, CodeImage>,
    pub epochs: &'a [CollectorEpoch],
    pub machines: &'a BTreeMap<MachineId, MachineInfo>,
}

/// Everything that has to hold, one after the other.
pub fn asked(which: &Which) -> Vec<Expression> {
    let test =
        |of: Tested, pattern: &Option<String>| Some(Expression::Test(Test { of, pattern: pattern.clone()? }));
    let options = [
        test(Tested::Label(LabelKey::Process), &which.process),
        test(Tested::Label(LabelKey::Cgroup), &which.cgroup),
        test(Tested::Label(LabelKey::Machine), &which.machine),
        test(Tested::Image, &which.image),
    ];
    let mut all: Vec<Expression> = options.into_iter().flatten().collect();
    match which.only.as_ref().map(|only| only.expression.clone()) {
        Some(Expression::All(of)) => all.extend(of),
        only => all.extend(only),
    }
    all
}

/// Narrows a selection down to what all of these hold for.
///
/// # Errors
/// There is nothing that one of them holds for, and what there is.
pub fn select(all: &[Expression], choice: &Choice<'_>, selection: &mut Selection) -> Result<()> {
    let mut rest = Vec::new();
    for one in all {
        let condition = choice.condition(one)?;
        let About { labels, images, epochs } = condition.about();
        let only = |label, image, epoch| condition.holds(epoch, label, image);
        let (label, image, epoch) = (LabelId::new(0), ImageId::new(0), EpochId::new(0));
        let found = match (labels, images, epochs) {
            (true, false, false) => {
                keep(&mut selection.labels, choice.labels.keys(), |label| only(label, image, epoch))
            }
            (false, true, false) => {
                keep(&mut selection.images, choice.images.keys(), |image| only(label, image, epoch))
            }
            (false, false, true) => {
                let epochs = choice.epochs.iter().map(|epoch| &epoch.id);
                keep(&mut selection.epochs, epochs, |epoch| only(label, image, epoch))
            }
            _ => {
                rest.push(condition);
                true
            }
        };
        if !found {
            bail!(choice.nothing(one));
        }
    }
    selection.condition = (!rest.is_empty()).then_some(Condition::All(rest));
    Ok(())
}

/// Keeps what is wanted of a list, or of all that there are. Whether there is any.
fn keep<'a, T: Copy + Ord + 'a>(
    list: &mut Option<Vec<T>>,
    all: impl Iterator<Item = &'a T>,
    wanted: impl Fn(T) -> bool,
) -> bool {
    let old: Vec<T> = list.take().unwrap_or_else(|| all.copied().collect());
    let new: Vec<T> = old.into_iter().filter(|one| wanted(*one)).collect();
    let any = !new.is_empty();
    *list = Some(new);
    any
}

impl Choice<'_> {
    fn condition(&self, of: &Expression) -> Result<Condition> {
        let list = |of: &[Expression]| of.iter().map(|one| self.condition(one)).collect::<Result<Vec<_>>>();
        Ok(match of {
            Expression::Not(of) => Condition::Not(Box::new(self.condition(of)?)),
            Expression::All(of) => Condition::All(list(of)?),
            Expression::Any(of) => Condition::Any(list(of)?),
            Expression::Test(Test { of: Tested::Image, pattern }) => {
                let glob = glob(pattern)?;
                let is = |image: &CodeImage| glob.is_match(&image.path) || glob.is_match(last(&image.path));
                let images = self.images.iter().filter(|(_, image)| is(image));
                Condition::Image(images.map(|(id, _)| *id).collect())
            }
            Expression::Test(Test { of: Tested::Label(key), pattern }) => match key {
                // A cgroup may be typed as it is shown, with slashes around it.
                LabelKey::Cgroup => self.labelled(key, &glob(pattern.trim_matches('/'))?),
                LabelKey::Machine => self.of_epoch(key, &glob(pattern)?),
                LabelKey::Own(name) => self.own(key, name, &glob(pattern)?),
                _ => self.labelled(key, &glob(pattern)?),
            },
        })
    }

    fn labelled(&self, key: &LabelKey, glob: &GlobMatcher) -> Condition {
        let found = self.labels.iter().filter(|(_, label)| key.matches(glob, label));
        Condition::Label(found.map(|(id, _)| *id).collect())
    }

    fn of_epoch(&self, key: &LabelKey, glob: &GlobMatcher) -> Condition {
        let is = |epoch: &&CollectorEpoch| {
            let machine = self.machines.get(&epoch.machine);
            let by_key = *key == LabelKey::Machine && machine.is_some_and(|of| glob.is_match(&of.key));
            by_key || glob.is_match(key.of_epoch(epoch, machine))
        };
        Condition::Epoch(self.epochs.iter().filter(is).map(|epoch| epoch.id).collect())
    }

    /// What a process is called by its user, and only if it is not called anything, what its collector is.
    fn own(&self, key: &LabelKey, name: &str, glob: &GlobMatcher) -> Condition {
        let has: BTreeSet<LabelId> = self
            .labels
            .iter()
            .filter(|(_, label)| label.user_labels.contains_key(name))
            .map(|(id, _)| *id)
            .collect();
        let matches = |id: &LabelId| key.matches(glob, &self.labels[id]);
        let of_processes = Condition::Label(has.iter().copied().filter(matches).collect());
        if has.is_empty() {
            return self.of_epoch(key, glob);
        }
        let epochs = self.of_epoch(key, glob);
        if epochs == Condition::Epoch(BTreeSet::new()) {
            return of_processes;
        }
        let others = Condition::Not(Box::new(Condition::Label(has)));
        Condition::Any(vec![of_processes, Condition::All(vec![others, epochs])])
    }

    /// That nothing is as it was asked for, and what there is.
    fn nothing(&self, of: &Expression) -> String {
        let Expression::Test(test @ Test { of, pattern }) = of else {
            return "nothing that was sampled is as --where says; see what there is: whatif top --by process,unit"
                .to_owned();
        };
        // Perhaps it is there, but not together with the rest that was asked for.
        let is_there = self.condition(&Expression::Test(test.clone())).is_ok_and(|found| match found {
            Condition::Label(found) => !found.is_empty(),
            Condition::Image(found) => !found.is_empty(),
            Condition::Epoch(found) => !found.is_empty(),
            _ => true,
        });
        let (what, known) = match of {
            Tested::Image => {
                let names = self.images.values().map(|image| last(&image.path).to_owned());
                ("image".to_owned(), names.collect::<BTreeSet<String>>())
            }
            Tested::Label(key) => {
                let of_labels = self.labels.values().map(|label| key.of(label).into_owned());
                let of_epochs = self
                    .epochs
                    .iter()
                    .map(|epoch| key.of_epoch(epoch, self.machines.get(&epoch.machine)).to_owned());
                (key.to_string(), of_labels.chain(of_epochs).collect())
            }
        };
        if is_there {
            let what = match what.as_str() {
                "cgroup" => "no process of that name ran in such a cgroup".to_owned(),
                what => format!("no {what} '{}' goes with the rest", profile::printable(pattern)),
            };
            return format!("{what}; see: whatif top --by process,cgroup");
        }
        none(&what, pattern, known.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::{ImageKind, Setting, UnixSeconds};

    #[test]
    fn a_condition_becomes_lists_where_it_can_and_chooses_the_same() {
        let label = |process: &str, unit: &str, shard: &str| Label {
            process: process.into(),
            cgroup: format!("/system.slice/{unit}.service"),
            user_labels: (!shard.is_empty()).then(|| ("shard".into(), shard.into())).into_iter().collect(),
            ..Label::default()
        };
        let labels: BTreeMap<_, _> = (1_i64..)
            .map(LabelId::new)
            .zip([label("nginx", "web", "3"), label("nginx", "web", ""), label("db", "data", "4")])
            .collect();
        let image =
            |path: &str| CodeImage { path: path.into(), build_id: String::new(), kind: ImageKind::File };
        let images: BTreeMap<_, _> =
            (1_i64..).map(ImageId::new).zip([image("/usr/bin/nginx"), image("[kernel]")]).collect();
        let machine =
            |host: &str| MachineInfo { key: host.into(), host: host.into(), ..MachineInfo::default() };
        let machines: BTreeMap<_, _> =
            (1_i64..).map(MachineId::new).zip([machine("web-1"), machine("web-2")]).collect();
        let epoch = |id, shard: &str| CollectorEpoch {
            id: EpochId::new(id),
            machine: MachineId::new(id),
            name: None,
            setting: Setting {
                labels: (!shard.is_empty()).then(|| ("shard".into(), shard.into())).into_iter().collect(),
                ..Setting::default()
            },
            started: UnixSeconds(0),
            ended: None,
        };
        let epochs = [epoch(1, ""), epoch(2, "3")];
        let choice = Choice { labels: &labels, images: &images, epochs: &epochs, machines: &machines };
        // Epoch, label and image of what is chosen.
        let all: Vec<(i64, i64, i64)> =
            (0..12).map(|nth| (1 + nth / 6, 1 + nth / 2 % 3, 1 + nth % 2)).collect();
        type Holds = fn(i64, i64, i64) -> bool;
        let rows: [(&str, bool, Holds); 12] = [
            ("process=nginx", false, |_, label, _| label < 3),
            ("process=nginx and unit=web.service", false, |_, label, _| label < 3),
            ("process=n* and image=nginx", false, |_, label, image| label < 3 && image == 1),
            ("process=db or image=nginx", true, |_, label, image| label == 3 || image == 1),
            ("not (process=db or image=nginx)", true, |_, label, image| label != 3 && image != 1),
            ("machine=web-2", false, |epoch, _, _| epoch == 2),
            ("machine!=web-2 and image=[kernel]", false, |epoch, _, image| epoch == 1 && image == 2),
            // One's own label counts before that of the collector.
            ("label.shard=3", true, |epoch, label, _| label == 1 || (label == 2 && epoch == 2)),
            ("label.shard=4", false, |_, label, _| label == 3),
            ("label.shard!=3", true, |epoch, label, _| label == 3 || (label == 2 && epoch == 1)),
            ("label.shard=* and process=nginx", true, |_, label, _| label < 3),
            ("slice=system.slice and cgroup=/system.slice/", false, |_, _, _| true),
        ];
        for (text, is_mixed, expected) in rows {
            let which = Which { only: Some(text.parse().unwrap()), ..Which::default() };
            let mut selection = Selection::default();
            select(&asked(&which), &choice, &mut selection).unwrap();
            assert_eq!(selection.condition.is_some(), is_mixed, "{text}");
            let Selection { labels, images, epochs, condition, .. } = &selection;
            for (epoch, label, image) in all.iter().copied() {
                let (e, l, i) = (EpochId::new(epoch), LabelId::new(label), ImageId::new(image));
                let chosen = labels.as_ref().is_none_or(|of| of.contains(&l))
                    && images.as_ref().is_none_or(|of| of.contains(&i))
                    && epochs.as_ref().is_none_or(|of| of.contains(&e))
                    && condition.as_ref().is_none_or(|of| of.holds(e, l, i));
                assert_eq!(chosen, expected(epoch, label, image), "{text} {epoch} {label} {image}");
            }
        }
        let nothing = |which: &Which| {
            select(&asked(which), &choice, &mut Selection::default()).unwrap_err().to_string()
        };
        let process = |name: &str| Which { process: Some(name.into()), ..Which::default() };
        assert_eq!(nothing(&process("ngnx")), "no process is 'ngnx'; there are: nginx");
        let both = Which { cgroup: Some("data.service".into()), ..process("nginx") };
        assert!(
            nothing(&both).starts_with("no process of that name ran in such a cgroup"),
            "{}",
            nothing(&both)
        );
        let only = |text: &str| Which { only: Some(text.parse().unwrap()), ..Which::default() };
        assert_eq!(nothing(&only("label.shard=7")), "no label.shard is '7'; there are: 3, 4");
        assert!(nothing(&only("pid=7 or pid=8")).contains("as --where says"));
    }
}
