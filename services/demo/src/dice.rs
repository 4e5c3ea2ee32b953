//! `dice`: rolls dice one by one, with progress, and a prompt.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    ListPromptsResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, Prompt,
    PromptArgument, PromptMessage, ProtocolVersion, Role, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

use crate::definition::{
    STATELESS, ToolResult, arguments, failed, read_only, server, text, tool, unknown,
};

pub(crate) const NAME: &str = "dice";

/// Duration of one roll.
const ROLL: Duration = Duration::from_millis(100);

const SIDES: RangeInclusive<u32> = 2..=1000;
const DICE: RangeInclusive<u32> = 1..=20;

/// Description of the prompt.
const FORTUNE: &str = "Rolls dice and reads the answer to a question from them.";

/// Server without state.
#[derive(Debug)]
pub(crate) struct Dice;

impl ServerHandler for Dice {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_prompts().build();
        server(NAME, capabilities, "The dice are fair. Each roll takes a moment.")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(STATELESS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![roll_tool()]))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> ToolResult {
        match &*params.name {
            "roll" => roll(&arguments(params.arguments), &context).await,
            name => Err(unknown("tool", name)),
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let question =
            PromptArgument::new("question").with_description("The question").with_required(true);
        let prompt = Prompt::new("fortune", Some(FORTUNE), Some(vec![question]));
        Ok(ListPromptsResult::with_all_items(vec![prompt.with_title("Let the dice decide")]))
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if params.name != "fortune" {
            return Err(unknown("prompt", &params.name));
        }
        let arguments = arguments(params.arguments);
        let question = arguments["question"].as_str().unwrap_or("What now?");
        let request =
            format!("Roll two dice of six sides and read from them an answer to: {question}");
        let message = PromptMessage::new_text(Role::User, request);
        Ok(GetPromptResult::new(vec![message]).with_description(FORTUNE).into())
    }
}

fn roll_tool() -> Tool {
    tool(
        "roll",
        "Roll the dice",
        "Rolls dice one by one, with progress, and returns each result and the sum.",
        &json!({
            "dice": {"type": "integer", "minimum": DICE.start(), "maximum": DICE.end()},
            "sides": {"type": "integer", "minimum": SIDES.start(), "maximum": SIDES.end()},
        }),
    )
    .with_annotations(read_only())
}

async fn roll(arguments: &Value, context: &RequestContext<RoleServer>) -> ToolResult {
    let number = |key: &str, range: &RangeInclusive<u32>| {
        let number = u32::try_from(arguments[key].as_u64()?).ok();
        number.filter(|number| range.contains(number))
    };
    let (Some(dice), Some(sides)) = (number("dice", &DICE), number("sides", &SIDES)) else {
        return Ok(failed(format!(
            "dice must be {} to {}, sides {} to {}",
            DICE.start(),
            DICE.end(),
            SIDES.start(),
            SIDES.end()
        )));
    };
    let token = context.meta.get_progress_token();
    let mut results = Vec::new();
    for die in 1..=dice {
        tokio::time::sleep(ROLL).await;
        let Some(result) = random_side(sides) else {
            return Ok(failed("failed to roll: the operating system has no random numbers"));
        };
        results.push(result);
        if let Some(token) = &token {
            let progress = ProgressNotificationParam::new(token.clone(), die.into())
                .with_total(dice.into())
                .with_message(format!("die {die}: {result}"));
            // Without a client, the message is unnecessary.
            _ = context.peer.notify_progress(progress).await;
        }
    }
    let total: u64 = results.iter().sum();
    let results = results.iter().map(u64::to_string).collect::<Vec<_>>().join(" + ");
    Ok(text(format!("{results} = {total}")))
}

/// Returns a side with uniform probability; `None` if the system has no random numbers.
fn random_side(sides: u32) -> Option<u64> {
    let sides = u64::from(sides);
    // Reject the rest of the range, which would favor the first sides.
    let end = u64::MAX - u64::MAX % sides;
    loop {
        let random = getrandom::u64().ok()?;
        if random < end {
            return Some(random % sides + 1);
        }
    }
}
