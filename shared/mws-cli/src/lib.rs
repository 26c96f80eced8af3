//! What every program shares on the command line.
