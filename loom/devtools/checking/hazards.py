"""What libraries do that a flow must not: by full name, each with the rule it breaks.

A name in full is that of the thing (`time.time`), with `()` for what comes of calling it (`pathlib.Path().read_text`).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Hazard(NamedTuple):
    """The *rule* that a use of *name* breaks."""

    rule: str
    name: str


def names(text: str, prefix: str = "") -> frozenset[str]:
    """Return the words of *text*, each after *prefix*."""
    return frozenset(prefix + word for word in text.split())


_CALLS: Final[dict[str, str]] = {
    name: rule
    for rule, calls in (
        (
            "clock",
            names("time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time thread_time", "time.")
            | names("datetime.now datetime.utcnow datetime.today date.today", "datetime.")
            | names("asyncio.get_running_loop().time asyncio.get_event_loop().time asyncio.new_event_loop().time")
            | names("now localtime", "django.utils.timezone.")
            | names("now utcnow", "pendulum.")
            | names("arrow.now arrow.utcnow pandas.Timestamp.now"),
        ),
        (
            "random",
            names("uuid1 uuid4 uuid6 uuid7 getnode", "uuid.")
            | names("os.urandom os.getrandom random.SystemRandom ulid.new nanoid.generate"),
        ),
        (
            "environment",
            names(
                "getenv getenvb getcwd getcwdb getpid getppid uname cpu_count process_cpu_count getlogin getuid "
                "path.expanduser path.expandvars path.abspath getloadavg",
                "os.",
            )
            | names(
                "socket.gethostname socket.getfqdn getpass.getuser locale.getlocale shutil.which tzlocal.get_localzone"
            )
            | names("pathlib.Path.cwd pathlib.Path.home threading.get_ident threading.current_thread"),
        ),
        ("identity", names("builtins.id builtins.hash")),
        (
            "io",
            names(
                "builtins.open builtins.input io.open codecs.open getpass.getpass sqlite3.connect dbm.open shelve.open"
            )
            | names(
                "open read write fdopen listdir scandir walk fwalk stat lstat access mkdir makedirs remove unlink rename "
                "renames replace rmdir removedirs link symlink readlink truncate utime chmod chown chdir sync fsync "
                "path.exists path.lexists path.isfile path.isdir path.islink path.getsize path.getmtime path.getctime "
                "path.getatime path.realpath path.samefile path.ismount",
                "os.",
            )
            | names("zipfile.ZipFile tarfile.open gzip.open bz2.open lzma.open linecache.getline fileinput.input")
            | names("numpy.load numpy.save numpy.loadtxt pandas.read_csv pandas.read_parquet pandas.read_excel"),
        ),
        (
            "process",
            names("system popen fork forkpty kill killpg abort _exit wait waitpid posix_spawn startfile", "os.")
            | names("create_subprocess_exec create_subprocess_shell", "asyncio.")
            | names("sys.exit builtins.exit builtins.quit signal.signal signal.raise_signal signal.alarm"),
        ),
        (
            "threads",
            names("Thread Timer", "threading.")
            | names("ThreadPoolExecutor ProcessPoolExecutor InterpreterPoolExecutor", "concurrent.futures.")
            | names("ThreadPoolExecutor ProcessPoolExecutor", "concurrent.futures.thread.")
            | names("_thread.start_new_thread asyncio.to_thread anyio.to_thread.run_sync asgiref.sync.sync_to_async")
            | names("asyncio.get_running_loop().run_in_executor asyncio.get_event_loop().run_in_executor"),
        ),
        ("sleep", names("time.sleep asyncio.sleep anyio.sleep trio.sleep gevent.sleep")),
        (
            "bare-concurrency",
            names(
                "wait wait_for as_completed timeout timeout_at shield run run_coroutine_threadsafe Runner", "asyncio."
            )
            | names(
                "call_soon call_later call_at call_soon_threadsafe run_until_complete", "asyncio.get_running_loop()."
            )
            | names("call_soon call_later call_at call_soon_threadsafe run_until_complete", "asyncio.get_event_loop().")
            | names("create_task_group move_on_after fail_after move_on_at fail_at run", "anyio.")
            | names("open_nursery move_on_after fail_after run", "trio.")
            | names("async_timeout.timeout async_timeout.timeout_at"),
        ),
        (
            "log",
            names(
                "builtins.print warnings.warn traceback.print_exc traceback.print_stack pprint.pprint pprint.pp rich.print"
            )
            | names("sys.stdout.write sys.stderr.write sys.stdout.flush"),
        ),
    )
    for name in calls
}
_PREFIXES: Final[dict[str, str]] = {
    "random.": "random",
    "secrets.": "random",
    "numpy.random.": "random",
    "platform.": "environment",
    "os.environ.": "environment",
    "shutil.": "io",
    "tempfile.": "io",
    "glob.": "io",
    "aiofiles.": "io",
    "sys.stdin.": "io",
    "subprocess.": "process",
    "os.exec": "process",
    "os.spawn": "process",
    "multiprocessing.": "threads",
    "urllib.request.urlopen": "network",
    "urllib.request.urlretrieve": "network",
    "asyncio.open_connection": "network",
    "asyncio.start_server": "network",
    "loguru.logger.": "log",
    "structlog.get_logger().": "log",
    "rich.console.Console().print": "log",
}
_NETWORKS: Final = names(
    "requests httpx aiohttp urllib3 socket smtplib ftplib imaplib poplib nntplib telnetlib websockets websocket grpc boto3 "
    "botocore aioboto3 redis psycopg psycopg2 asyncpg pymysql aiomysql MySQLdb motor pymongo elasticsearch kafka "
    "aiokafka pika aio_pika nats paramiko asyncssh stripe openai anthropic twilio slack_sdk sendgrid sqlalchemy "
    "aiosqlite duckdb ollama litellm"
)
_CONNECTING: Final = (
    *("Client", "Session", "Connection", "Pool", "Socket", "socket", "Adapter", "SMTP", "FTP", "IMAP", "POP", "Redis"),
    *("OpenAI", "Anthropic", "Consumer", "Producer", "Channel", "Transport", "Server"),
)
"""What the name of a class has in it that reaches out: others (a URL, a Timeout) are values."""
_HARMLESS: Final = frozenset(
    {"platform.python_version", "platform.python_implementation", "shutil.get_terminal_size", "glob.escape"}
    | names("inet_aton inet_ntoa inet_pton inet_ntop htons htonl ntohs ntohl", "socket.")
    | names("select insert update delete text func and_ or_ not_ Column String Integer Table MetaData", "sqlalchemy.")
    | names(
        "random.Random random.Random().seed numpy.random.default_rng numpy.random.RandomState secrets.compare_digest"
    )
)
_PATH_METHODS: Final = names(
    "read_text read_bytes write_text write_bytes open exists is_file is_dir is_symlink is_mount stat lstat iterdir glob "
    "rglob walk mkdir rmdir touch unlink rename replace chmod symlink_to hardlink_to readlink samefile owner group"
)
_PATH_SURROUNDINGS: Final = names("resolve absolute expanduser")
_LOG_METHODS: Final = names("debug info warning warn error exception critical log fatal")
_SURROUNDINGS: Final = names(
    "os.environ os.environb sys.argv sys.flags sys.platform sys.version sys.executable os.name"
)
_WITHOUT_ARGUMENTS: Final[dict[str, tuple[int, str]]] = {
    "random.Random": (1, "random"),
    "numpy.random.default_rng": (1, "random"),
    "numpy.random.RandomState": (1, "random"),
    "time.localtime": (1, "clock"),
    "time.gmtime": (1, "clock"),
    "time.ctime": (1, "clock"),
    "time.asctime": (1, "clock"),
    "time.strftime": (2, "clock"),
}
"""What is a hazard with fewer arguments than so many, and a function of them with more."""


def hazard_of_call(name: str, arguments: int = 0) -> Hazard | None:
    """Return what calling *name* with so many *arguments* breaks, if anything."""
    if name in _WITHOUT_ARGUMENTS:
        least, rule = _WITHOUT_ARGUMENTS[name]
        return Hazard(rule, name) if arguments < least else None
    if name in _HARMLESS or name.startswith(("random.Random().", "numpy.random.default_rng().")):
        return None
    rule = _CALLS.get(name) or _by_prefix(name) or _of_path(name) or _of_logger(name) or _of_network(name)
    return Hazard(rule, name) if rule else None


def hazard_of_name(name: str) -> Hazard | None:
    """Return what only naming *name* breaks, if anything: the environment is no call."""
    return Hazard("environment", name) if name in _SURROUNDINGS else None


def _by_prefix(name: str) -> str:
    found = (
        rule for prefix, rule in _PREFIXES.items() if name.startswith(prefix) and ("()" in prefix or "()" not in name)
    )
    return next(found, "")


def _of_path(name: str) -> str:
    if not name.startswith(("pathlib.Path()", "pathlib.PosixPath()", "pathlib.WindowsPath()")):
        return ""
    method = name.rpartition(".")[2]
    return "io" if method in _PATH_METHODS else "environment" if method in _PATH_SURROUNDINGS else ""


def _of_logger(name: str) -> str:
    owner, _, method = name.rpartition(".")
    return "log" if owner in {"logging", "logging.getLogger()", "logging.Logger()"} and method in _LOG_METHODS else ""


def _of_network(name: str) -> str:
    if name.startswith(("http.client.HTTP", "xmlrpc.client.ServerProxy")):
        return "network"
    package, _, rest = name.partition(".")
    if package not in _NETWORKS or not rest:
        return ""
    thing = rest.partition("()")[0].rpartition(".")[2]
    if thing[:1].isupper():
        return "network" if any(word in thing for word in _CONNECTING) else ""
    return "network"


# What a step does, beyond reading

_WRITES: Final = (
    names("write_text write_bytes mkdir rmdir touch unlink rename replace chmod symlink_to hardlink_to")  # of a Path
)
_WRITING_CALLS: Final = (
    names(
        "mkdir makedirs remove unlink rename renames replace rmdir removedirs link symlink truncate write chmod", "os."
    )
    | names("rmtree move copy copy2 copyfile copytree chown", "shutil.")
    | names("numpy.save")
)
_POSTS: Final = frozenset({"post", "patch"})
_CHANGES: Final = frozenset({"put", "delete", *_POSTS})
_HTTP: Final = frozenset({"requests", "httpx", "aiohttp"})


def writes(name: str) -> bool:
    """Return whether calling *name* plainly changes something."""
    if name in _WRITING_CALLS or name.startswith(("smtplib.SMTP().send", "smtplib.SMTP_SSL().send")):
        return True
    return (_of_path(name) == "io" and name.rpartition(".")[2] in _WRITES) or _asks(name, _CHANGES)


def posts(name: str) -> bool:
    """Return whether calling *name* asks another side for what twice is not the same as once."""
    return _asks(name, _POSTS)


def _asks(name: str, methods: frozenset[str]) -> bool:
    return name.partition(".")[0] in _HTTP and name.rpartition(".")[2] in methods
