//! CEL expressions that select the callers of a role.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};
use cel::extractors::This;
use cel::{Context, Value};
use regex_lite::{Regex, RegexBuilder};

use crate::RoleError;
use crate::role_mapping::cost::{Cost, CostBudget, charge_round};
use crate::role_mapping::parse::{max_bracket_depth, parse};

const MAX_LENGTH: usize = 2048;
const MAX_BRACKET_DEPTH: usize = 16;
const MAX_DEPTH: usize = 48;
const MAX_LOOPS: usize = 8;
const MAX_LOOP_DEPTH: usize = 2;
const MAX_SUMS: usize = 8;
const MAX_PATTERN_LENGTH: usize = 256;
const MAX_PATTERNS: usize = 1000;
/// Memory limit in bytes: a few hundred states, each of which may inspect every byte of a text.
const MAX_PATTERN_MEMORY: usize = 8 << 10;
/// Cost of matching one byte of text.
const PATTERN_COST: i64 = 64;
/// Cost of a loop iteration besides its body: the scope of the variable and a copy of the element.
const ROUND_COST: i64 = 16;

// Names of internal functions. `@` is not allowed in CEL identifiers, so expressions cannot call them.
const ROUND: &str = "@round";
const MATCHES: &str = "@matches";

/// Functions that expressions may call, besides operators, macros and `matches`. None returns a value larger than its
/// arguments.
const FUNCTIONS: [&str; 11] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "int",
    "uint",
    "double",
    "string",
    "bool",
    "type",
    "dyn",
];
const OPERATORS: [&str; 18] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::IN,
    operators::NOT_STRICTLY_FALSE,
];
const TYPES: [&str; 10] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];

/// Rejected expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatcherError {
    /// The expression is longer than 2,048 bytes.
    #[error("the expression is longer than 2048 bytes")]
    TooLong,
    /// Brackets are nested more than 16 levels deep, or operations more than 48.
    #[error("the expression is nested too deeply")]
    TooDeep,
    /// The expression is not valid CEL.
    #[error("not a CEL expression: {0}")]
    Syntax(Box<str>),
    /// The expression refers to a name other than `claims`.
    #[error("there is no {0:?}: an expression reads `claims`")]
    UnknownName(Box<str>),
    /// The expression calls a function that does not exist or could build large values.
    #[error("there is no function {0:?}")]
    UnknownFunction(Box<str>),
    /// The expression uses `map`, which can build large values.
    #[error("`map` is not available: say it with `exists`, `all` or `filter`")]
    MapMacro,
    /// The expression has more than 8 loops (`all`, `exists`, `exists_one`, `filter`) or nests more than 2.
    #[error("the expression has more than 8 loops, or more than 2 inside each other")]
    TooManyLoops,
    /// The expression uses `+`, which can build large values, more than 8 times.
    #[error("the expression has `+` more than 8 times")]
    TooManySums,
    /// The value of the expression is never a boolean, so no caller would match.
    #[error("the expression is not a condition: it is never true or false")]
    NotBoolean,
    /// The pattern of `matches` is not a literal, is longer than 256 bytes, is not a valid regular expression, or
    /// compiles to too large a program.
    #[error("`matches` takes one literal regular expression of up to 256 bytes: {0}")]
    Pattern(Box<str>),
}

/// Compiled expression with bounded evaluation cost.
pub(crate) struct Matcher {
    expression: IdedExpr,
    cost: Cost,
}

/// Visitor that validates an expression, computes its cost and inserts the charges for loop iterations.
struct CostVisitor<'a> {
    /// Variables of the enclosing loops, innermost last.
    loops: Vec<String>,
    depth: usize,
    loop_count: usize,
    sum_count: usize,
    patterns: &'a mut Vec<Regex>,
}

/// Cost and size class of a subexpression.
#[derive(Clone, Copy, Default)]
struct CostNode {
    cost: Cost,
    /// `true` if the value may be as large as the claims. The variable of the innermost loop is not large: its
    /// iterations see each element once in total, which is charged at the start of the loop.
    is_large: bool,
}

// === impl Matcher ===

impl Matcher {
    /// Parses and validates `source`. Appends its regular expressions to `patterns`, which the caller passes to
    /// [`functions`] afterwards.
    pub(crate) fn compile(source: &str, patterns: &mut Vec<Regex>) -> Result<Self, MatcherError> {
        if source.len() > MAX_LENGTH {
            return Err(MatcherError::TooLong);
        }
        if max_bracket_depth(source) > MAX_BRACKET_DEPTH {
            return Err(MatcherError::TooDeep);
        }
        let mut expression = parse(source)?;
        let mut visitor =
            CostVisitor { loops: Vec::new(), depth: 0, loop_count: 0, sum_count: 0, patterns };
        let is_condition = can_be_bool(&expression);
        let CostNode { cost, is_large: _ } = visitor.visit(&mut expression)?;
        if !is_condition {
            return Err(MatcherError::NotBoolean);
        }
        Ok(Self { expression, cost })
    }

