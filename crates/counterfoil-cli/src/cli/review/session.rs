//! One sitting: sheet after sheet, and what the person says of each.

use std::time::Duration;

use counterfoil::{Clock as _, OperationId, SystemClock, Timestamp};
use serde_json::{Map, Value};

use super::input::Lines;
use super::notes::Notes;
use super::queue::{Entry, Queue, Told};
use super::sheet::Sheet;
use super::step::{Absence, Step};
use crate::cli::error::{CommandError, Kind};
use crate::cli::globals::Context;
use crate::cli::op::operation::Operation;
use crate::cli::op::reconcile;
use crate::cli::output::visible;
use crate::cli::target::{Target, path_of};
use crate::config::duration::Length;

/// A person at work.
pub(super) struct Session<'s, 'w> {
    context: &'s mut Context<'w>,
    lines: Lines,
    told: Told,
}

/// What became of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Became {
    /// It no longer waits for a person.
    Done,
    /// It was left as it is.
    Left,
    /// It changed, or something was added: it is looked at anew.
    Again,
    /// The person has gone.
    Quit,
}

impl<'s, 'w> Session<'s, 'w> {
    pub(super) fn new(context: &'s mut Context<'w>) -> Self {
        Self { context, lines: Lines::of_stdin(), told: Told::default() }
    }

    /// Works through the queue and says how many operations are left.
    pub(super) async fn work(mut self, targets: &[&Target], queue: &Queue) -> Result<usize, CommandError> {
        let all = queue.entries.len();
        if queue.more {
            self.say("there are more than this sitting holds; run it again afterwards")?;
        }
        let mut done = 0;
        for (number, entry) in queue.entries.iter().enumerate() {
            let Some(target) = targets.get(entry.place) else { continue };
            let place = format!("{} of {all}", number + 1);
            loop {
                match self.one(target, entry, &place).await? {
                    Became::Again => {}
                    Became::Done => {
                        done += 1;
                        break;
                    }
                    Became::Left => break,
                    Became::Quit => return self.end(all, done),
                }
            }
        }
        self.end(all, done)
    }

    fn end(&mut self, all: usize, done: usize) -> Result<usize, CommandError> {
        let left = all - done;
        self.say(&format!("\n{done} settled, {left} left"))?;
        Ok(left)
    }

    fn say(&mut self, text: &str) -> Result<(), CommandError> {
        self.context.out.line(text)
    }

    /// The answer to a question, without white space around it; `None` where nobody answers any more.
    async fn ask(&mut self, question: &str) -> Result<Option<String>, CommandError> {
        self.context.out.text(format!("{question} "))?;
        self.context.out.flush()?;
        Ok(self.lines.next().await?.map(|line| line.trim().to_owned()))
    }

