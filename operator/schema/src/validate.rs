use serde_json::{Number, Value};

use crate::{FieldError, FieldErrorKind, Schema};

pub(crate) fn child(path: &str, name: &str) -> String {
    format!("{path}.{name}")
}

pub(crate) fn index(path: &str, position: usize) -> String {
    format!("{path}[{position}]")
}

/// Returns the value at a field path without the leading dot.
pub(crate) fn value_at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let pointer = path.replace('~', "~0").replace('/', "~1").replace('.', "/");
    let pointer = pointer.replace('[', "/").replace(']', "");
    value.pointer(&if pointer.is_empty() { pointer } else { format!("/{pointer}") })
}

/// Returns whether a mistake was there before an update: the API server then lets it pass.
pub(crate) fn is_unchanged(error: &FieldError, object: &Value, old: &Value) -> bool {
    let path = match error.kind {
        FieldErrorKind::Required => error.field.rsplit_once('.').map_or("", |(parent, _)| parent),
        _ => &error.field,
    };
    let value = value_at(object, path);
    value.is_some() && value == value_at(old, path)
}

impl Schema {
    /// Reports values of a wrong type and those outside their bounds.
    pub(crate) fn check(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        if value.is_null() {
            if !self.nullable && self.type_name.is_some() {
                self.report_type(value, path, errors);
            }
            return;
        }
        self.check_enumeration(value, path, errors);
        if !self.accepts_type(value) {
            self.report_type(value, path, errors);
            return;
        }
        match value {
            Value::String(text) => self.check_string(text, value, path, errors),
            Value::Number(number) => {
                self.check_format_range(value, path, errors);
                self.check_number(number, value, path, errors);
            }
            Value::Array(items) => self.check_items(items, path, errors),
            Value::Object(fields) => self.check_fields(fields, path, errors),
            Value::Null | Value::Bool(_) => {}
        }
        self.check_composition(value, path, errors);
    }

    fn accepts_type(&self, value: &Value) -> bool {
        if self.int_or_string {
            return value.is_string() || is_integer(value);
        }
        match self.type_name.as_deref() {
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("integer") => is_integer(value),
            Some("number") => value.is_number(),
            Some("array") => value.is_array(),
            Some("object") => value.is_object(),
            _ => true,
        }
    }

