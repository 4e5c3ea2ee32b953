//! `vmcp workflow run`.

use clap::Args;
use serde_json::{Map, Value, json};
use vmcp_core::code;

use super::answers::{self, Answers};
use super::dry_run::{DryRun, check_names, check_questions};
use crate::call::{as_text, object};
use crate::config::{ConfigFile, LoadedConfig};
use crate::output::{Failure, OutputArgs, OutputFormat, block_on, eprint_line, print, print_json};
use crate::session::Session;
use crate::table::plain;

/// Arguments of `vmcp workflow run`. The exit code is 1 if the run fails.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    config: ConfigFile,
    /// The name of the composite tool.
    #[arg(long, value_name = "NAME")]
    tool: String,
    /// The arguments of the tool: a JSON object.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = object)]
    arguments: Value,
    /// Answers to the questions of steps, by step: content to accept with, or "decline" or "cancel". Questions without
    /// an answer are asked at the terminal.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = answers::parse)]
    answers: Answers,
    /// Call no tool: show the calls, and use the results of --results.
    #[arg(long = "dry-run")]
    is_dry: bool,
    /// Structured results of the steps of a dry run, by step. A step without one returns an empty object.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = object, requires = "is_dry")]
    results: Value,
    #[command(flatten)]
    output: OutputArgs,
}

impl Run {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let loaded = self.config.require()?;
        block_on(self.run_tool(loaded))
    }

    async fn run_tool(self, loaded: LoadedConfig) -> Result<(), Failure> {
        let LoadedConfig { text: _, named: _, file: _, parts, warnings, egress: _ } = loaded;
        let Self { config: _, tool, arguments, answers, is_dry, results, output } = self;
        for warning in warnings {
            eprint_line(&format!("warning: {warning}"));
        }
        let workflow = super::find(&parts.settings.rules.workflows, &tool)?.clone();
        check_names(&workflow, "--answers", answers.steps())?;
        check_questions(&workflow, answers.steps())?;
        if is_dry {
            return DryRun { workflow, arguments, answers, results }.run(output.format).await;
        }
        let session = Session::start(parts).await?;
        for line in session.unreachable() {
            eprint_line(&plain(&line));
        }
        let mut progress = Vec::new();
        let ended = ask_and_call(&session, &tool, arguments, answers, &mut progress).await;
        session.close().await;
        let result = ended?;
        match output.format {
            OutputFormat::Json => print_json(&json!({"progress": progress, "result": result})),
            OutputFormat::Text => print(&as_text(&result)),
        }
        if result["isError"] == true { Err(Failure::AlreadyReported) } else { Ok(()) }
    }
}

/// Calls the tool, again with answers until no question is open. Shows each step that ends.
async fn ask_and_call(
    session: &Session,
    tool: &str,
    arguments: Value,
    mut answers: Answers,
    progress: &mut Vec<Value>,
) -> Result<Value, Failure> {
    let mut params = json!({"name": tool, "arguments": arguments});
    let mut questions = Value::Null;
    loop {
        let message = session.call(params.clone(), |notification| {
            eprint_line(&progress_line(&notification["params"]));
            progress.push(notification["params"].clone());
        });
        let mut message = message.await?;
        if let Some(error) = message.get("error") {
            let text = plain(error["message"].as_str().unwrap_or("no message"));
            // The question of a wrong answer is still open.
            let is_answer = error["code"] == code::INVALID_PARAMS && !questions.is_null();
            if !is_answer {
                return Err(Failure::Error(format!("{text} ({})", error["code"])));
            }
            eprint_line(&text);
        } else {
            let mut result = message["result"].take();
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            params["requestState"] = result["requestState"].take();
            questions = result["inputRequests"].take();
        }
        let mut given = Map::new();
        for (step, request) in questions.as_object().into_iter().flatten() {
            given.insert(step.clone(), answers.answer(step, &request["params"])?);
        }
        params["inputResponses"] = given.into();
    }
}

fn progress_line(params: &Value) -> String {
    let message = params["message"].as_str().unwrap_or_default();
    plain(&format!("[{}/{}] {message}", params["progress"], params["total"]))
}
