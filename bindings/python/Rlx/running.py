# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Devices and executables."""
import contextlib
import functools
import threading

from gi.repository import Gio, GLib, GObject

from .tensor import Tensor
from .values import FUNCTIONS, Rlx, override, to_tensor

# # Runs shorter than this, in seconds, need not be interruptible. A thread would cost much of a small
# run's time.
_SHORT = 0.02

# # One entry for each call in progress in another thread: the main thread may have to wait for
# it.
_elsewhere = []


@contextlib.contextmanager
def _linked(cancellable):
    """A cancellable that follows the caller's. That may be shared, and ending this call must not cancel others."""
    ours = Gio.Cancellable()
    handler = None
    if cancellable is not None:
        # Gio.Cancellable has a connect() of its own.
        handler = GObject.Object.connect(cancellable, 'cancelled', lambda _: ours.cancel())
        if cancellable.is_cancelled():
            ours.cancel()
    try:
        yield ours
    finally:
        if handler is not None:
            GObject.Object.disconnect(cancellable, handler)


def _interruptible(call, arguments, cancellable):
    """Makes a call in another thread. Python runs signal handlers, such as that of Ctrl-C, which raises KeyboardInterrupt,
    only in the main thread, and not while that is inside a C function; but it does while waiting for a lock."""
    ended, results = threading.Lock(), []

    def work():
        try:
            results.append((call(*arguments, ours), None))
        except BaseException as error:
            results.append((None, error))
        finally:
            ended.release()

    with _linked(cancellable) as ours:
        ended.acquire()
        try:
            threading.Thread(target=work, name='rlx-call', daemon=True).start()
        except RuntimeError:
            # There are no more threads, or the interpreter is ending.
            return call(*arguments, ours)
        try:
            ended.acquire()
        except BaseException:
            ours.cancel()
            raise
    value, error = results.pop()
    if error is not None:
        raise error
    return value


def _block(call, *arguments, cancellable, short=False):
    if threading.current_thread() is not threading.main_thread():
        _elsewhere.append(None)
        try:
            return call(*arguments, cancellable)
        finally:
            _elsewhere.pop()
    if short and not _elsewhere:
        return call(*arguments, cancellable)
    return _interruptible(call, arguments, cancellable)


async def _future(cancellable, begin, finish, block):
    """Awaits an asynchronous call in asyncio's way.

    What PyGObject returns when the callback is left out can be awaited too, but
    has no cancelled(), which makes asyncio.gather() wait for ever.
    """
    import asyncio
    loop = asyncio.get_running_loop()
    try:
        from gi.events import GLibEventLoop
    except ImportError:
        GLibEventLoop = ()
    with _linked(cancellable) as ours:
        try:
            if not isinstance(loop, GLibEventLoop):
                # Nothing dispatches GLib's callbacks in this thread. PyGObject lets other threads run during a call.
                value = await loop.run_in_executor(None, block, ours)
                # # As for a GTask, the cancellable counts until the end.
                ours.set_error_if_cancelled()
                return value
            future = loop.create_future()

            def ready(_, result):
                try:
                    value, error = finish(result), None
                except GLib.Error as caught:
                    value, error = None, caught
                if future.done():
                    return
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(value)

            begin(ours, ready)
            return await future
        except asyncio.CancelledError:
            ours.cancel()
            raise


def _begin(call, callback, user_data, *args):
    """Without a callback, PyGObject returns an awaitable object."""
    return call(*args) if callback is None else call(*args, callback, *user_data)


def _compile_options(options, settings):
    if options is not None and settings:
        raise TypeError(f'options were given, so {", ".join(settings)} cannot be set in addition')
    return Rlx.CompileOptions(**settings) if settings else options


def add_futures(cls, name):
    """Adds a coroutine for each asynchronous function: calibrate_future() for calibrate_async()."""
    def add(function, about, blocking, static):
        async def future(*args, cancellable=None):
            if args and isinstance(args[-1], Gio.Cancellable):
                args, cancellable = args[:-1], args[-1]
            owner, args = (cls, args) if static else (args[0], args[1:])
            block = getattr(owner, function)
            return await _future(cancellable,
                                 lambda ours, ready: getattr(owner, function + '_async')(*args, ours, ready),
                                 getattr(owner, about['finish']),
                                 lambda ours: block(*args, ours) if 'cancellable' in blocking else block(*args))

        future.__name__ = function + '_future'
        future.__qualname__ = f'{name}.{function}_future'
        future.__doc__ = f'{function}() without blocking, as a coroutine. Cancelling the task ends the wait.'
        if future.__name__ not in cls.__dict__:
            setattr(cls, future.__name__, staticmethod(future) if static else future)

    for kind in 'methods', 'functions':
        for function, about in FUNCTIONS[name][kind].items():
            if 'finish' in about:
                function = function.removesuffix('_async')
                add(function, about, FUNCTIONS[name][kind].get(function, {}), kind == 'functions')


