//! What the numbers of a collection stand for, so that it can be stored when the collector knows of none of it any more.

use crate::images::{ImageIndex, Images};
use crate::labels::{LabelIndex, Labels, letters};
use crate::stacks::{Counted, Frame};
use archive::{CodeImage, ImageKind, Label, Offset, Symbol};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// See the module. Numbers are places in these lists.
#[derive(Clone, Debug, Default)]
pub struct Legend {
    /// Images that frames are in.
    pub images: Vec<CodeImage>,
    /// Who ran.
    pub labels: Vec<Label>,
    /// Names of functions that could not be found later.
    pub functions: Vec<String>,
    /// Where they are.
    pub named: Vec<Named>,
}

/// A position in an image whose function has a name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The image, by its place in [`Legend::images`].
    pub image: ImageIndex,
    /// The position in the image.
    pub offset: u64,
    /// Its place in [`Legend::functions`].
    pub function: u32,
}

impl Legend {
    /// Gives frames and counts numbers of their own. `name` is asked once for each position.
    pub(crate) fn of<'a>(
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

    /// Names for positions in images, which have these keys in a database, but for those that are `stored` already.
    pub fn symbols<K: Copy + Ord>(
        &self,
        images: &[K],
        stored: impl Fn(K, Offset) -> bool,
    ) -> BTreeMap<K, Vec<(Offset, Vec<Symbol>)>> {
        let mut new: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for &Named { image, offset, function } in &self.named {
            // Functions of scripts are in an image that is called like their file.
            let of = &self.images[image.0 as usize];
            let is_script = of.kind == ImageKind::Generated && !of.path.starts_with('[');
            let file = if is_script { of.path.as_str().into() } else { Arc::default() };
            let (image, offset) = (images[image.0 as usize], Offset(offset));
            if !stored(image, offset) {
                let function = self.functions[function as usize].as_str().into();
                new.entry(image).or_default().push((offset, vec![Symbol { function, file, line: 0 }]));
            }
        }
        new
    }

    /// Memory it takes, about, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let images = self.images.iter().map(|image| image.path.len() + image.build_id.len());
        let labels = self.labels.iter().map(letters);
        size_of_val(&*self.images)
            + size_of_val(&*self.labels)
            + size_of_val(&*self.functions)
            + size_of_val(&*self.named)
            + images.chain(labels).chain(self.functions.iter().map(String::len)).sum::<usize>()
    }
}
