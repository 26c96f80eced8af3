//! The front command of mcp-working-set.
