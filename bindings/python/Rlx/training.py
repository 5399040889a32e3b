# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The training loop."""
import math
import operator

from gi.repository import GLib

from .values import Rlx


def _length(batches, total):
    return total if total is not None else operator.length_hint(batches, 0) or None


class Trainer:
    """Runs an executable of a graph that Graph.optimize() was called on, batch by batch.

        trainer = Rlx.Trainer(device.compile(g))
        losses = trainer.train(batches, progress=lambda step, loss, total: print(step, loss))
        trainer.save('digits.safetensors')

    A batch is a list or a dictionary of inputs. The loss is the output with that name; it must have one element. All
    states are saved: parameters, those of the optimiser, and any others that the graph has. After load(), a trainer of
    the same graph continues with the same bits.
    """

    def __init__(self, executable, loss='loss'):
        if loss not in [port.get_name() for port in executable.get_outputs()]:
            raise ValueError(f'the graph has no output {loss!r}')
        self.executable = executable
        self.loss = loss
        self._states = {port.get_name(): port for port in executable.get_states()}
        if not self._states:
            raise ValueError('the graph has no states, so there is nothing to train')

    def _take(self, outputs, step):
        """The loss as a number. A step that is skipped because of values that are not finite is not a failure."""
        tensor = outputs[self.loss]
        if tensor.get_n_elements() != 1:
            raise ValueError(f'the output {self.loss!r} is {tensor.to_string()}; a loss has one element')
        loss = tensor.to_floats()[0]
        if not math.isfinite(loss) and 'optimizer.skipped' not in self._states:
            raise GLib.Error.new_literal(Rlx.graph_error_quark(),
                                         f'the loss “{self.loss}” of step {step} is {loss}; with skip_not_finite, such steps '
                                         'change nothing and are counted', Rlx.GraphError.INVALID_ARGUMENT)
        return loss

    def train(self, batches, *, progress=None, total=None, cancellable=None):
        """Trains on each batch, one step each, and returns the losses.

        progress(step, loss, total) is called after each step; total is the number of batches, if it is known. Ctrl-C and
        the cancellable end the training, between two steps or within one; what has been learnt is kept.
        """
        losses, total = [], _length(batches, total)
        for step, batch in enumerate(batches, 1):
            losses.append(self._take(self.executable.run(batch, cancellable), step))
            if progress is not None:
                progress(step, losses[-1], total)
        return losses

    async def train_future(self, batches, *, progress=None, total=None, cancellable=None):
        """train() without blocking, as a coroutine. Cancelling the task ends the training."""
        losses, total = [], _length(batches, total)
        for step, batch in enumerate(batches, 1):
            losses.append(self._take(await self.executable.run_future(batch, cancellable), step))
            if progress is not None:
                progress(step, losses[-1], total)
        return losses

    @property
    def skipped(self):
        """How many steps were skipped because something was not finite; 0 without skip_not_finite."""
        return int(self.executable.read_state('optimizer.skipped').item()) if 'optimizer.skipped' in self._states else 0

    def read(self, names=None):
        """States by name; all of them, unless names are given."""
        return {name: self.executable.read_state(name) for name in (self._states if names is None else names)}

    def save(self, file, names=None, cancellable=None):
        """Writes states to a safetensors file; all of them, unless names are given."""
        states = self.read(names)
        return Rlx.Weights.write_safetensors(file, list(states), list(states.values()), None, cancellable)

    def load(self, file, names=None, cancellable=None):
        """Reads states from a file that save() wrote; all of them, unless names are given. On failure nothing changes."""
        weights = Rlx.Weights.open(file, cancellable)
        values = {}
        for name in self._states if names is None else names:
            port = self._states.get(name)
            if port is None:
                raise ValueError(f'the graph has no state {name!r}')
            value = weights.load_tensor(name, cancellable)
            if (value.get_data_type(), tuple(value.get_shape())) != (port.get_data_type(), tuple(port.get_shape())):
                raise GLib.Error.new_literal(Rlx.graph_error_quark(), f'the state {port.to_string()} is {value.get_data_type().value_nick}'
                                             f'{list(value.get_shape())} in the file', Rlx.GraphError.SHAPE)
            values[name] = value
        for name, value in values.items():
            self.executable.write_state(name, value, cancellable)
