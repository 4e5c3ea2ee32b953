//! Functions that a template can call: their names and numbers of arguments.

/// Function that a template can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    And,
    Eq,
    FromJson,
    Ge,
    Gt,
    Index,
    Json,
    Le,
    Len,
    Lt,
    Ne,
    Not,
    Or,
    Print,
    Printf,
    Println,
    Quote,
    Slice,
    Urlquery,
}

/// Functions with their names, and the least and greatest number of their arguments.
const FUNCTIONS: [(Function, &str, usize, usize); 19] = [
    (Function::And, "and", 1, usize::MAX),
    (Function::Eq, "eq", 1, usize::MAX),
    (Function::FromJson, "fromJson", 1, 1),
    (Function::Ge, "ge", 2, 2),
    (Function::Gt, "gt", 2, 2),
    (Function::Index, "index", 1, usize::MAX),
    (Function::Json, "json", 1, 1),
    (Function::Le, "le", 2, 2),
    (Function::Len, "len", 1, 1),
    (Function::Lt, "lt", 2, 2),
    (Function::Ne, "ne", 2, 2),
    (Function::Not, "not", 1, 1),
    (Function::Or, "or", 1, usize::MAX),
    (Function::Print, "print", 0, usize::MAX),
    (Function::Printf, "printf", 1, usize::MAX),
    (Function::Println, "println", 0, usize::MAX),
    (Function::Quote, "quote", 1, 1),
    (Function::Slice, "slice", 1, usize::MAX),
    (Function::Urlquery, "urlquery", 0, usize::MAX),
];

impl Function {
    /// Returns the function of a name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        FUNCTIONS.iter().find(|(_, known, ..)| *known == name).map(|(function, ..)| *function)
    }

    /// Returns the name of the function.
    pub(crate) fn name(self) -> &'static str {
        let mut rows = FUNCTIONS.iter();
        rows.find(|(function, ..)| *function == self).map_or("", |(_, name, ..)| *name)
    }

    /// Returns the least and the greatest number of arguments.
    pub(crate) fn arity(self) -> (usize, usize) {
        let mut rows = FUNCTIONS.iter();
        rows.find(|(function, ..)| *function == self).map_or((0, 0), |(.., min, max)| (*min, *max))
    }

    /// Returns the error for a name that is not a function.
    pub(crate) fn unknown(name: &str) -> String {
        if matches!(name, "call" | "html" | "js") {
            return format!("the function {name} is not supported; use json, quote or urlquery");
        }
        let names: Vec<_> = FUNCTIONS.iter().map(|(_, name, ..)| *name).collect();
        let names = names.join(", ");
        format!(
            "the function {name:?} does not exist; write .{name} for a field and \"{name}\" for text; functions: {names}"
        )
    }
}
