//! The tools behind MCP: what the server says about itself, and a call on its way in and out.
//!
//! The only file beside the transport that knows the protocol library. A call runs until it ends,
//! is cancelled, or its time is up; what its answer shows counts as read once the answer was
//! written.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use parler_connector::doorbell::Ladder;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    InitializeRequestParams, InitializeResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProgressToken, RequestId, ServerCapabilities, ServerConfig,
    Tool as McpTool, ToolAnnotations,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::delivery::Deliveries;
use crate::state::{Answer, Tools};
use crate::text::INSTRUCTIONS;
use crate::tools::{CallContext, Effect, Progress, TOOLS, Tool};
use crate::{HostInfo, OnHost};

/// Keys of a request's `_meta` by which hosts name their session.
const SESSION_KEYS: [&str; 2] = ["threadId", "sessionId"];

/// The server, one a process.
pub(crate) struct Server {
    pub(crate) tools: Arc<Tools>,
    pub(crate) ladder: Arc<Ladder>,
    pub(crate) deliveries: Arc<Deliveries<RequestId>>,
    /// Answers on their way out, whose messages then count as read.
    pub(crate) outgoing: TaskTracker,
    pub(crate) closing: CancellationToken,
    pub(crate) on_host: Option<OnHost>,
    pub(crate) host: Mutex<HostInfo>,
    /// Made once: schemas are derived, and asked for at every start.
    pub(crate) listed: Vec<McpTool>,
}

/// All tools as the protocol lists them.
pub(crate) fn listed() -> Vec<McpTool> {
    TOOLS.iter().map(list_one).collect()
}

fn list_one(tool: &Tool) -> McpTool {
    let hints = ToolAnnotations::with_title(tool.title);
    let hints = match tool.effect {
        Effect::Reads => hints.read_only(true),
        Effect::Consumes | Effect::Adds => hints.read_only(false).destructive(false),
    };
    McpTool::new(tool.name, tool.about, (tool.schema)()).with_annotations(hints.open_world(false))
}

impl Server {
    /// Notes who the host is, as far as it is told; says so when that is new.
    fn meet(&self, client: Option<Implementation>, meta: &serde_json::Map<String, Value>) {
        let told = {
            let mut host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
            let before = host.clone();
            if let Some(client) = client {
                host.client_name = client.name;
                host.client_version = client.version;
            }
            let ids: Vec<_> = SESSION_KEYS
                .iter()
                .filter_map(|key| Some(((*key).to_owned(), meta.get(*key)?.as_str()?.to_owned())))
                .collect();
            if !ids.is_empty() {
                host.ids = ids;
            }
            (*host != before).then(|| host.clone())
        };
        let Some(host) = told else {
            return;
        };
        self.tools
            .consumer
            .host(&host.client_name, host.session_id());
        if let Some(on_host) = &self.on_host {
            on_host(&host);
        }
    }

    async fn run(
        &self,
        tool: &'static Tool,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Answer {
        self.ladder.confirm();
        let cx = CallContext {
            progress: context
                .meta
                .get_progress_token()
                .map(|token| -> Arc<dyn Progress> {
                    Arc::new(Beat {
                        peer: context.peer.clone(),
                        token,
                    })
                }),
            closing: self.closing.clone(),
            started: Instant::now(),
        };
        self.tools
            .call(tool, request.arguments.unwrap_or_default(), &cx)
            .await
    }

    /// Sees to it that what the answer shows counts as read when it was written.
    fn deliver(&self, answer: &mut Answer, id: &RequestId) {
        let Some(batch) = answer.batch.take() else {
            return;
        };
        let Some(written) = self.deliveries.watch(id) else {
            return self.tools.put_back(&batch);
        };
        let tools = Arc::clone(&self.tools);
        self.outgoing.spawn(async move {
            match written.await {
                Ok(()) => tools.written(batch).await,
                Err(_) => tools.put_back(&batch),
            }
        });
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("parler", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let answer = self.negotiate_initialize(&request)?;
        self.meet(Some(request.client_info.clone()), &serde_json::Map::new());
        // Later requests are judged by what was agreed, not by what was asked for.
        request.protocol_version = answer.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(answer)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.listed.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.meet(context.client_info(), &context.meta);
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == request.name) else {
            let name = parler_connector::safe::token(&request.name);
            let text = format!("there is no tool '{name}'; tools/list names them");
            return Err(ErrorData::invalid_params(text, None));
        };
        let mut answer = tokio::select! {
            biased;
            // Nobody waits for the answer any more: whatever was read stays unread.
            () = context.ct.cancelled() => {
                return Err(ErrorData::internal_error("cancelled", None));
            }
            answer = self.run(tool, request, &context) => answer,
        };
        self.deliver(&mut answer, &context.id);
        let content = vec![ContentBlock::text(answer.text)];
        let result = match answer.failed {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        };
        Ok(result.into())
    }
}

/// Says that a wait goes on.
struct Beat {
    peer: Peer<RoleServer>,
    token: ProgressToken,
}

impl Progress for Beat {
    fn tell(&self, done: f64, of: f64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let note = ProgressNotificationParam::new(self.token.clone(), done).with_total(of);
            if let Err(error) = self.peer.notify_progress(note).await {
                tracing::debug!(%error, "no progress was told");
            }
        })
    }
}