    /// Shows one operation as it is now and does what is said.
    async fn one(&mut self, target: &Target, entry: &Entry, place: &str) -> Result<Became, CommandError> {
        let id = OperationId::parse(&entry.id)?;
        let operation = Operation::read(&target.get(path_of(&id, "")).await?.body)?;
        if operation.next.action != "review" {
            self.say(&format!("{} waits for nobody any more: {}", visible(&entry.id), standing(&operation)))?;
            return Ok(Became::Done);
        }
        let notes = Notes::read(target, &id).await?;
        let texts = self.told.of(target, entry.place, &operation).await?;
        let absence = Absence::of(&operation, SystemClock::default().now());
        let steps = Step::all(&operation, &absence);
        let sheet = Sheet {
            entry,
            place: place.to_owned(),
            operation: &operation,
            texts: &texts,
            notes: &notes,
            absence: &absence,
            steps: &steps,
        };
        sheet.print(&mut self.context.out)?;
        loop {
            let Some(answer) = self.ask(&format!("{}>", visible(&entry.id))).await? else {
                return Ok(Became::Quit);
            };
            let step = match answer.as_str() {
                "" => return Ok(Became::Left),
                "q" | "quit" => return Ok(Became::Quit),
                letter => steps.iter().copied().find(|step| letter == step.letter().to_string()),
            };
            let Some(step) = step else {
                let letters: Vec<String> = steps.iter().map(|step| step.letter().to_string()).collect();
                self.say(&format!("one of {}, Enter, or q", letters.join(", ")))?;
                continue;
            };
            match self.take(target, &operation, &notes, &id, step).await {
                Ok(Some(became)) => return Ok(became),
                Ok(None) => {}
                Err(error) if error.slug == Some("changed-meanwhile") => {
                    self.meanwhile(target, &operation, &id).await?;
                    return Ok(Became::Again);
                }
                // A refusal is an answer; a ledger or server that is gone ends the sitting.
                Err(error) if error.kind == Kind::Refused || error.kind == Kind::Usage => {
                    self.say(&format!("refused: {}", error.message))?;
                    for hint in &error.hints {
                        self.say(&format!("  {hint}"))?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Does one step; nothing where the person thought better of it.
    async fn take(
        &mut self,
        target: &Target,
        operation: &Operation,
        notes: &Notes,
        id: &OperationId,
        step: Step,
    ) -> Result<Option<Became>, CommandError> {
        match step {
            Step::Whole => {
                self.whole(operation, notes)?;
                Ok(None)
            }
            Step::LookUp => {
                let now = Operation::read(&reconcile::ask(target, id).await?.body)?;
                let newest = now.lookups.last().filter(|newest| {
                    operation.lookups.last().is_none_or(|seen| seen.began_at != newest.began_at)
                });
                self.say(&match newest {
                    Some(newest) => format!("asked at {}: {}", newest.began_at, visible(&newest.answer)),
                    None => "not asked: no look-up is declared, or the last one is too recent".to_owned(),
                })?;
                Ok(newest.map(|_| Became::Again))
            }
            Step::Note => self.note(target, id).await,
            Step::Release => {
                let Some(note) = self.ask("why may later ones pass?").await?.filter(|text| !text.is_empty())
                else {
                    return Ok(None);
                };
                let body = Map::from_iter([("note".to_owned(), note.into())]);
                self.decide(target, operation, id, "/release", body, "release").await
            }
            Step::Succeeded | Step::Absent | Step::Abandon | Step::Acknowledge => {
                self.verdict(target, operation, id, step).await
            }
        }
    }

    async fn verdict(
        &mut self,
        target: &Target,
        operation: &Operation,
        id: &OperationId,
        step: Step,
    ) -> Result<Option<Became>, CommandError> {
        let verdict = step.verdict().unwrap_or_default();
        let mut body = Map::from_iter([("verdict".to_owned(), verdict.into())]);
        let mut said = verdict.to_owned();
        if step == Step::Succeeded {
            let asked = self.ask("what does the destination call it (its reference)?").await?;
            let Some(reference) = asked.filter(|text| !text.is_empty()) else { return Ok(None) };
            said.push_str(&format!(", reference {}", visible(&reference)));
            body.insert("reference".to_owned(), reference.into());
        }
        if step == Step::Absent {
            let Some(again) = self.ask("allow exactly one more attempt? [y/N]").await? else {
                return Ok(None);
            };
            if is_yes(&again) {
                said.push_str(", one more attempt");
                body.insert("allow_another_attempt".to_owned(), true.into());
            }
        }
        let asked = self.ask("how was that established?").await?;
        let Some(note) = asked.filter(|text| !text.is_empty()) else { return Ok(None) };
        body.insert("note".to_owned(), note.into());
        self.decide(target, operation, id, "/resolve", body, &said).await
    }

    /// Says what will be recorded, and records it if the person says yes. It is about the version that was shown.
    async fn decide(
        &mut self,
        target: &Target,
        operation: &Operation,
        id: &OperationId,
        what: &str,
        mut body: Map<String, Value>,
        said: &str,
    ) -> Result<Option<Became>, CommandError> {
        let question = format!("record for {}: {said}? [y/N]", visible(&operation.id));
        if !self.ask(&question).await?.is_some_and(|answer| is_yes(&answer)) {
            self.say("nothing was recorded")?;
            return Ok(None);
        }
        body.insert("if_version".to_owned(), operation.version.into());
        let answer = target.post(path_of(id, what), body, Duration::ZERO).await?;
        let now = Operation::read(&answer.body)?;
        self.say(&format!("recorded: {}", standing(&now)))?;
        if target.here().is_some() && matches!(now.next.action.as_str(), "retry" | "execute") {
            self.say(
                "nothing was sent from here: a running server goes on, or `counterfoil op execute` does",
            )?;
        }
        Ok(Some(if now.next.action == "review" { Became::Again } else { Became::Done }))
    }

    async fn note(&mut self, target: &Target, id: &OperationId) -> Result<Option<Became>, CommandError> {
        let Some(text) = self.ask("what did you find?").await?.filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let mut body = Map::from_iter([("text".to_owned(), text.into())]);
        let when =
            "remind you when? (a time such as 2026-11-30T08:00:00Z, a while such as 2h, or Enter for never)";
        let Some(when) = self.ask(when).await? else { return Ok(None) };
        if !when.is_empty() {
            let Some(at) = instant(&when) else {
                self.say("that is neither a time nor a while; nothing was written down")?;
                return Ok(None);
            };
            body.insert("remind_at".to_owned(), at.to_string().into());
        }
        target.post(path_of(id, "/notes"), body, Duration::ZERO).await?;
        self.say("written down")?;
        Ok(Some(Became::Left))
    }

    /// Everything, however long it is.
    fn whole(&mut self, operation: &Operation, notes: &Notes) -> Result<(), CommandError> {
        self.say(&format!("arguments  {}", visible(operation.arguments.get())))?;
        if let Some(by) = &operation.accepted_by {
            self.say(&format!("accepted by  {}", visible(by.get())))?;
        }
        for row in &notes.rows {
            let (by, data) = (visible(&row.by.principal), visible(&row.data.to_string()));
            self.say(&format!(
                "{}  {}  {by} ({})  {data}",
                row.at,
                visible(&row.kind),
                visible(&row.by.kind)
            ))?;
        }
        Ok(())
    }

    /// What happened since the sheet was shown: one row of evidence for each version.
    async fn meanwhile(
        &mut self,
        target: &Target,
        shown: &Operation,
        id: &OperationId,
    ) -> Result<(), CommandError> {
        self.say("nothing was recorded: the operation changed since it was shown.")?;
        let notes = Notes::read(target, id).await?;
        let seen = usize::try_from(shown.version).unwrap_or(usize::MAX);
        for row in notes.rows.iter().skip(seen) {
            let (by, data) = (visible(&row.by.principal), visible(&row.data.to_string()));
            self.say(&format!("  {}  {}  by {by}  {data}", row.at, visible(&row.kind)))?;
        }
        Ok(())
    }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer, "y" | "Y" | "yes")
}

/// A time, or a while from now.
fn instant(text: &str) -> Option<Timestamp> {
    match Length::parse(text) {
        Ok(length) => Some(SystemClock::default().now().plus(length.0)),
        Err(_) => Timestamp::parse(text),
    }
}

fn standing(operation: &Operation) -> String {
    format!("{}, {}", operation.standing(), visible(&operation.next.told()))
}
