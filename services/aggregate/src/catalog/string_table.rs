//! Compact storage of many short strings in two allocations.

/// Strings by index, in insertion order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StringTable {
    all: String,
    ends: Vec<u32>,
}

impl StringTable {
    pub(crate) fn with_capacity(count: usize) -> Self {
        // Most tool names are shorter than 24 bytes.
        Self { all: String::with_capacity(count * 24), ends: Vec::with_capacity(count) }
    }

    /// Adds a string given in two parts.
    pub(crate) fn push(&mut self, first: &str, second: &str) {
        self.all.push_str(first);
        self.all.push_str(second);
        let end = u32::try_from(self.all.len());
        self.ends.push(end.expect("limited offers have far less than 4 GiB of names"));
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.all.len() + self.ends.len() * size_of::<u32>()
    }

    /// Returns the string at this index, which must be below [`len`](Self::len).
    pub(crate) fn get(&self, number: usize) -> &str {
        let start = if number == 0 { 0 } else { self.ends[number - 1] as usize };
        &self.all[start..self.ends[number] as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|number| self.get(number))
    }

    /// Returns the number of leading strings for which `smaller` returns `true`. It must return `false` for all later strings.
    pub(crate) fn partition_point(&self, smaller: impl Fn(&str) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if smaller(self.get(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.all.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_strings_by_index() {
        let mut texts = StringTable::with_capacity(3);
        for (first, second) in [("a_", "x"), ("", ""), ("b", "")] {
            texts.push(first, second);
        }
        assert_eq!(texts.iter().collect::<Vec<_>>(), ["a_x", "", "b"]);
        assert_eq!((texts.len(), texts.get(2)), (3, "b"));
    }

    #[test]
    fn finds_partition_point_of_sorted_strings() {
        let mut texts = StringTable::default();
        for text in ["a", "c", "e"] {
            texts.push(text, "");
        }
        let place = |text: &str| texts.partition_point(|other| other < text);
        assert_eq!(["", "a", "b", "e", "f"].map(place), [0, 0, 1, 2, 3]);
    }
}
