//! `clock`: the current time, and calculations with dates.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

use crate::definition::{
    STATELESS, ToolResult, arguments, failed, read_only, schema, server, tool, unknown,
};

pub(crate) const NAME: &str = "clock";

/// Seconds per day.
const DAY: i64 = 86_400;

/// Maximum distance of a calculated date, in days.
const MAX_DAYS: i64 = 3_000_000;

/// Server without state.
#[derive(Debug)]
pub(crate) struct Clock;

impl ServerHandler for Clock {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        server(NAME, capabilities, "All times are UTC.")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(STATELESS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools().into()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> ToolResult {
        match &*params.name {
            "now" => Ok(now()),
            "add_days" => Ok(add_days(&arguments(params.arguments))),
            name => Err(unknown("tool", name)),
        }
    }
}

fn tools() -> [Tool; 2] {
    [
        tool("now", "Current time", "Returns the current time in UTC.", &json!({}))
            .with_raw_output_schema(schema(
                &json!({"time": {"type": "string", "format": "date-time"}}),
            ))
            .with_annotations(read_only()),
        tool(
            "add_days",
            "Add days to a date",
            "Returns the date that is this number of days after another date, or before it if the number is negative.",
            &json!({
                "date": {"type": "string", "format": "date", "description": "Such as 2026-07-28"},
                "days": {"type": "integer", "minimum": -MAX_DAYS, "maximum": MAX_DAYS},
            }),
        )
        .with_raw_output_schema(schema(&json!({"date": {"type": "string", "format": "date"}})))
        .with_annotations(read_only()),
    ]
}

fn now() -> CallToolResponse {
    // A system clock before 1970 is reported as 1970.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = i64::try_from(since).unwrap_or_default();
    CallToolResult::structured(json!({"time": time(seconds)})).into()
}

fn add_days(arguments: &Value) -> CallToolResponse {
    let Some(days) = arguments["date"].as_str().and_then(days_of) else {
        return failed("date must be a day such as 2026-07-28");
    };
    match arguments["days"].as_i64() {
        Some(more) if (-MAX_DAYS..=MAX_DAYS).contains(&more) => {
            CallToolResult::structured(json!({"date": date(days + more)})).into()
        }
        _ => failed(format!("days must be a whole number up to {MAX_DAYS}")),
    }
}

/// Formats a time by RFC 3339.
fn time(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    format!("{}T{:02}:{:02}:{:02}Z", date(days), rest / 3600, rest / 60 % 60, rest % 60)
}

/// Returns the date of a day since 1970-01-01. The calculation uses years from March, so that the leap day is their last
/// day.
fn date(days: i64) -> String {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns the number of days from 1970-01-01 to a date; `None` if the date does not exist.
fn days_of(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, '-');
    let mut number = |digits: usize| {
        let part = parts.next()?;
        let plain = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| part.parse::<i64>().ok())?
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    let shifted = year - i64::from(month <= 2);
    let (era, year_of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let from_march = (month + 9).rem_euclid(12);
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    let days = era * 146_097 + of_era - 719_468;
    // A date that does not exist, such as 2026-02-30, converts back to a different text.
    (date(days) == text).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_days_to_dates_and_back() {
        for days in (-700_000..3_000_000).step_by(97) {
            let date = date(days);
            if date.len() == 10 && !date.starts_with('-') {
                assert_eq!(days_of(&date), Some(days), "{date}");
            }
        }
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(20_662), "2026-07-28");
        assert_eq!(time(951_827_696), "2000-02-29T12:34:56Z");
    }

    #[test]
    fn rejects_invalid_dates() {
        for text in
            ["2026-02-30", "2026-13-01", "2026-00-10", "26-1-1", "", "2026-07-28x", "-001-01-01"]
        {
            assert_eq!(days_of(text), None, "{text}");
        }
    }
}
