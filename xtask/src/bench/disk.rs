//! How often the disk can flush: nothing that is durable by itself can be faster.

use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use counterfoil::{Clock as _, SystemClock};

/// Flushes each second: one 4 KiB block is overwritten and flushed, again and again.
pub(super) fn flush_rate(folder: &Path, duration: Duration) -> Result<f64> {
    let path = folder.join("flush");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
    let mut block = [0x5a_u8; 4_096];
    file.write_all(&block)?;
    file.sync_all()?;
    let clock = SystemClock::default();
    let (started, mut flushes) = (clock.monotonic(), 0_u32);
    let took = loop {
        block[0] = block[0].wrapping_add(1);
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&block)?;
        file.sync_data()?;
        flushes += 1;
        let took = clock.monotonic().saturating_sub(started);
        if took >= duration {
            break took;
        }
    };
    std::fs::remove_file(path)?;
    Ok(f64::from(flushes) / took.as_secs_f64())
}
