//! Ranking of tools for search_tools.
