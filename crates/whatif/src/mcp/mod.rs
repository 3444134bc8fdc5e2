//! `whatif mcp`: a server of the Model Context Protocol on standard input and output. By it a programming assistant finds what is worth changing, and
//! checks afterwards what became of it.
//!
//! Each tool is a command of ours, in a process of its own, and answers with the JSON of that command, made short. **Does not:** listen to a network, or run
//! anything but what it is asked to.

mod command;
mod tools;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use tokio::signal::unix::{SignalKind, signal};

use self::command::Running;
use self::tools::Tool;

/// What an assistant reads before it asks anything.
const INSTRUCTIONS: &str = "\
whatif says what would happen to a program if some of its code took less time: code may take much time and be worth nothing, because others \
are waited for. 1. Build the program with optimisation and debug information. 2. `run` profiles it and answers with pieces of code and what 20 % less \
time in each is worth, with intervals; progress is counted where the program marks it, or at a place that is found (`points` lists them). \
3. Change that code. 4. `run` again into another recording, with the point of the first answer in `points`, and `compare` both. What is not sure is called so: \
then the commands of `next` narrow it, or more `seconds`.";

/// The server; all copies have the same running commands.
#[derive(Clone, Default)]
struct Server {
    running: Arc<Running>,
}

/// Serves until its client goes, or a signal ends it. Commands that run then are asked to end, and waited for.
pub fn mcp() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let server = Server::default();
        let service = server.clone().serve(rmcp::transport::stdio()).await;
        let service = service.context("no client of the Model Context Protocol is at standard input")?;
        // Until a client has spoken they end this at once.
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut asked_to_end = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        tokio::select! {
            quit = service.waiting() => { quit.context("serving")?; }
            () = asked_to_end() => {}
        }
        // A second signal ends the wait.
        tokio::select! {
            () = server.running.end_all() => {}
            () = asked_to_end() => {}
        }
        Ok(())
    });
    // A thread may wait for input that never comes.
    runtime.shutdown_background();
    served
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("whatif", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(Tool::ALL.into_iter().map(Tool::description).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = Tool::ALL.into_iter().find(|tool| tool.name() == request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        };
        let arguments = request.arguments.unwrap_or_default().into();
        // What went wrong is for the assistant, which may ask in another way.
        let result = match tool.call(arguments, &self.running, &context).await {
            Ok(answer) => CallToolResult::structured(answer),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(format!("{error:#}"))]),
        };
        Ok(CallToolResponse::Complete(result))
    }
}
