//! `counterfoil audit`

use clap::{Args, Subcommand};

use counterfoil::store::{AuditFault, AuditReport, MarkState};
use serde_json::{Value, json};

use super::database::{self, Missing};
use super::error::CommandError;
use super::exit::Exit;
use super::globals::Context;

/// The commands about evidence.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check the chain of evidence.
    Verify(VerifyArgs),
}

/// Check the chain of evidence
///
/// Finds any row that was changed, removed, inserted or reordered, and a tail that was cut off. Ends with 1 where anything
/// is broken.
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {}

/// Runs the command.
///
/// # Errors
/// Where the ledger cannot be read, or its evidence does not hold together.
pub fn run(command: &AuditCommand, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    match command {
        AuditCommand::Verify(args) => verify(args, context),
    }
}

fn verify(_args: &VerifyArgs, context: &mut Context<'_>) -> Result<Exit, CommandError> {
    database::only_here(context, "audit verify")?;
    let config = context.config()?;
    let (report, mark) = database::block_on(async {
        let store = database::open(&config, Missing::Refuse).await?;
        let found = (store.verify().await?, store.mark_state());
        store.close().await;
        Ok(found)
    })?;
    let sound = report.faults.is_empty() && mark == MarkState::Current;
    if context.out.json {
        context.out.json(&object(&report, mark, sound))?;
    } else {
        print(&report, mark, context)?;
    }
    if !sound {
        context.out.note(
            "hint: keep this file and its backups as they are before anything else is done; compare them with a copy \
             from elsewhere",
        )?;
    }
    Ok(if sound { Exit::Done } else { Exit::Error })
}

fn print(report: &AuditReport, mark: MarkState, context: &mut Context<'_>) -> Result<(), CommandError> {
    let AuditReport { rows, chains, faults } = report;
    context.out.line(format!(
        "rows {rows}, chains {chains}, faults {}, mark {}",
        faults.len(),
        mark_name(mark)
    ))?;
    if !faults.is_empty() {
        let mut table = vec![["POSITION", "ACCOUNT", "CHAIN", "SEQ", "PROBLEM"].map(str::to_owned).to_vec()];
        table.extend(faults.iter().map(row));
        context.out.table(&table)?;
    }
    match mark {
        MarkState::Current => Ok(()),
        MarkState::Missing => {
            context.out.line("the mark is missing: whether the newest rows were cut off cannot be told")
        }
        MarkState::Behind => {
            context.out.line("the ledger ends before its mark: it was cut, or restored from a copy")
        }
    }
}

fn row(fault: &AuditFault) -> Vec<String> {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    vec![
        fault.position.to_string(),
        or_dash(&fault.account),
        or_dash(&fault.writer),
        fault.seq.to_string(),
        fault.problem.to_owned(),
    ]
}

fn object(report: &AuditReport, mark: MarkState, sound: bool) -> Value {
    let fault = |fault: &AuditFault| {
        json!({
            "position": fault.position, "account": fault.account, "writer": fault.writer, "seq": fault.seq,
            "problem": fault.problem,
        })
    };
    json!({
        "sound": sound, "rows": report.rows, "chains": report.chains, "mark": mark_name(mark),
        "faults": report.faults.iter().map(fault).collect::<Vec<_>>(),
    })
}

/// The name under which a mark's state is shown.
pub(super) fn mark_name(mark: MarkState) -> &'static str {
    match mark {
        MarkState::Current => "current",
        MarkState::Missing => "missing",
        MarkState::Behind => "behind",
    }
}