def add_blocking(cls, base, name):
    """Makes Ctrl-C interrupt all functions that take a cancellable and have no method of their own here."""
    def add(function, position, static):
        call = getattr(base, function)

        @functools.wraps(call)
        def method(*args, **kwargs):
            if kwargs or len(args) < position:
                return call(*args, **kwargs)
            return _block(call, *args[:position], cancellable=args[position] if len(args) > position else None)

        if function not in cls.__dict__:
            setattr(cls, function, staticmethod(method) if static else method)

    for kind, own in ('methods', 1), ('functions', 0):
        for function, about in FUNCTIONS[name][kind].items():
            if 'cancellable' in about and 'finish' not in about:
                add(function, about['cancellable'] + own, kind == 'functions')


@override
class Device(Rlx.Device):
    def __init__(self, *args, **properties):
        # # With a property, it is a device that init_async() will open, so that programs can connect to
        # “opening”.
        if args or not properties:
            raise TypeError('devices come from Rlx.Device.get_default() and Rlx.Device.open()')
        super().__init__(**properties)

    def calibrate(self, cancellable=None):
        return _block(super().calibrate, cancellable=cancellable)

    def upload(self, tensor, cancellable=None):
        """Copies a tensor, or anything that can be converted to one, to the memory of the device."""
        return _block(super().upload, to_tensor(tensor, None), cancellable=cancellable)

    def upload_async(self, tensor, cancellable=None, callback=None, *user_data):
        return _begin(super().upload_async, callback, user_data, to_tensor(tensor, None), cancellable)

    def compile(self, graph, options=None, cancellable=None, **settings):
        """Compiles a graph. Settings are properties of the options, as in compile(graph, precision='reduced')."""
        return _block(super().compile, graph, _compile_options(options, settings), cancellable=cancellable)

    def compile_async(self, graph, options=None, cancellable=None, callback=None, *user_data, **settings):
        options = _compile_options(options, settings)
        return _begin(super().compile_async, callback, user_data, graph, options, cancellable)

    async def compile_future(self, graph, options=None, cancellable=None, **settings):
        """Compiles without blocking, as a coroutine. Cancelling the task ends the wait."""
        options = _compile_options(options, settings)
        return await _future(cancellable,
                             lambda ours, ready: self.compile_async(graph, options, ours, ready),
                             self.compile_finish,
                             lambda ours: self.compile(graph, options, ours))


add_blocking(Device, Rlx.Device, 'Device')
add_futures(Device, 'Device')


@override
class Adapter(Rlx.Adapter):
    pass


add_blocking(Adapter, Rlx.Adapter, 'Adapter')
add_futures(Adapter, 'Adapter')
add_blocking(Tensor, Rlx.Tensor, 'Tensor')
add_futures(Tensor, 'Tensor')


class Outputs(list):
    """The outputs of a run: a list of tensors that are also found by name, as in out['y'] and out.y."""

    __slots__ = ('_names',)

    def __init__(self, names, tensors):
        super().__init__(tensors)
        self._names = tuple(names)

    def keys(self):
        """The names of the outputs; with them dict(out) is a dictionary."""
        return self._names

    def __getitem__(self, index):
        if not isinstance(index, str):
            return super().__getitem__(index)
        if index not in self._names:
            raise KeyError(f'there is no output {index!r}; there are: {", ".join(map(repr, self._names))}')
        return super().__getitem__(self._names.index(index))

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __dir__(self):
        return [*super().__dir__(), *filter(str.isidentifier, self._names)]

    def __reduce__(self):
        return Outputs, (self._names, list(self))


def _convert(value, port):
    """Values that are not tensors take the data type of their port."""
    if isinstance(value, Rlx.Tensor) or port is None:
        return to_tensor(value)
    try:
        return to_tensor(value, port.get_data_type())
    except (TypeError, OverflowError) as error:
        raise type(error)(f'{port.get_name()}: {error}') from None


