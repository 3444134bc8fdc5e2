//! What the numbers in a cut stand for, so that it can be stored when the collector knows of none of it any more.

use crate::images::{ImageIndex, Images};
use crate::labels::{LabelIndex, Labels};
use crate::stacks::{Counted, Frame};
use archive::{CodeImage, Label};
use std::collections::{HashMap, HashSet};

/// See the module. Numbers are places in these lists.
#[derive(Clone, Debug, Default)]
pub struct Legend {
    pub images: Vec<CodeImage>,
    pub labels: Vec<Label>,
    /// Names of functions that could not be found later.
    pub functions: Vec<String>,
    /// Where they are.
    pub named: Vec<Named>,
}

/// A position in an image whose function has a name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    pub image: ImageIndex,
    pub offset: u64,
    /// Its place in [`Legend::functions`].
    pub function: u32,
}

impl Legend {
    /// Gives frames and counts numbers of their own. `name` is asked once for each position.
    pub fn of<'a>(
        frames: &mut [Frame],
        counts: &mut [Counted],
        images: &Images,
        labels: &Labels,
        name: impl Fn(ImageIndex, u64) -> Option<&'a str>,
    ) -> Self {
        let mut legend = Self::default();
        let (mut own_images, mut own_labels) = (HashMap::new(), HashMap::new());
        let (mut seen, mut functions) = (HashSet::new(), HashMap::new());
        for frame in frames {
            let image = *own_images.entry(frame.image).or_insert_with(|| {
                legend.images.push(images.get(frame.image).clone());
                ImageIndex(legend.images.len() as u32 - 1)
            });
            let named =
                if seen.insert((image, frame.offset)) { name(frame.image, frame.offset) } else { None };
            if let Some(name) = named {
                let function = *functions.entry(name).or_insert_with(|| {
                    legend.functions.push(name.to_owned());
                    legend.functions.len() as u32 - 1
                });
                legend.named.push(Named { image, offset: frame.offset, function });
            }
            frame.image = image;
        }
        for counted in counts {
            counted.label = *own_labels.entry(counted.label).or_insert_with(|| {
                legend.labels.push(labels.get(counted.label).clone());
                LabelIndex(legend.labels.len() as u32 - 1)
            });
        }
        legend
    }

    /// Memory it takes, about, in bytes.
    pub fn bytes(&self) -> usize {
        let images = self.images.iter().map(|image| image.path.len() + image.build_id.len());
        let labels = self.labels.iter().map(|label| label.process.len() + label.cgroup.len());
        size_of_val(&*self.images)
            + size_of_val(&*self.labels)
            + size_of_val(&*self.functions)
            + size_of_val(&*self.named)
            + images.chain(labels).chain(self.functions.iter().map(String::len)).sum::<usize>()
    }
}
