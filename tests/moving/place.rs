//! Where a store is, and the commands that take it from there to another place.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::support::server::{Folder, Setup};
use crate::support::{Server, mongodb, process, tool, unique};

/// 32 bytes in base64.
pub(super) const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// A store: its settings.
#[derive(Clone, Debug)]
pub(super) struct Place(Vec<(&'static str, String)>);

impl Place {
    /// A file in the working folder.
    pub(super) fn sqlite() -> Self {
        Place(vec![("COLLOQUY__STORE__KIND", "sqlite".to_owned())])
    }

    /// A database of its own.
    pub(super) fn mongodb() -> Self {
        Place(vec![
            ("COLLOQUY__STORE__KIND", "mongodb".to_owned()),
            ("COLLOQUY__STORE__URI", mongodb::uri().to_owned()),
            (
                "COLLOQUY__STORE__DATABASE",
                unique("moving").replace('-', "_"),
            ),
        ])
    }

    /// A server that delivers to this machine, and tries what failed again in an hour.
    pub(super) fn setup(&self) -> Setup {
        let setup = Setup::default()
            .delivering("[3600]", "5")
            // The store key is moved as it is wrapped: both places need the one master key.
            .env("COLLOQUY__ENCRYPTION__MASTER_KEY", MASTER_KEY);
        let settings = self.0.iter();
        settings.fold(setup, |setup, (name, value)| setup.env(name, value))
    }

    /// A server on a store that was imported.
    pub(super) fn start_imported(&self, folder: Folder) -> Server {
        self.setup().known().start_in(folder)
    }

    fn command(&self, command: &str, work: &Path) -> Command {
        let mut process = process::colloquy();
        process.arg(command).current_dir(work);
        process.env("NO_COLOR", "1").envs(self.0.clone());
        process.env("COLLOQUY__ENCRYPTION__MASTER_KEY", MASTER_KEY);
        process
    }

    /// Exports the store; gives the file with the dump, which lies in the working folder.
    pub(super) fn export(&self, work: &Path) -> PathBuf {
        let dump = work.join("dump.ndjson");
        let exported = self.try_export(work, &dump);
        assert!(exported.status.success(), "export: {}", said(&exported));
        dump
    }

    pub(super) fn try_export(&self, work: &Path, dump: &Path) -> Output {
        let mut command = self.command("export", work);
        let command = command.stdout(File::create(dump).unwrap());
        tool::started("setpriv", command.stderr(Stdio::piped()).output())
    }

    /// Imports with these settings.
    pub(super) fn import_with(
        &self,
        work: &Path,
        dump: &Path,
        settings: &[(&str, &str)],
    ) -> Output {
        let mut command = self.command("import", work);
        command.envs(settings.iter().copied());
        tool::started("setpriv", command.stdin(File::open(dump).unwrap()).output())
    }

    pub(super) fn import(&self, work: &Path, dump: &Path) {
        let imported = self.try_import(work, dump);
        assert!(imported.status.success(), "import: {}", said(&imported));
    }

    pub(super) fn try_import(&self, work: &Path, dump: &Path) -> Output {
        let mut command = self.command("import", work);
        let command = command.stdin(File::open(dump).unwrap());
        tool::started("setpriv", command.output())
    }

    pub(super) fn check(&self, work: &Path) -> Output {
        tool::started("setpriv", self.command("check", work).output())
    }

    /// Begins to import what is written to its standard input.
    pub(super) fn begin_import(&self, work: &Path) -> Child {
        let mut command = self.command("import", work);
        command.stdin(Stdio::piped());
        process::spawn(command)
    }

    /// Has a refusal of one line that says this, and exit code 1.
    pub(super) fn refused(&self, work: &Path, dump: &[u8], why: &str) {
        let file = work.join("refused.ndjson");
        fs::write(&file, dump).unwrap();
        assert_refused(&self.try_import(work, &file), why);
    }
}

/// Checks a refusal: exit code 1, and one line that says why, the last one.
pub(super) fn assert_refused(output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", said(output));
    let said = said(output);
    // Before it, at most how far it was.
    let (before, last) = said
        .trim_end()
        .rsplit_once('\n')
        .unwrap_or(("", said.trim_end()));
    let is_clear = last.starts_with("colloquy: ") && last.contains(why);
    assert!(
        is_clear && !before.contains("colloquy: "),
        "not {why:?}: {said}"
    );
}

pub(super) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
