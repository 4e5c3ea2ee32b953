//! `fromJson`: JSON text as a value.

use std::{fmt, rc::Rc};

use serde_json::de::Deserializer;

use crate::{
    budget::Budget,
    datum::{Datum, List, Map, Text, Whole},
    evaluation_error::EvaluationError,
};

/// Size of a value in comparison with its text, at most.
const MEMORY_FACTOR: usize = 16;

/// Parses a JSON text.
pub(super) fn from_json<'a>(text: &str, budget: &mut Budget) -> Result<Datum<'a>, EvaluationError> {
    budget.memory(text.len().saturating_mul(MEMORY_FACTOR))?;
    let mut deserializer = Deserializer::from_str(text);
    let parsed = serde::Deserializer::deserialize_any(&mut deserializer, DatumVisitor);
    parsed.and_then(|value| deserializer.end().map(|()| value)).map_err(|cause| {
        EvaluationError::new(format!("fromJson failed to parse its text: {cause}"))
    })
}

struct DatumVisitor;

impl<'de> serde::de::DeserializeSeed<'de> for DatumVisitor {
    type Value = Datum<'static>;

    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> serde::de::Visitor<'de> for DatumVisitor {
    type Value = Datum<'static>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Datum::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Datum::Boolean(value))
    }

    #[expect(clippy::cast_precision_loss, reason = "smaller numbers are exact")]
    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Whole::signed(value).map_or(Datum::Float(value as f64), Datum::Whole))
    }

    #[expect(clippy::cast_precision_loss, reason = "smaller numbers are exact")]
    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Whole::unsigned(value).map_or(Datum::Float(value as f64), Datum::Whole))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Datum::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Datum::Text(Text::from(value.to_owned())))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(
        self,
        mut items: A,
    ) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(DatumVisitor)? {
            list.push(item);
        }
        Ok(Datum::List(List::shared(list)))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(
        self,
        mut entries: A,
    ) -> Result<Self::Value, A::Error> {
        let mut map: Vec<(Rc<str>, Datum<'static>)> = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            map.push((key.into(), entries.next_value_seed(DatumVisitor)?));
        }
        // Of equal keys, the last one counts. The sort is stable.
        map.reverse();
        map.sort_by(|(one, _), (other, _)| one.cmp(other));
        map.dedup_by(|(later, _), (first, _)| later == first);
        Ok(Datum::Map(Map::Shared(map.into())))
    }
}
