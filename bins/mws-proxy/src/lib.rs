//! MCP proxy.
