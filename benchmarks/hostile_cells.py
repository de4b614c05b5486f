"""Lines that a training cell may hold by mistake or out of malice, and conditions under which a notebook may have to live."""

from __future__ import annotations

import resource
from collections.abc import Callable

HOSTILE_LINES = {
    "closes descriptors": "os.closerange(3, 4096)",
    "closes its output": "sys.stdout.close(); sys.stderr.close(); os.close(1); os.close(2)",
    "exit()": "exit()",
    "sys.exit": "sys.exit(4)",
    "os._exit": "os._exit(7)",
    "aborts": "os.abort()",
    "segmentation fault": "ctypes.string_at(0)",
    "kills itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "stops itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "never ends": "time.sleep(600)",
    "never ends, in C": "ctypes.CDLL(None).sleep(600)",
    "recursion": "(lambda f: f(f))(lambda f: f(f))",
    "recursion in C": "eval('(' * 90000)",
    "memory in one piece": "bytearray(1 << 60)",
    "memory in pieces": "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)); [bytearray(1 << 26) for _ in range(99)]",
    "a full disk": "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); open('full', 'wb').write(bytes(1 << 20))",
    "no descriptors left": "kept.extend(os.dup(0) for _ in range(1 << 21))",
    "forks": "os.fork() or (time.sleep(600), os._exit(0))",
    "a child of its own session": "subprocess.Popen(['sleep', '600'], start_new_session=True)",
    "a thread that goes on": "threading.Thread(target=time.sleep, args=(600,)).start()",
    "a thread that raises": "threading.Thread(target=exit).start()",
    "ignores SIGTERM and SIGINT": "[signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGINT)]",
    "removes its folder": "os.chdir(tempfile.mkdtemp()); os.rmdir(os.getcwd())",
    "empties the environment": "os.environ.clear()",
    "empties sys.modules": "sys.modules.clear()",
    "takes open away": "builtins.open = None",
    "takes print away": "builtins.print = None",
    "patches torch's forward": "nn.Linear.forward = None",
    "patches torch.save": "torch.save = torch.load = None",
    "patches the backward": "torch.Tensor.backward = lambda self: None",
    "another default dtype": "torch.set_default_dtype(torch.float16)",
    "ends the process group": "torch.distributed.is_initialized() and torch.distributed.destroy_process_group()",
    "raises markup": "raise ValueError('<script>alert(1)</script><img src=x onerror=alert(1)>')",
    "raises control characters": "raise ValueError('\\x1b[2J\\x1b]0;title\\x07\\u202egnp.exe \\x00')",
    "raises five megabytes": "raise ValueError('x' * 5_000_000)",
    "raises what cannot be printed": "raise type('E', (Exception,), dict.fromkeys(['__str__', '__repr__'], lambda _: [][0]))()",
    "raises what cannot be pickled": "raise type('E', (Exception,), {})(threading.Lock())",
    "raises a BaseException": "raise BaseException('not an Exception')",
    "raises GeneratorExit": "raise GeneratorExit",
    "prints forty megabytes": "print('x' * 40_000_000)",
    "writes over the user's file": "pathlib.Path('notes.txt').write_text('gone'); os.system('echo gone > notes.txt')",
    "removes the user's file": "os.path.exists('notes.txt') and os.remove('notes.txt')",
}
QUICK = ("os._exit",)


def few_descriptors() -> None:
    """As under `ulimit -n 128`."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))


def little_file_space() -> None:
    """No file may become larger than 64 MiB, as on a disk that is nearly full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))


CONDITIONS: dict[
    str, tuple[Callable[[], None] | None, str]
] = {  # before exec; shell line of its own namespace
    "as usual": (None, ""),
    "128 descriptors": (few_descriptors, ""),
    "files of 64 MiB at most": (little_file_space, ""),
    "/dev/shm of 1 MiB": (None, "mount -t tmpfs -o size=1m tmpfs /dev/shm"),
    "read-only home": (None, 'mount --bind "$HOME" "$HOME" && mount -o remount,bind,ro "$HOME"'),
}
