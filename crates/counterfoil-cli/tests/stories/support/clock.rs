//! A clock that a story sets while the server runs: the wall clock alone, never the monotonic one.

use std::path::PathBuf;

use super::World;

/// The wall clock of the servers that are started with its [`Clock::variables`].
pub(crate) struct Clock {
    file: PathBuf,
}

impl Clock {
    /// A clock that is right.
    pub(crate) fn new(world: &World) -> Self {
        let clock = Self { file: world.folder.path().join("clock") };
        clock.set(0);
        clock
    }

    /// Sets it that many seconds away from the right time.
    pub(crate) fn set(&self, seconds: i64) {
        let next = self.file.with_extension("next");
        std::fs::write(&next, format!("{seconds:+}\n")).unwrap();
        std::fs::rename(&next, &self.file).unwrap();
    }

    /// What makes a process live by it.
    #[track_caller]
    pub(crate) fn variables(&self) -> [(&str, &str); 4] {
        [
            ("LD_PRELOAD", library()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]
    }
}

/// Where Debian's package `faketime` puts its library.
#[track_caller]
fn library() -> &'static str {
    const PLACES: [&str; 3] = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/faketime/libfaketimeMT.so.1",
    ];
    let found = PLACES.into_iter().find(|place| std::path::Path::new(place).exists());
    found.expect("the package `faketime` is installed (scripts/test does it)")
}
