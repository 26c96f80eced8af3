//! `mws init`: a configuration file to start from.
//!
//! Invariant: an existing file is never touched, not even when two runs race.
//! Deliberately absent: questions. The file says what there is to decide.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use mws_cli::{Common, Exit, Failure, Output};
use mws_config::{Places, default_config};

/// Writes the file that `--config` names, else the one in force.
pub(crate) fn run(common: &Common) -> Result<Exit, Failure> {
    let places = Places::from_env();
    let path = common.config.clone().unwrap_or_else(|| places.config_file());
    match write_new(&path, &default_config(&places)) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Failure::failed(format!(
                "{} exists already; left as it is",
                path.display()
            ))
            .hint("edit it, or name another file with --config FILE"));
        }
        Err(e) => return Err(Failure::failed(format!("cannot write {}: {e}", path.display()))),
    }
    let mut out = Output::stdout();
    out.line(path.display())?;
    out.finish()?;
    Ok(Exit::Done)
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_private_and_never_overwritten() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("a/b/config.json");
        write_new(&path, "{}").expect("written");
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = write_new(&path, "[]").expect_err("refused");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "{}");
    }
}
