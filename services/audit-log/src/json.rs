//! JSON objects, written member by member.

use std::fmt::Display;
use std::io::Write;

use vmcp_wire::quote;

/// An object that is being written. A member without a value is left out.
pub(crate) struct Object<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> Object<'a> {
    /// Appends an object to `out`.
    pub(crate) fn write(out: &'a mut Vec<u8>, fill: impl FnOnce(&mut Object<'_>)) {
        out.push(b'{');
        fill(&mut Object { out, empty: true });
        out.push(b'}');
    }

    /// The name of a member, whose value the caller appends. Names are our own and need no escapes.
    pub(crate) fn name(&mut self, name: &str) {
        self.out.extend_from_slice(if self.empty { b"\"" } else { b",\"" });
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.empty = false;
    }

    pub(crate) fn text<'t>(&mut self, name: &str, value: impl Into<Option<&'t str>>) {
        if let Some(value) = value.into() {
            self.name(name);
            quote(value, self.out);
        }
    }

    /// A number, or whether something is so.
    pub(crate) fn plain(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.name(name);
            // Writing into memory does not fail.
            _ = write!(self.out, "{value}");
        }
    }

    pub(crate) fn object(&mut self, name: &str, fill: impl FnOnce(&mut Object<'_>)) {
        self.name(name);
        Object::write(self.out, fill);
    }
}
