//! Cost: what the fleet spends on services, and in their code, in CPU cores.

use crate::answers::{ALWAYS, counted, headed, question};
use crate::arguments::Which;
use crate::code::build_of;
use crate::error::Error;
use crate::question::Who;
use crate::source::Source;
use crate::tried::Code;
use archive::ImageId;
use cycles::counted::{CodeIndex, Counted};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Samples of a service.
#[derive(Clone, Debug, Default)]
struct OfService {
    all: u64,
    /// By the index of the position.
    positions: HashMap<u32, u64>,
}

/// What there are samples of.
pub struct Costs {
    /// What was counted.
    pub counted: Counted,
    index: CodeIndex,
    /// By service and version.
    services: BTreeMap<(String, String), OfService>,
    /// The images by build, and by path.
    images: BTreeMap<String, Vec<ImageId>>,
}

impl Costs {
    /// From the samples of a time, and of services, versions and hosts; `None` where there are none.
    pub fn read(source: &mut dyn Source, which: &Which) -> Result<Option<Costs>, Error> {
        match Costs::of(source, which) {
            // Of an event that was asked for there should be some.
            Err(Error::Nothing { .. }) if which.event.is_none() => Ok(None),
            read => read.map(Some),
        }
    }

    fn of(source: &mut dyn Source, which: &Which) -> Result<Costs, Error> {
        let mut question = question(which, ALWAYS)?;
        question.who = vec![Who::Service, Who::Version];
        let (_, heading) = headed(source, &mut question, which.event.as_deref())?;
        let counted = counted(source, &question, heading, true)?;
        let mut services: BTreeMap<(String, String), OfService> = BTreeMap::new();
        for row in &counted.rows {
            let [service, version] = &row.groups[..] else { continue };
            let of = services.entry((service.clone(), version.clone())).or_default();
            of.all += row.count;
            *of.positions.entry(row.position).or_default() += row.count;
        }
        let mut images: BTreeMap<String, Vec<ImageId>> = BTreeMap::new();
        for (id, image) in counted.names.images() {
            images.entry(build_of(image).to_owned()).or_default().push(*id);
            if build_of(image) != image.path {
                images.entry(image.path.clone()).or_default().push(*id);
            }
        }
        Ok(Costs { index: CodeIndex::new(&counted), counted, services, images })
    }

    /// The time that samples are from, in seconds.
    pub fn seconds(&self) -> f64 {
        let heading = &self.counted.heading;
        (heading.until.unwrap_or(0) - heading.since.unwrap_or(0)) as f64
    }

    /// The CPUs that so many samples stand for, on average over the time; `None` where the event is no clock.
    pub fn cores(&self, samples: u64) -> Option<f64> {
        let nanos = self.counted.heading.nanos_per_sample?;
        (self.seconds() > 0.0).then(|| samples as f64 * nanos / 1e9 / self.seconds())
    }

    /// All samples.
    pub fn all(&self) -> u64 {
        self.services.values().map(|of| of.all).sum()
    }

    /// The samples of a service, or of one version of it; `None` where it has none.
    pub fn of_service(&self, service: &str, version: Option<&str>) -> Option<u64> {
        Some(self.versions(service, version).map(|of| of.all).sum()).filter(|samples| *samples > 0)
    }

    /// Those of them in a piece of code, with what is inlined there; `None` where that cannot be told: of code with its callees, or by its caller.
    pub fn of_code(&self, service: &str, version: Option<&str>, code: &Code) -> Option<u64> {
        if code.region.inclusive || code.region.name.contains('@') {
            return None;
        }
        let images: BTreeSet<ImageId> =
            code.images.iter().filter_map(|image| self.images.get(image.key())).flatten().copied().collect();
        let positions: BTreeSet<u32> = images
            .iter()
            .flat_map(|image| self.index.positions(*image, &code.region.name))
            .copied()
            .collect();
        let of =
            |of: &OfService| positions.iter().filter_map(|position| of.positions.get(position)).sum::<u64>();
        Some(self.versions(service, version).map(of).sum())
    }

    fn versions<'a>(
        &'a self,
        service: &'a str,
        version: Option<&'a str>,
    ) -> impl Iterator<Item = &'a OfService> {
        let is_meant =
            move |(name, of): &(String, String)| name == service && version.is_none_or(|wanted| wanted == of);
        self.services.iter().filter(move |(key, _)| is_meant(key)).map(|(_, of)| of)
    }
}
