//! Types of objects with the merge keys and strategies of their fields.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::{PatchError, PatchErrorKind};

/// Types of the built-in kinds, written by Kubernetes' own Go code (`tests/tools/kubernetes`).
const TYPES: &str = include_str!("types.json");

/// Type of a Kubernetes object, or of an object inside it.
#[derive(Clone, Copy, Debug)]
pub struct ObjectType(&'static BTreeMap<String, Field>);

/// Field that contains an object or a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of the generated table")]
pub(crate) struct Field {
    /// Name of the type of the object or the items.
    #[serde(rename = "type")]
    type_name: String,
    list: bool,
    map: bool,
    merge_key: String,
    merge: bool,
    replace: bool,
}

#[derive(Debug, Deserialize)]
struct Table {
    kinds: BTreeMap<String, String>,
    types: BTreeMap<String, BTreeMap<String, Field>>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| serde_json::from_str(TYPES).expect("the generated table is JSON"))
}

impl ObjectType {
    /// Returns the type of a built-in kind; `""` is the core group. `None` for kinds that are not in the table.
    #[must_use]
    pub fn of_kind(group: &str, version: &str, kind: &str) -> Option<Self> {
        let name = table().kinds.get(&format!("{group}/{version}/{kind}"))?;
        table().types.get(name).map(Self)
    }

    /// Returns the type of pod templates: `spec.template` of a Deployment or a StatefulSet.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "the generated table is part of the crate")]
    pub fn pod_template_spec() -> Self {
        let fields = table().types.get("core/v1.PodTemplateSpec");
        Self(fields.expect("the generated table has pod templates"))
    }

    /// Returns a field that contains an object.
    pub(crate) fn object_field(self, name: &str) -> Result<&'static Field, PatchError> {
        self.field(name, false)
    }

    /// Returns a field that contains a list.
    pub(crate) fn list_field(self, name: &str) -> Result<&'static Field, PatchError> {
        self.field(name, true)
    }

    fn field(self, name: &str, is_list: bool) -> Result<&'static Field, PatchError> {
        let field = self.0.get(name).filter(|field| field.list == is_list);
        field.ok_or_else(|| PatchError::from(PatchErrorKind::UnknownField).within(name))
    }
}

impl Field {
    /// Returns the type of the object or of the items. Maps and scalars have no fields that could be merged.
    pub(crate) fn object_type(&self) -> ObjectType {
        static NO_FIELDS: BTreeMap<String, Field> = BTreeMap::new();
        ObjectType(table().types.get(&self.type_name).unwrap_or(&NO_FIELDS))
    }

    /// Returns the merge key; empty for lists of scalars.
    pub(crate) fn merge_key(&self) -> &str {
        &self.merge_key
    }

    /// Returns whether a patch merges the items of the list, in place of replacing it.
    pub(crate) fn merges_items(&self) -> bool {
        self.merge
    }

    /// Returns whether a patch replaces the object as a whole.
    pub(crate) fn replaces(&self) -> bool {
        self.replace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_type_is_in_table() {
        let fields = table().types.values().flat_map(BTreeMap::values);
        for field in fields.filter(|field| !field.type_name.is_empty()) {
            assert!(table().types.contains_key(&field.type_name), "{field:?}");
            assert!(!field.map, "{field:?}");
        }
        for name in table().kinds.values() {
            assert!(table().types.contains_key(name), "{name}");
        }
        let containers = ObjectType::pod_template_spec().object_field("spec").unwrap();
        let containers = containers.object_type().list_field("containers").unwrap();
        assert_eq!((containers.merge_key(), containers.merges_items()), ("name", true));
    }
}
