"""Compiles the engine, and knows where the compiled one is.

Problem: the engine is Scala, but a user has Java and PySpark and no build tool; and a developer
an engineer who edits a source must never run yesterday's classes.
Answer: PySpark ships the Scala compiler. A checkout compiles engine/src with it when a
fingerprint of the sources and of Spark's version differs from the one inside the jar; an
installed wheel carries its jar.
Invariant: `jar()` returns a complete jar of the present sources, whichever processes build at
the same time: builders take turns on a lock, and a jar appears by rename only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tailrace._version import __version__
from tailrace.errors import EngineBuildError, SparkVersionError

SCALA_SERIES = "2.13"
JAR_NAME = f"tailrace-engine_{SCALA_SERIES}-{__version__}.jar"
PROPERTIES = "tailrace/build.properties"
OLDEST_JAVA = 17

COMPILER_FLAGS = (
    "-release:17",
    "-encoding:UTF-8",
    "-deprecation",
    "-feature",
    "-opt:inline:tailrace.**",
    # The compiler's lints are errors.
    "-Xlint",
    "-Wunused:imports,privates,locals,implicits,nowarn",
    "-Wdead-code",
    "-Wconf:msg=InlineInfoAttribute:silent",  # of Spark's classes, which it cannot read in full
    "-Werror",
)
# One short compilation: a JVM that starts fast beats one that ends up fast.
JAVA_FLAGS = ("-XX:+UseSerialGC", "-Xss8m", "-Xmx2g")


def jar() -> Path:
    """The engine's jar: built first if this is a checkout whose sources changed."""
    root = Path(__file__).resolve().parents[2]
    if (root / "engine" / "src").is_dir():
        return Checkout(root).jar()
    packaged = Path(__file__).resolve().parent / "_jars" / JAR_NAME
    if packaged.is_file():
        return packaged
    raise EngineBuildError(
        "The engine of tailrace is missing.",
        f"There is neither a checkout with engine/src around this package nor {packaged}.",
        "Reinstall the package: pip install --force-reinstall --no-deps tailrace",
    )


class Checkout:
    """A source tree, and the engine built from it in its build/engine directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source_directory = root / "engine" / "src"
        self.path = root / "build" / "engine" / JAR_NAME

    def jar(self) -> Path:
        """Builds if there is no jar of the present sources.

        1. Compare fingerprints without the lock: the usual case costs milliseconds.
        2. Take the lock and compare again: another process may have built meanwhile.
        3. Compile into a temporary directory and pack a jar beside its final place.
        4. Rename it into place.
        """
        # 1.
        if read_properties(self.path).get("fingerprint") == self.fingerprint():
            return self.path
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # 2.
        with _locked(self.path.with_suffix(".lock")):
            fingerprint = self.fingerprint()
            if read_properties(self.path).get("fingerprint") == fingerprint:
                return self.path
            # 3. and 4.
            properties = {
                "version": __version__,
                "spark.version": spark_version(),
                "fingerprint": fingerprint,
            }
            text = "".join(f"{key}={value}\n" for key, value in properties.items())
            compile_scala(self.sources(), (), self.path, resources={PROPERTIES: text})
        return self.path

    def sources(self) -> list[Path]:
        """Every source file, in an order that does not depend on the file system."""
        java = sorted(self.source_directory.rglob("*.java"))
        if java:
            raise EngineBuildError(
                "The engine has Java sources, which cannot be compiled here.",
                f"Only a Java runtime is promised, no javac. Found {java[0]}.",
                "Write the class in Scala.",
            )
        return sorted(self.source_directory.rglob("*.scala"))

    def fingerprint(self) -> str:
        """Changes when a source's path or content, the version, a flag or Spark changes."""
        digest = hashlib.sha256()

        def add(part: bytes) -> None:
            digest.update(len(part).to_bytes(8, "big"))  # so that "ab","c" is not "a","bc"
            digest.update(part)

        for word in (__version__, spark_version(), *COMPILER_FLAGS):
            add(word.encode())
        for source in self.sources():
            add(source.relative_to(self.source_directory).as_posix().encode())
            add(source.read_bytes())
        return digest.hexdigest()


