//! Condition: which samples are meant, where that is no list of labels and no list of images.

use std::collections::BTreeSet;

use super::{EpochId, ImageId, LabelId};

/// What is asked of a sample. An empty [`All`](Self::All) holds for every sample, an empty [`Any`](Self::Any) for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Its label is one of these.
    Label(BTreeSet<LabelId>),
    /// The sampled instruction is in one of these images.
    Image(BTreeSet<ImageId>),
    /// It is of one of these epochs.
    Epoch(BTreeSet<EpochId>),
    /// This does not hold.
    Not(Box<Condition>),
    /// All of these hold.
    All(Vec<Condition>),
    /// One of these holds at least.
    Any(Vec<Condition>),
}

/// What a condition is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Labels.
    pub labels: bool,
    /// Images.
    pub images: bool,
    /// Epochs.
    pub epochs: bool,
}

impl Condition {
    /// Whether it holds for samples of this epoch, label and image.
    #[must_use]
    pub fn holds(&self, epoch: EpochId, label: LabelId, image: ImageId) -> bool {
        match self {
            Self::Label(labels) => labels.contains(&label),
            Self::Image(images) => images.contains(&image),
            Self::Epoch(epochs) => epochs.contains(&epoch),
            Self::Not(of) => !of.holds(epoch, label, image),
            Self::All(of) => of.iter().all(|one| one.holds(epoch, label, image)),
            Self::Any(of) => of.iter().any(|one| one.holds(epoch, label, image)),
        }
    }

    /// What it is about.
    #[must_use]
    pub fn about(&self) -> About {
        let only = About::default();
        match self {
            Self::Label(_) => About { labels: true, ..only },
            Self::Image(_) => About { images: true, ..only },
            Self::Epoch(_) => About { epochs: true, ..only },
            Self::Not(of) => of.about(),
            Self::All(of) | Self::Any(of) => of.iter().map(Self::about).fold(only, |a, b| About {
                labels: a.labels | b.labels,
                images: a.images | b.images,
                epochs: a.epochs | b.epochs,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_hold_for_what_they_say() {
        let label = |key| Condition::Label(BTreeSet::from([LabelId::new(key)]));
        let image = |key| Condition::Image(BTreeSet::from([ImageId::new(key)]));
        let epoch = |key| Condition::Epoch(BTreeSet::from([EpochId::new(key)]));
        let holds = |of: &Condition| of.holds(EpochId::new(1), LabelId::new(2), ImageId::new(3));
        let not = |of| Condition::Not(Box::new(of));
        for (of, expected) in [
            (label(2), true),
            (label(1), false),
            (image(3), true),
            (image(2), false),
            (epoch(1), true),
            (not(epoch(1)), false),
            (Condition::All(vec![label(2), image(3)]), true),
            (Condition::All(vec![label(2), image(1)]), false),
            (Condition::Any(vec![label(1), image(3)]), true),
            (Condition::Any(vec![label(1), image(1)]), false),
            (Condition::All(Vec::new()), true),
            (Condition::Any(Vec::new()), false),
        ] {
            assert_eq!(holds(&of), expected, "{of:?}");
        }
        let both = Condition::All(vec![not(label(2)), epoch(1)]);
        assert_eq!(both.about(), About { labels: true, images: false, epochs: true });
    }
}
