use serde_json::{Map, Value};

use crate::validate::{child, index};
use crate::{FieldError, FieldErrorKind, ListType, Schema};

impl Schema {
    /// Reports items of sets and `map` lists that occur twice.
    pub(crate) fn check_lists(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if let Some(schema) = self.field(name) {
                        schema.check_lists(value, &child(path, name), errors);
                    }
                }
            }
            Value::Array(items) => {
                self.check_duplicates(items, path, errors);
                if let Some(schema) = &self.items {
                    for (position, item) in items.iter().enumerate() {
                        schema.check_lists(item, &index(path, position), errors);
                    }
                }
            }
            _ => {}
        }
    }

    fn check_duplicates(&self, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
        let mut keys: Vec<Value> = Vec::new();
        for (position, item) in items.iter().enumerate() {
            let key = match self.list_type {
                Some(ListType::Set) => item.clone(),
                Some(ListType::Map) => self.key(item),
                Some(ListType::Atomic) | None => return,
            };
            if keys.contains(&key) {
                let path = index(path, position);
                errors.push(FieldError::new(&path, FieldErrorKind::Duplicate, Some(&key), ""));
            }
            keys.push(key);
        }
    }

    /// Returns the keys of an item, in the order of their names, as messages show them.
    fn key(&self, item: &Value) -> Value {
        let mut names: Vec<_> = self.list_map_keys.iter().collect();
        names.sort();
        let pairs = names.into_iter();
        let pairs = pairs.filter_map(|name| Some((name.clone(), item.get(name)?.clone())));
        Value::Object(pairs.collect::<Map<_, _>>())
    }
}