    /// Returns `true` if the expression is true in `scope`, which contains the claims. An evaluation error counts as no
    /// match.
    pub(crate) fn matches(
        &self,
        scope: &Context<'_, '_>,
        budget: &mut CostBudget,
    ) -> Result<bool, RoleError> {
        let evaluate = || Value::resolve(&self.expression, scope);
        let outcome = budget.spend(self.cost, || catch_unwind(AssertUnwindSafe(evaluate)))?;
        Ok(matches!(outcome, Ok(Ok(Value::Bool(true)))))
    }
}

/// Returns `true` if the expression can have a boolean value. The types of claims and of the branches of a conditional
/// are known only at evaluation, so these return `true`.
fn can_be_bool(node: &IdedExpr) -> bool {
    const NON_BOOLEAN: [&str; 12] = [
        operators::ADD,
        operators::SUBSTRACT,
        operators::MULTIPLY,
        operators::DIVIDE,
        operators::MODULO,
        operators::NEGATE,
        "size",
        "int",
        "uint",
        "double",
        "string",
        "type",
    ];
    match &node.expr {
        Expr::Literal(literal) => matches!(literal, LiteralValue::Boolean(_)),
        Expr::Ident(name) => name != "claims" && !TYPES.contains(&name.as_str()),
        Expr::List(_) | Expr::Map(_) => false,
        Expr::Call(call) => !NON_BOOLEAN.contains(&call.func_name.as_str()),
        // Of the allowed loops, only `filter` returns a list.
        Expr::Comprehension(it) => !matches!(it.accu_init.expr, Expr::List(_)),
        Expr::Select(_) | Expr::Struct(_) | Expr::Unspecified => true,
    }
}

/// Creates the context with the functions of all expressions: the standard functions, the charge for a loop iteration,
/// and `matches` over `patterns`.
pub(crate) fn functions(patterns: Vec<Regex>) -> Context<'static, 'static> {
    let mut context = Context::default();
    // Neither call can fail: no standard function has these names.
    _ = context.add_function(ROUND, charge_round);
    let matches = move |This(text): This<Arc<String>>, pattern: i64| {
        let pattern = usize::try_from(pattern).ok().and_then(|index| patterns.get(index));
        let units = i64::try_from(text.len()).unwrap_or(i64::MAX).saturating_mul(PATTERN_COST);
        charge_round(units, 0) && pattern.is_some_and(|pattern| pattern.is_match(&text))
    };
    _ = context.add_function(MATCHES, matches);
    context
}

// === impl CostVisitor ===

impl CostVisitor<'_> {
    fn visit(&mut self, node: &mut IdedExpr) -> Result<CostNode, MatcherError> {
        if self.depth == MAX_DEPTH {
            return Err(MatcherError::TooDeep);
        }
        self.depth += 1;
        let node_cost = match &mut node.expr {
            Expr::Literal(literal) => Ok(CostNode::of_literal(literal)),
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => self.visit(&mut select.operand).map(CostNode::within),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.all(&mut list.elements),
            Expr::Map(map) => {
                let mut all = CostNode::default();
                for entry in &mut map.entries {
                    let EntryExpr::MapEntry(entry) = &mut entry.expr else {
                        return Err(MatcherError::Syntax("not a map".into()));
                    };
                    all = all.and(self.visit(&mut entry.key)?).and(self.visit(&mut entry.value)?);
                }
                Ok(all.within())
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(made) => Err(MatcherError::UnknownName(made.type_name.as_str().into())),
            Expr::Unspecified => Err(MatcherError::Syntax("it is incomplete".into())),
        };
        self.depth -= 1;
        node_cost
    }

    fn all(&mut self, nodes: &mut [IdedExpr]) -> Result<CostNode, MatcherError> {
        let mut all = CostNode::default();
        for node in nodes {
            all = all.and(self.visit(node)?);
        }
        Ok(all.within())
    }

    fn name(&self, name: &str) -> Result<CostNode, MatcherError> {
        if self.loops.last().is_some_and(|variable| variable == name) {
            return Ok(CostNode::default().within());
        }
        if name == "claims" || self.loops.iter().any(|variable| variable == name) {
            return Ok(CostNode { is_large: true, ..CostNode::default() }.within());
        }
        if TYPES.contains(&name) {
            return Ok(CostNode::default().within());
        }
        Err(MatcherError::UnknownName(name.into()))
    }

    fn call(&mut self, call: &mut CallExpr) -> Result<CostNode, MatcherError> {
        let mut operands = CostNode::default();
        if call.func_name == "matches" {
            self.pattern(call)?;
        } else if call.func_name == operators::ADD {
            self.sum_count += 1;
            if self.sum_count > MAX_SUMS {
                return Err(MatcherError::TooManySums);
            }
        } else if !OPERATORS.contains(&&*call.func_name) && !FUNCTIONS.contains(&&*call.func_name) {
            return Err(MatcherError::UnknownFunction(call.func_name.as_str().into()));
        }
        if let Some(target) = &mut call.target {
            operands = operands.and(self.visit(target)?);
        }
        Ok(operands.and(self.all(&mut call.args)?))
    }

    /// Compiles the pattern of `matches` and replaces it with its index in `patterns`.
    fn pattern(&mut self, call: &mut CallExpr) -> Result<(), MatcherError> {
        let pattern_error = |problem: &str| MatcherError::Pattern(problem.into());
        let arguments = call.args.len() + usize::from(call.target.is_some());
        let Some(IdedExpr { expr: Expr::Literal(literal), .. }) = call.args.last_mut() else {
            return Err(pattern_error("it is no literal"));
        };
        let LiteralValue::String(pattern) = &*literal else {
            return Err(pattern_error("it is no text"));
        };
        let pattern = pattern.inner();
        if arguments != 2
            || pattern.len() > MAX_PATTERN_LENGTH
            || self.patterns.len() == MAX_PATTERNS
        {
            return Err(pattern_error("it is too long, or there are too many"));
        }
        let pattern = RegexBuilder::new(pattern)
            .size_limit(MAX_PATTERN_MEMORY)
            .build()
            .map_err(|error| pattern_error(&error.to_string()))?;
        let index = i64::try_from(self.patterns.len()).unwrap_or(i64::MAX);
        self.patterns.push(pattern);
        *literal = LiteralValue::Int(index.into());
        MATCHES.clone_into(&mut call.func_name);
        Ok(())
    }

    fn comprehension(&mut self, it: &mut ComprehensionExpr) -> Result<CostNode, MatcherError> {
        self.loop_count += 1;
        if self.loop_count > MAX_LOOPS || self.loops.len() == MAX_LOOP_DEPTH {
            return Err(MatcherError::TooManyLoops);
        }
        let range = self.visit(&mut it.iter_range)?;
        let variable = it.iter_var.clone();
        let condition = condition(it).ok_or(MatcherError::MapMacro)?;
        self.loops.push(variable);
        let body = self.visit(condition);
        self.loops.pop();
        let body = body?.cost;
        insert_charge(condition, body);
        // In total, the iterations see each element once per node of the body.
        let once = Cost { nodes: 1, heavy: 1 + body.nodes };
        // The result of `filter` may be as large as its input.
        Ok(CostNode { cost: range.cost.and(once), is_large: range.is_large })
    }
}

