//! Expression parser on a separate thread.

use cel::common::ast::IdedExpr;
use cel::parser::Parser;

use crate::MatcherError;

/// Stack size in bytes: several times the use of the worst known expressions in unoptimized builds. Only touched pages
/// occupy memory.
const PARSER_STACK_SIZE: usize = 32 << 20;

/// Parses an expression on a thread with a large stack. The generated parser makes about a dozen nested calls per
/// bracket and may panic on unusual input; a panic becomes a syntax error.
pub(crate) fn parse(source: &str) -> Result<IdedExpr, MatcherError> {
    let result = std::thread::scope(|scope| {
        let parser =
            std::thread::Builder::new().name("cel-parser".into()).stack_size(PARSER_STACK_SIZE);
        let parse = || {
            Parser::default().parse(source).map_err(|errors| {
                let message = errors.errors.first().map(|error| {
                    format!("{} (line {}, column {})", error.msg, error.pos.0, error.pos.1)
                });
                MatcherError::Syntax(message.unwrap_or_default().into())
            })
        };
        parser.spawn_scoped(scope, parse).map(std::thread::ScopedJoinHandle::join)
    });
    match result {
        Ok(Ok(result)) => result,
        Ok(Err(_panic)) => Err(MatcherError::Syntax("it cannot be read".into())),
        Err(none) => Err(MatcherError::Syntax(format!("no thread to read it on: {none}").into())),
    }
}

/// Returns the maximum nesting depth of brackets. Brackets in string literals count as well, since the result is an
/// upper bound for the parser's stack.
pub(crate) fn max_bracket_depth(source: &str) -> usize {
    let (mut depth, mut max_depth) = (0_usize, 0);
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' | b'?' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        max_depth = max_depth.max(depth);
    }
    max_depth
}