    fn report_type(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        let has_format = self.format.is_some() && value.is_f64();
        let found = match value {
            _ if has_format => "float64",
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let allowed = match (&self.type_name, &self.format) {
            _ if self.int_or_string => "integer,string",
            (_, Some(format)) if has_format => format,
            (name, _) => name.as_deref().unwrap_or_default(),
        };
        let detail = format!("{} must be of type {allowed}: {found:?}", name(path));
        let found = Value::String(found.to_owned());
        errors.push(FieldError::new(path, FieldErrorKind::TypeInvalid, Some(&found), detail));
        self.check_format_range(value, path, errors);
    }

    /// Reports numbers outside the range of their format, which have no path in the API server.
    fn check_format_range(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        let Some(number) = value.as_f64().filter(|_| self.format.as_deref() == Some("int32"))
        else {
            return;
        };
        let is_inside = (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number);
        if number.fract() != 0.0 || !is_inside {
            let path = path.trim_start_matches('.');
            report_without_path(
                &format!("Checked value must be of type integer with format int32 in {path}"),
                errors,
            );
        }
    }

    fn check_enumeration(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        let Some(allowed) = &self.enumeration else { return };
        if allowed.contains(value) {
            return;
        }
        let allowed: Vec<_> = allowed
            .iter()
            .map(|value| match value {
                Value::String(text) => format!("{text:?}"),
                other => format!("{:?}", other.to_string()),
            })
            .collect();
        let detail = format!("supported values: {}", allowed.join(", "));
        errors.push(FieldError::new(path, FieldErrorKind::NotSupported, Some(value), detail));
    }

    fn check_string(&self, text: &str, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        let length = text.chars().count() as u64;
        if let Some(most) = self.max_length.filter(|most| length > *most) {
            let unit = if most == 1 { "byte" } else { "bytes" };
            let detail = format!("may not be more than {most} {unit}");
            errors.push(FieldError::new(path, FieldErrorKind::TooLong, None, detail));
        }
        let mut invalid = |detail: String| {
            let detail = format!("{} {detail}", name(path));
            errors.push(FieldError::new(path, FieldErrorKind::Invalid, Some(value), detail));
        };
        if let Some(least) = self.min_length.filter(|least| length < *least) {
            invalid(format!("should be at least {least} chars long"));
        }
        if let Some(pattern) = &self.pattern
            && regex_lite::Regex::new(pattern).is_ok_and(|regex| !regex.is_match(text))
        {
            invalid(format!("should match '{pattern}'"));
        }
        match self.format.as_deref() {
            Some(format @ "date-time") if !is_date_time(text) => {
                invalid(format!("must be of type {format}: {value}"));
            }
            Some(format @ "uuid") if !is_uuid(text) => {
                invalid(format!("must be of type {format}: {value}"));
            }
            _ => {}
        }
    }

    fn check_number(
        &self,
        number: &Number,
        value: &Value,
        path: &str,
        errors: &mut Vec<FieldError>,
    ) {
        let mut invalid = |detail: String| {
            let detail = format!("{} {detail}", name(path));
            errors.push(FieldError::new(path, FieldErrorKind::Invalid, Some(value), detail));
        };
        let Some(found) = number.as_f64() else { return };
        if let Some(most) = self.maximum.as_ref().and_then(Number::as_f64) {
            if self.exclusive_maximum && found >= most {
                invalid(format!("should be less than {most}"));
            } else if found > most {
                invalid(format!("should be less than or equal to {most}"));
            }
        }
        if let Some(least) = self.minimum.as_ref().and_then(Number::as_f64) {
            if self.exclusive_minimum && found <= least {
                invalid(format!("should be greater than {least}"));
            } else if found < least {
                invalid(format!("should be greater than or equal to {least}"));
            }
        }
        if let Some(factor) = self.multiple_of.filter(|factor| (found / factor).fract() != 0.0) {
            invalid(format!("should be a multiple of {factor}"));
        }
    }

    fn check_items(&self, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
        let count = items.len() as u64;
        if let Some(least) = self.min_items.filter(|least| count < *least) {
            let detail = format!("{} should have at least {least} items", name(path));
            errors.push(FieldError::new(
                path,
                FieldErrorKind::Invalid,
                Some(&count.into()),
                detail,
            ));
        }
        report_too_many(count, self.max_items, path, errors);
        if let Some(schema) = &self.items {
            for (position, item) in items.iter().enumerate() {
                schema.check(item, &index(path, position), errors);
            }
        }
    }

    fn check_fields(
        &self,
        fields: &serde_json::Map<String, Value>,
        path: &str,
        errors: &mut Vec<FieldError>,
    ) {
        let count = fields.len() as u64;
        if let Some(least) = self.min_properties.filter(|least| count < *least) {
            let detail = format!("{} should have at least {least} properties", name(path));
            errors.push(FieldError::new(
                path,
                FieldErrorKind::Invalid,
                Some(&count.into()),
                detail,
            ));
        }
        report_too_many(count, self.max_properties, path, errors);
        for required in self.required.iter().filter(|name| !fields.contains_key(*name)) {
            errors.push(FieldError::new(
                &child(path, required),
                FieldErrorKind::Required,
                None,
                "",
            ));
        }
        for (name, value) in fields {
            if let Some(schema) = self.field(name) {
                schema.check(value, &child(path, name), errors);
            }
        }
    }

    fn check_composition(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        let holds = |schema: &Self| {
            let mut found = Vec::new();
            schema.check(value, path, &mut found);
            found.is_empty()
        };
        let quoted = format!("{:?}", path.trim_start_matches('.'));
        let mut invalid =
            |detail: &str| report_without_path(&format!("{quoted} must {detail}"), errors);
        let mut closest = Vec::new();
        if !self.any_of.is_empty() && !self.any_of.iter().any(holds) {
            invalid("validate at least one schema (anyOf)");
            closest.extend(self.any_of.first());
        }
        let count = self.one_of.iter().filter(|one| holds(one)).count();
        if !self.one_of.is_empty() && count != 1 {
            let found = match count {
                0 => "Found none valid".to_owned(),
                count => format!("Found {count} valid alternatives"),
            };
            invalid(&format!("validate one and only one schema (oneOf). {found}"));
            closest.extend(self.one_of.first().filter(|_| count == 0));
        }
        if self.not.as_deref().is_some_and(holds) {
            invalid("not validate the schema (not)");
        }
        match self.all_of.iter().filter(|one| holds(one)).count() {
            count if count == self.all_of.len() => {}
            0 => invalid("validate all the schemas (allOf). None validated"),
            _ => invalid("validate all the schemas (allOf)"),
        }
        for schema in self.all_of.iter().chain(closest) {
            schema.check(value, path, errors);
        }
    }
}

/// Reports a mistake as the API server does where its validator knows no path.
fn report_without_path(detail: &str, errors: &mut Vec<FieldError>) {
    let empty = Value::String(String::new());
    errors.push(FieldError::new("", FieldErrorKind::Invalid, Some(&empty), detail));
}

fn report_too_many(count: u64, most: Option<u64>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(most) = most.filter(|most| count > *most) else { return };
    let unit = if most == 1 { "item" } else { "items" };
    let detail = format!("must have at most {most} {unit}");
    let count = Value::from(count);
    errors.push(FieldError::new(path, FieldErrorKind::TooMany, Some(&count), detail));
}

/// Returns a path as it appears in details.
fn name(path: &str) -> String {
    format!("{} in body", path.strip_prefix('.').unwrap_or(path))
}

fn is_integer(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| value.is_i64() || value.is_u64() || number.fract() == 0.0)
}

fn is_date_time(text: &str) -> bool {
    const PATTERN: &str = r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$";
    regex_lite::Regex::new(PATTERN).is_ok_and(|regex| regex.is_match(text))
}

fn is_uuid(text: &str) -> bool {
    const PATTERN: &str = r"^[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}$";
    regex_lite::Regex::new(PATTERN).is_ok_and(|regex| regex.is_match(text))
}
