//! The destination with faults: what really happens is real, what is known of it is not.

use std::sync::Arc;

use counterfoil::destination::{Boxed, Destination, Finding, Gate, LookedUp, Made};
use counterfoil::fingerprint::Arguments;
use counterfoil::id::Account;
use counterfoil::operation::Marker;
use counterfoil::policy::Tool;
use tokio::sync::oneshot;

use super::faults::{Fault, Faults};
use super::story::Story;

/// Words of the attempt's record where the reply was dropped.
const DROPPED: &str = "the reply was dropped on purpose by counterfoil dev";

/// Words of the attempt's record where the send was killed.
const KILLED: &str = "the send was killed on purpose by counterfoil dev";

/// A destination that loses what it was told to lose.
pub struct Faulty<D> {
    real: D,
    faults: Arc<Faults>,
    story: Story,
}

impl<D> Faulty<D> {
    /// `real`, with what is armed in `faults` happening to it.
    pub fn new(real: D, faults: Arc<Faults>, story: Story) -> Self {
        Self { real, faults, story }
    }
}

impl<D: Destination> Destination for Faulty<D> {
    fn make(
        &self,
        tool: &Tool,
        account: &Account,
        arguments: &Arguments,
        key: Option<&str>,
    ) -> Result<Made, String> {
        self.real.make(tool, account, arguments, key)
    }

    fn send(
        &self,
        made: Made,
        tool: Arc<Tool>,
        first: bool,
        gate: Arc<dyn Gate>,
        late: oneshot::Sender<()>,
    ) -> Boxed<Finding> {
        match self.faults.take(&[Fault::Kill, Fault::Drop]) {
            Some(Fault::Kill) => {
                self.story.tell("the send is killed on purpose: nothing goes out, and nobody can tell");
                Box::pin(std::future::ready(Finding::unknown(Marker::BytesWritten, KILLED)))
            }
            Some(Fault::Drop) => {
                let sent = self.real.send(made, tool, first, gate, late);
                let (faults, story) = (self.faults.clone(), self.story.clone());
                Box::pin(async move {
                    let finding = sent.await;
                    if finding.not_sent {
                        // There is no reply to lose: the next one is.
                        faults.put_back(Fault::Drop);
                        return finding;
                    }
                    story.tell(
                        "the reply is dropped on purpose: the destination did its work, and nobody can tell",
                    );
                    Finding::unknown(Marker::BytesWritten, DROPPED)
                })
            }
            Some(Fault::Twice) | None => self.real.send(made, tool, first, gate, late),
        }
    }

    fn look_up(
        &self,
        tool: Arc<Tool>,
        account: &Account,
        arguments: &Arguments,
        key: Option<&str>,
        scope: Option<&str>,
    ) -> Boxed<LookedUp> {
        self.real.look_up(tool, account, arguments, key, scope)
    }
}