@override
class Executable(Rlx.Executable):
    def __init__(self, *args, **kwargs):
        raise TypeError('executables come from Rlx.Device.compile()')

    def _ports(self, kind):
        """By name, in order. They never change, and querying them would cost much of a small run's time."""
        known = self.__dict__.setdefault('_rlx_ports', {})
        if kind not in known:
            known[kind] = {port.get_name(): port for port in getattr(self, f'get_{kind}')()}
        return known[kind]

    def _by_position(self, values):
        ports = [*self._ports('inputs').values()]
        values = list(values)
        return [_convert(value, port) for value, port in zip(values, ports + [None] * len(values))]

    def _by_name(self, kind, names, values):
        names = list(names)
        return names, [_convert(value, self._ports(kind).get(name)) for name, value in zip(names, values, strict=True)]

    def _outputs(self, tensors):
        return Outputs(self._ports('outputs'), tensors)

    def __call__(self, /, *inputs, **named):
        """Runs the graph with inputs by position, by name or both, or with a dictionary of them. The result is a list
        of outputs, which can also be accessed by name: out[0], out['y'], out.y."""
        if not named:
            return self.run(inputs[0] if len(inputs) == 1 and isinstance(inputs[0], dict) else inputs)
        names = list(self._ports('inputs'))
        given = dict(zip(names, inputs))
        if len(inputs) > len(names) or given.keys() & named.keys():
            raise TypeError(f'an input is given twice, or there are too many; the inputs are: {", ".join(names)}')
        return self.run(given | named)

    def run(self, inputs, cancellable=None):
        """Runs the graph with a list of inputs, or a dictionary of them by name."""
        if isinstance(inputs, dict):
            return self.run_named(inputs.keys(), inputs.values(), cancellable)
        return self._outputs(_block(super().run, self._by_position(inputs), cancellable=cancellable,
                                    short=self.get_estimate() < _SHORT))

    def run_named(self, names, inputs, cancellable=None):
        return self._outputs(_block(super().run_named, *self._by_name('inputs', names, inputs), cancellable=cancellable,
                                    short=self.get_estimate() < _SHORT))

    def run_async(self, inputs, cancellable=None, callback=None, *user_data):
        return _begin(super().run_async, callback, user_data, self._by_position(inputs), cancellable)

    def run_finish(self, result):
        return self._outputs(super().run_finish(result))

    async def run_future(self, inputs, cancellable=None):
        """Runs without blocking, with a list of inputs or a dictionary, as a coroutine. Cancelling the task ends the run."""
        if isinstance(inputs, dict):
            return await self.run_named_future(inputs.keys(), inputs.values(), cancellable=cancellable)
        inputs = self._by_position(inputs)
        return await _future(cancellable,
                             lambda ours, ready: self.run_async(inputs, ours, ready),
                             self.run_finish,
                             lambda ours: self.run(inputs, ours))

    def _in_order(self, inputs):
        if not isinstance(inputs, dict):
            return self._by_position(inputs)
        names = list(self._ports('inputs'))
        if inputs.keys() != set(names):
            raise TypeError(f'the inputs are {", ".join(names)}; {", ".join(map(str, inputs))} were given')
        return self._by_position(inputs[name] for name in names)

    def run_on_device(self, inputs, cancellable=None):
        """Runs the graph with a list of inputs, or a dictionary of them by name, and leaves the outputs on the device."""
        return self._outputs(_block(super().run_on_device, self._in_order(inputs), cancellable=cancellable,
                                    short=self.get_estimate() < _SHORT))

    def run_on_device_async(self, inputs, cancellable=None, callback=None, *user_data):
        return _begin(super().run_on_device_async, callback, user_data, self._in_order(inputs), cancellable)

    def run_on_device_finish(self, result):
        return self._outputs(super().run_on_device_finish(result))

    def run_named_async(self, names, inputs, cancellable=None, callback=None, *user_data):
        return _begin(super().run_named_async, callback, user_data, *self._by_name('inputs', names, inputs), cancellable)

    def run_named_finish(self, result):
        return self._outputs(super().run_named_finish(result))

    def _parameters(self, names, values):
        if isinstance(names, dict):
            if values is not None:
                raise TypeError('the dictionary contains the values, so no others can be given')
            names, values = names.keys(), names.values()
        return self._by_name('parameters', names, values)

    def set_parameters(self, names, values=None, cancellable=None):
        """Sets the values of parameters: set_parameters({'w': array}), or names and values in two lists."""
        return _block(super().set_parameters, *self._parameters(names, values), cancellable=cancellable)

    def set_parameters_async(self, names, values=None, cancellable=None, callback=None, *user_data):
        return _begin(super().set_parameters_async, callback, user_data, *self._parameters(names, values), cancellable)

    async def set_parameters_future(self, names, values=None, cancellable=None):
        """set_parameters() without blocking, as a coroutine. Cancelling the task ends the wait."""
        names, values = self._parameters(names, values)
        return await _future(cancellable,
                             lambda ours, ready: self.set_parameters_async(names, values, ours, ready),
                             self.set_parameters_finish,
                             lambda ours: self.set_parameters(names, values, ours))

    def write_state(self, name, value, cancellable=None):
        return _block(super().write_state, name, _convert(value, self._ports('states').get(name)), cancellable=cancellable, short=True)

    def read_state(self, name, cancellable=None):
        return _block(super().read_state, name, cancellable=cancellable, short=True)

    def reset_state(self, cancellable=None):
        return _block(super().reset_state, cancellable=cancellable, short=True)

    def write_state_async(self, name, value, cancellable=None, callback=None, *user_data):
        return _begin(super().write_state_async, callback, user_data, name,
                      _convert(value, self._ports('states').get(name)), cancellable)