def compile_scala(
    sources: Iterable[Path],
    extra_classpath: Iterable[Path],
    out: Path,
    resources: Mapping[str, str] | None = None,
) -> Path:
    """Compiles Scala sources against Spark (and more jars) into the jar `out`.

    `resources` are text files to put into the jar, by their path in it. The jar's bytes depend
    on the classes alone, and `out` is replaced atomically or not at all.
    """
    files = [str(source) for source in sources]
    if not files:
        raise EngineBuildError(
            "There is nothing to compile.",
            f"No Scala source was given for {out.name}.",
            "Check that the checkout is complete: git status",
        )
    classpath = os.pathsep.join([str(spark_jars() / "*"), *map(str, extra_classpath)])
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".compile-", dir=out.parent) as temporary:
        classes = Path(temporary) / "classes"
        classes.mkdir()
        # Sources go through an argument file: a command line has a limit.
        arguments = Path(temporary) / "arguments"
        arguments.write_text("\n".join(f'"{file}"' for file in files), encoding="utf-8")
        command = [str(java()), *JAVA_FLAGS, "-cp", classpath, "scala.tools.nsc.Main"]
        command += ["-usejavacp", *COMPILER_FLAGS, "-d", str(classes), f"@{arguments}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        messages = (done.stdout + done.stderr).strip()
        if done.returncode != 0:
            raise EngineBuildError(
                f"The Scala compiler rejected the sources of {out.name}.",
                messages or f"It ended with exit code {done.returncode} and said nothing.",
                "Correct the sources; the next run compiles again.",
            )
        for name, text in (resources or {}).items():
            resource = classes / name
            resource.parent.mkdir(parents=True, exist_ok=True)
            resource.write_text(text, encoding="utf-8")
        packed = Path(temporary) / out.name
        _pack(classes, packed)
        packed.replace(out)
    return out


def read_properties(path: Path) -> dict[str, str]:
    """The build properties inside a jar; empty if there is no such jar or it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            return parse_properties(archive.read(PROPERTIES).decode("utf-8"))
    except (OSError, KeyError, zipfile.BadZipFile):
        return {}


def parse_properties(text: str) -> dict[str, str]:
    """Reads `key=value` lines, which is all that build.properties has."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def java() -> Path:
    """The Java that Spark will run: of JAVA_HOME, else of the path; at least version 17."""
    home = os.environ.get("JAVA_HOME")
    if home:
        found = Path(home) / "bin" / ("java.exe" if os.name == "nt" else "java")
        where = f"JAVA_HOME is {home}"
    else:
        found = Path(shutil.which("java") or "java")
        where = "JAVA_HOME is not set, and the path was searched"
    if not found.is_file():
        raise EngineBuildError(
            "No Java was found.",
            f"{where}; there is no {found}.",
            f"Install a Java runtime, version {OLDEST_JAVA} or newer, and set JAVA_HOME to it.",
        )
    version = java_version(found)
    if version < OLDEST_JAVA:
        raise EngineBuildError(
            f"Java {version} is too old.",
            f"Spark needs Java {OLDEST_JAVA} or newer. {where}; it gives {found}.",
            f"Install Java {OLDEST_JAVA} or newer and set JAVA_HOME to it.",
        )
    return found


def java_version(executable: Path) -> int:
    """The feature version (8, 17, 21, ...) that this Java reports."""
    done = subprocess.run(
        [str(executable), "-version"], capture_output=True, text=True, check=False
    )
    match = re.search(r'version "(?:1\.)?([0-9]+)', done.stderr + done.stdout)
    if done.returncode != 0 or match is None:
        raise EngineBuildError(
            "Java does not run.",
            f"{executable} -version ended with exit code {done.returncode}: "
            + (done.stderr + done.stdout).strip(),
            f"Install a Java runtime, version {OLDEST_JAVA} or newer, and set JAVA_HOME to it.",
        )
    return int(match[1])


def spark_jars() -> Path:
    """The directory with the jars of the Spark that will run: of SPARK_HOME, else PySpark's."""
    try:
        from pyspark.find_spark_home import _find_spark_home
    except ImportError as error:
        raise SparkVersionError(
            "PySpark is not installed.",
            f"Python cannot import it: {error}.",
            'Install it: pip install "pyspark>=4.3.0,<4.4"',
        ) from error
    return Path(_find_spark_home()) / "jars"


def spark_version() -> str:
    """The version of those jars, from the name of the core jar: no JVM is started."""
    directory = spark_jars()
    for core in directory.glob(f"spark-core_{SCALA_SERIES}-*.jar"):
        return core.stem.rpartition(f"_{SCALA_SERIES}-")[2]
    raise SparkVersionError(
        "Spark's jars were not found.",
        f"There is no spark-core_{SCALA_SERIES}-*.jar in {directory}.",
        "Unset SPARK_HOME, or let it point to a complete Spark 4.3.",
    )


def _pack(classes: Path, jar_path: Path) -> None:
    """Packs a directory into a jar whose bytes do not depend on the time or the machine."""
    with zipfile.ZipFile(jar_path, "w", zipfile.ZIP_DEFLATED) as archive:
        manifest = f"Manifest-Version: 1.0\nImplementation-Version: {__version__}\n\n"
        archive.writestr(_entry("META-INF/MANIFEST.MF"), manifest)
        for file in sorted(path for path in classes.rglob("*") if path.is_file()):
            archive.writestr(_entry(file.relative_to(classes).as_posix()), file.read_bytes())


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # its date is 1980-01-01
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock that the system releases when the process ends."""
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