// === impl CostNode ===

impl CostNode {
    fn of_literal(literal: &LiteralValue) -> Self {
        let bytes = match literal {
            LiteralValue::String(text) => text.inner().len(),
            LiteralValue::Bytes(bytes) => bytes.inner().len(),
            _ => 0,
        };
        let nodes = 1 + i64::try_from(bytes / 32).unwrap_or(i64::MAX);
        Self { cost: Cost { nodes, heavy: 0 }, is_large: false }
    }

    fn and(self, other: Self) -> Self {
        Self { cost: self.cost.and(other.cost), is_large: self.is_large || other.is_large }
    }

    /// Adds the cost of the parent node.
    fn within(self) -> Self {
        let node = Cost { nodes: 1, heavy: i64::from(self.is_large) };
        Self { cost: self.cost.and(node), is_large: self.is_large }
    }
}

/// Returns the condition in the body of `all`, `exists`, `exists_one` or `filter`, and `None` for `map`.
fn condition(it: &mut ComprehensionExpr) -> Option<&mut IdedExpr> {
    let is_variable = |node: &IdedExpr, variable: &str| matches!(&node.expr, Expr::Ident(name) if name == variable);
    let makes_list = matches!(it.accu_init.expr, Expr::List(_));
    let Expr::Call(step) = &mut it.loop_step.expr else { return None };
    match (step.func_name.as_str(), step.args.as_mut_slice()) {
        (operators::LOGICAL_AND | operators::LOGICAL_OR, [_, condition]) => {
            (!makes_list).then_some(condition)
        }
        (operators::CONDITIONAL, [condition, step, _]) => {
            let Expr::Call(step) = &step.expr else { return None };
            let is_kept_element = |added: &IdedExpr| match &added.expr {
                Expr::List(list) => {
                    matches!(&*list.elements, [one] if is_variable(one, &it.iter_var))
                }
                _ => !makes_list,
            };
            matches!(&*step.args, [_, added] if is_kept_element(added)).then_some(condition)
        }
        _ => None,
    }
}

/// Wraps `condition` so that each iteration is charged first, and is false once the budget is exhausted.
fn insert_charge(condition: &mut IdedExpr, cost: Cost) {
    let node = |expr| IdedExpr { id: 0, expr };
    let call = |name: &str, args| {
        let func_name = name.to_owned();
        node(Expr::Call(CallExpr { func_name, target: None, args }))
    };
    let number = |number: i64| node(Expr::Literal(LiteralValue::Int(number.into())));
    let round = call(ROUND, vec![number(ROUND_COST + cost.nodes), number(cost.heavy)]);
    let never = node(Expr::Literal(LiteralValue::Boolean(false.into())));
    let original = std::mem::take(condition);
    *condition = call(operators::CONDITIONAL, vec![round, original, never]);
}