add_blocking(Executable, Rlx.Executable, 'Executable')
add_futures(Executable, 'Executable')


@override
class Model(Rlx.Model):
    def __init__(self, *args, **kwargs):
        raise TypeError('models come from Rlx.Model.open() and Rlx.Model.new_from_bytes()')

    def fix_input(self, name, value):
        """Fixes the value of an input, which can be anything that can be converted to a tensor; None makes it an input again."""
        port = next((port for port in self.get_inputs() if port.get_name() == name and port.is_supported()), None)
        return super().fix_input(name, None if value is None else _convert(value, port))


add_blocking(Model, Rlx.Model, 'Model')
add_futures(Model, 'Model')


@override
class Session(Rlx.Session):
    def __init__(self, *args, **kwargs):
        raise TypeError('sessions come from Rlx.Session.open() and Rlx.Session.new()')

    def _ports(self):
        """By name, in order. They never change. None stands for inputs of a type that nothing can be converted to."""
        if '_rlx_ports' not in self.__dict__:
            self._rlx_ports = {port.get_name(): port if port.is_supported() else None for port in self.get_model().get_inputs()}
        return self._rlx_ports

    def _by_name(self, inputs, values):
        if isinstance(inputs, dict):
            if values is not None:
                raise TypeError('the dictionary contains the values, so no others can be given')
            inputs, values = inputs.keys(), inputs.values()
        names = list(inputs)
        return names, [_convert(value, self._ports().get(name)) for name, value in zip(names, values, strict=True)]

    def _outputs(self, tensors):
        return Outputs(self.get_output_names(), tensors)

    def __call__(self, /, *inputs, **named):
        """Runs the model with inputs by name or by position, or with a dictionary of them. The result is a list of
        outputs, which can also be accessed by name: out[0], out['y'], out.y."""
        if len(inputs) == 1 and isinstance(inputs[0], dict):
            return self.run(inputs[0] | named)
        names = list(self._ports())
        given = dict(zip(names, inputs))
        if len(inputs) > len(names) or given.keys() & named.keys():
            raise TypeError(f'an input is given twice, or there are too many; the inputs are: {", ".join(names)}')
        return self.run(given | named)

    def prepare(self, inputs, values=None, cancellable=None):
        """Compiles for inputs of these sizes ahead of run()."""
        return _block(super().prepare, *self._by_name(inputs, values), cancellable=cancellable)

    def run(self, inputs, values=None, cancellable=None):
        """Runs the model with a dictionary of inputs by name, or with names and values in two lists."""
        return self._outputs(_block(super().run, *self._by_name(inputs, values), cancellable=cancellable))

    def run_async(self, inputs, values=None, cancellable=None, callback=None, *user_data):
        return _begin(super().run_async, callback, user_data, *self._by_name(inputs, values), cancellable)

    def run_finish(self, result):
        return self._outputs(super().run_finish(result))

    async def run_future(self, inputs, values=None, cancellable=None):
        """run() without blocking, as a coroutine. Cancelling the task ends the run."""
        names, values = self._by_name(inputs, values)
        return await _future(cancellable,
                             lambda ours, ready: self.run_async(names, values, ours, ready),
                             self.run_finish,
                             lambda ours: self.run(names, values, ours))


add_blocking(Session, Rlx.Session, 'Session')
add_futures(Session, 'Session')
