//! The command line of `mws-proxy`.

use clap::Parser;
use mws_cli::Common;

/// MCP proxy that lists the working set and reaches every other tool in one hop
///
/// Forwards each MCP request to the upstream server unchanged, except that `tools/list` shows
/// only search_tools, call_tool and the working set. Prints one line
/// {"listening":"http://127.0.0.1:PORT/mcp"} on stdout when it is ready.
#[derive(Debug, Clone, Parser)]
#[command(name = "mws-proxy", version)]
pub struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,

    /// Address to listen on; port 0 takes a free one [default: listen of the configuration]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,

    /// Speak MCP on stdin and stdout instead of listening; no port is opened
    #[arg(long, conflicts_with_all = ["listen", "check"])]
    pub(crate) stdio: bool,

    /// Connect to the upstream, list its tools, write catalog.json, print {ok, protocol, tools, ms} and end
    #[arg(long)]
    pub(crate) check: bool,

    /// Upstream URL, instead of the one in the configuration
    #[arg(long, value_name = "URL", conflicts_with = "upstream_command")]
    pub(crate) upstream: Option<String>,

    /// Upstream command and its arguments; takes every following word, so it stands last
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    pub(crate) upstream_command: Option<Vec<String>>,
}
