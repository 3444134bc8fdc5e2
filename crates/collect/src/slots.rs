//! Things with numbers. Numbers of those that are no longer needed are given to others.

/// See the module.
#[derive(Debug)]
pub struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// The number of something new.
    pub fn add(&mut self, thing: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.places[number as usize] = Some(thing);
            return number;
        }
        self.places.push(Some(thing));
        self.places.len() as u32 - 1
    }

    /// What a number stands for; it must have been [`add`](Self::add)ed, and kept.
    pub fn get(&self, number: u32) -> &T {
        self.places[number as usize].as_ref().expect("numbers that are in use are kept")
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, number: u32) -> &mut T {
        self.places[number as usize].as_mut().expect("numbers that are in use are kept")
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Everything that has a number.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    /// Those with a mark.
    pub fn marked(&self, marks: &Marks) -> impl Iterator<Item = &T> {
        self.places
            .iter()
            .zip(&marks.0)
            .filter(|(_, marked)| **marked)
            .filter_map(|(thing, _)| thing.as_ref())
    }

    /// Marks for [`keep`](Self::keep).
    pub fn marks(&self) -> Marks {
        Marks(vec![false; self.places.len()])
    }

    /// Forgets all that have no mark.
    pub fn keep(&mut self, marks: &Marks) {
        let places = self.places.iter_mut().enumerate();
        places.filter(|(number, _)| !marks.has(*number as u32)).for_each(|(_, place)| *place = None);
        let length = self.places.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.places.truncate(length);
        self.places.shrink_to(2 * length);
        // The first ones are given first, so that the last places become free.
        let free = self.places.iter().enumerate().rev().filter(|(_, place)| place.is_none());
        self.free = free.map(|(number, _)| number as u32).collect();
    }
}

/// Which numbers are in use.
#[derive(Debug)]
pub struct Marks(Vec<bool>);

impl Marks {
    /// This one is.
    pub fn set(&mut self, number: u32) {
        self.0[number as usize] = true;
    }

    /// Whether this one is.
    pub fn has(&self, number: u32) -> bool {
        self.0[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_again() {
        let mut slots = Slots::default();
        let numbers: Vec<u32> = ["a", "b", "c", "d"].into_iter().map(|thing| slots.add(thing)).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        let mut marks = slots.marks();
        [0, 2].into_iter().for_each(|number| marks.set(number));
        slots.keep(&marks);
        assert_eq!((slots.len(), slots.places.len(), *slots.get(2)), (2, 3, "c"));
        assert_eq!((slots.add("e"), slots.add("f"), slots.add("g")), (1, 3, 4));
        assert_eq!((slots.len(), *slots.get(1), *slots.get(2)), (5, "e", "c"));
        slots.keep(&slots.marks());
        assert_eq!((slots.len(), slots.places.len()), (0, 0));
    }
}
