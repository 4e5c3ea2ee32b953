//! Entities of a request: principal, action, resource.

use std::collections::{HashMap, HashSet};

use cedar_policy::{Entities, Entity, EntityId, EntityTypeName, EntityUid, RestrictedExpression};
use serde_json::Value;
use vmcp_core::Item;

use crate::dependencies::{PolicyDependencies, mentions};
use crate::names::{BACKEND, CLIENT, Feature, GENERATION, GROUP, ITEMS, SERVER};
use crate::policy_error::PolicyError;
use crate::schema::EntityNames;

pub(crate) type Attributes = HashMap<String, RestrictedExpression>;

/// Entity types and identifiers of the model, and the configured entities.
#[derive(Debug)]
pub(crate) struct Model {
    client: EntityTypeName,
    group: EntityTypeName,
    types: [EntityTypeName; 3],
    actions: [EntityUid; 3],
    server: EntityUid,
    pub(crate) statics: Entities,
    /// Names in the configured entities.
    pub(crate) names: EntityNames,
    /// `true` if callers are among the configured entities, or referenced by them.
    pub(crate) mentions_clients: bool,
    /// `true` if a configured entity references an item in an attribute, or is a descendant of an
    /// item without being one itself: then an item affects decisions about others.
    pub(crate) leads_to_items: bool,
}

impl Model {
    pub(crate) fn new(server: &str, entities: &str) -> Result<Self, PolicyError> {
        let entities = if entities.trim().is_empty() { "[]" } else { entities };
        let statics = Entities::from_json_str(entities, None);
        let statics = statics.map_err(|error| PolicyError::of_entities(&error))?;
        let json: Value = serde_json::from_str(entities).map_err(PolicyError::entities)?;
        let name = |name: &str| name.parse::<EntityTypeName>().map_err(PolicyError::entities);
        let uid = |kind: &EntityTypeName, id: &str| {
            EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
        };
        let [tool, prompt, resource] = Feature::ALL.map(Feature::names);
        let action = name("Action")?;
        let actions = [tool, prompt, resource].map(|[_, id, ..]| uid(&action, id));
        let mut model = Self {
            client: name(CLIENT)?,
            group: name(GROUP)?,
            types: [name(tool[0])?, name(prompt[0])?, name(resource[0])?],
            server: uid(&name(SERVER)?, server),
            statics,
            names: EntityNames::of(&json),
            mentions_clients: mentions(&json, CLIENT),
            leads_to_items: json.as_array().into_iter().flatten().any(|entity| {
                let inside = |kind: &&str| ["attrs", "tags"].map(|at| mentions(&entity[at], kind));
                ITEMS.iter().any(|kind| inside(kind).contains(&true))
            }),
            actions,
        };
        let operations = model.actions.clone().map(|action| {
            let id = RestrictedExpression::new_string(action.id().unescaped().to_owned());
            let attributes = HashMap::from([("operation".to_owned(), id)]);
            model.entity(action, attributes, HashSet::new())
        });
        for entity in operations {
            let statics = entity.and_then(|entity| with(&model.statics, entity));
            model.statics =
                statics.ok_or_else(|| PolicyError::entities("an action is in itself"))?;
        }
        let item = |uid: &EntityUid| model.types.contains(uid.type_name());
        model.leads_to_items |= model.statics.iter().map(Entity::uid).any(|uid| {
            !item(&uid) && model.statics.ancestors(&uid).into_iter().flatten().any(item)
        });
        for above in model.actions.iter().filter_map(|one| model.statics.ancestors(one)).flatten() {
            if *above.type_name() != action {
                return Err(PolicyError::entities(format!(
                    "the parents of an action must be actions, not {above}"
                )));
            }
        }
        Ok(model)
    }

    pub(crate) fn action(&self, feature: Feature) -> &EntityUid {
        &self.actions[feature as usize]
    }

    pub(crate) fn kind(&self, feature: Feature) -> &EntityTypeName {
        &self.types[feature as usize]
    }

    pub(crate) fn server(&self) -> &EntityUid {
        &self.server
    }

    pub(crate) fn client(&self, subject: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(self.client.clone(), EntityId::new(subject))
    }

    /// Returns the caller as an entity, with its claims and groups.
    pub(crate) fn principal<'a>(
        &self,
        uid: EntityUid,
        claims: Attributes,
        groups: impl Iterator<Item = &'a str>,
    ) -> Option<Entity> {
        let group =
            |name| EntityUid::from_type_name_and_id(self.group.clone(), EntityId::new(name));
        self.entity(uid, claims, groups.map(group).collect())
    }

    /// Returns the item as an entity, with the attributes that policies reference and the
    /// arguments.
    pub(crate) fn resource(
        &self,
        item: &Item<'_>,
        reads: &PolicyDependencies,
        mut attributes: Attributes,
    ) -> Option<Entity> {
        let feature = Feature::of(item.kind);
        let [_, _, operation, name] = feature.names();
        let text = |text: &str| Some(RestrictedExpression::new_string(text.to_owned()));
        let hint = |hint: Option<bool>| hint.map(RestrictedExpression::new_bool);
        let annotations = item.annotations;
        let own = [
            ("name", text(item.name)),
            ("operation", text(operation)),
            ("feature", text(name)),
            ("uri", text(item.name).filter(|_| feature == Feature::Resource)),
            (BACKEND, item.backend.and_then(|of| text(of.name))),
            (GENERATION, item.backend.and_then(|of| text(of.generation.revision()))),
            ("readOnlyHint", hint(annotations.read_only)),
            ("destructiveHint", hint(annotations.destructive)),
            ("idempotentHint", hint(annotations.idempotent)),
            ("openWorldHint", hint(annotations.open_world)),
        ];
        let own = own.into_iter().filter(|(name, _)| reads.attribute(name));
        attributes.extend(own.filter_map(|(name, value)| Some((name.to_owned(), value?))));
        let uid = self.uid(item);
        self.entity(uid, attributes, HashSet::from([self.server.clone()]))
    }

    pub(crate) fn uid(&self, item: &Item<'_>) -> EntityUid {
        let kind = self.kind(Feature::of(item.kind)).clone();
        EntityUid::from_type_name_and_id(kind, EntityId::new(item.name))
    }

    /// Merges an entity of the request with the configured one of the same name: attributes of the
    /// request take precedence, parents are united.
    fn entity(
        &self,
        uid: EntityUid,
        mut attributes: Attributes,
        mut parents: HashSet<EntityUid>,
    ) -> Option<Entity> {
        let Some(configured) = self.statics.get(&uid) else {
            return Entity::new(uid, attributes, parents).ok();
        };
        let tags: Option<Vec<_>> = configured
            .tags()
            .map(|(name, tag)| Some((name.to_owned(), tag.ok()?.to_string().parse().ok()?)))
            .collect();
        let (uid, known, above) = configured.clone().into_inner();
        for (name, value) in known {
            attributes.entry(name).or_insert(value);
        }
        parents.extend(above);
        Entity::new_with_tags(uid, attributes, parents, tags?).ok()
    }
}

/// Adds or replaces an entity. Returns `None` if it would be its own ancestor.
pub(crate) fn with(entities: &Entities, entity: Entity) -> Option<Entities> {
    entities.clone().upsert_entities([entity], None).ok()
}
